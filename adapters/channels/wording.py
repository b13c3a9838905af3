"""A notice as channels send it: JSON, bounded, without control characters or secrets. It may quote what strangers wrote."""

import json
import re
from urllib.parse import urlsplit

from rerail.records import Notice
from rerail.redaction import redacted

MAX_LINE = 300
MAX_TEXT = 4_000
"""Chat services cut messages at 3,000 to 4,000 characters."""
MAX_LINK = 2_000

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
"""C0 and C1 without tab and newline; marks that turn the direction of text; line ends of Unicode; lone surrogates."""


def payload(notice: Notice) -> bytes:
    """The notice as UTF-8 JSON, the same bytes on every retry."""
    said = {
        "key": line(notice.key),
        "kind": notice.kind.value,
        "cluster": line(notice.cluster),
        "job_id": line(notice.job_id),
        "incident": line(notice.incident),
        "title": line(redacted(notice.title)),
        "text": text(redacted(notice.text)),
        "link": _link(notice.link),
        "at": notice.at.isoformat(),
    }
    return json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode()


def line(words: str) -> str:
    """One printable line of at most 300 characters."""
    return _cut(" ".join(_CONTROL.sub("", words).split()), MAX_LINE)


def text(words: str) -> str:
    """Printable lines of at most 4,000 characters together."""
    return _cut(_CONTROL.sub("", words.replace("\r\n", "\n")), MAX_TEXT)


def _cut(words: str, limit: int) -> str:
    return words if len(words) <= limit else words[: limit - 1] + "\N{HORIZONTAL ELLIPSIS}"


def _link(link: str) -> str:
    """Only whole links to web pages; half a link leads elsewhere."""
    if len(link) > MAX_LINK or _CONTROL.search(link) or any(mark.isspace() for mark in link):
        return ""
    return link if link.startswith(("http://", "https://")) and urlsplit(link).netloc else ""
