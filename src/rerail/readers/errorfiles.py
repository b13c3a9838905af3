"""Error files of torch elastic: what a rank raised, with a time that orders the ranks."""

import json
import re
from datetime import UTC, datetime
from typing import Any, NamedTuple

from rerail.readers import lines

MOST_BYTES = 1 << 20


class ErrorFile(NamedTuple):
    """One rank's own word about its end. `at` is naive UTC."""

    source: str
    rank: int | None
    at: datetime | None
    raised: str
    """The exception's last line, bounded."""


def read(source: str, data: bytes) -> ErrorFile | None:
    """What an error file says; None when it is none."""
    try:
        said = json.loads(data[:MOST_BYTES])
    except (ValueError, RecursionError):
        return None
    message = said.get("message") if isinstance(said, dict) else None
    if isinstance(message, str):
        return ErrorFile(source, rank_of(source), None, _last(message))
    if not isinstance(message, dict):
        return None
    extra = message.get("extraInfo")
    stamp = extra.get("timestamp") if isinstance(extra, dict) else None
    return ErrorFile(source, rank_of(source), _time(stamp), _last(str(message.get("message", ""))))


def rank_of(source: str) -> int | None:
    """The rank that a path names: `error_12.json`, `rank12/error.json`, `12/error.json`."""
    match = re.search(r"(?:error|rank)[-_]?(\d{1,7})\.json$|(?:^|/)(?:rank[-_]?)?(\d{1,7})/error\.json$", source)
    return int(match[1] or match[2]) if match else None


def _last(message: str) -> str:
    said = [line for line in message[-4000:].split("\n") if line.strip()]
    return lines.excerpt(said[-1]) if said else ""


def _time(stamp: Any) -> datetime | None:
    try:
        return datetime.fromtimestamp(int(stamp), UTC).replace(tzinfo=None)
    except (TypeError, ValueError, OverflowError, OSError):
        return None
