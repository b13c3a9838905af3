"""Secrets taken out of texts before they are kept or sent. Pure; linear in time on hostile text.

It errs on the side of the secret: a harmless word after `password=` is lost, too.
"""

import re
from collections.abc import Callable

MASK = "[redacted]"

_KEY_WORDS = (
    r"(?:pass(?:word|wd|phrase)|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|credentials?|(?<![a-z])(?:pass|pwd))"
)
_NAME_END = r"(?:[_-](?:id|key|value))?"

PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)", re.DOTALL)
AUTHORIZATION = re.compile(
    r"(?i)\b((?:proxy-)?authorization[\"']?\s{0,4}[:=]\s{0,4}[\"']?)(?:(basic|bearer|digest|negotiate|token)\s+)?[^\s\"',;]+"
)
BEARER = re.compile(r"(?i)\b(bearer\s+)[A-Za-z0-9._~+/=-]{8,}")
URL_CREDENTIALS = re.compile(r"\b([A-Za-z][A-Za-z0-9+.-]{1,20}://)[^\s/@\"'<>]{1,400}@")
ASSIGNED = re.compile(
    rf"(?i)({_KEY_WORDS}{_NAME_END}[\"']?\s{{0,4}}(?:=|:(?!//))\s{{0,4}})(?:\"[^\"\n]*\"|'[^'\n]*'|[^\s\"',;&)\]}}]+)"
)
FLAG = re.compile(rf"(?i)(--[a-z0-9-]{{0,40}}{_KEY_WORDS}{_NAME_END}\s+)(?!-)[^\s\"',;]+")
AWS_KEY_ID = re.compile(r"\b(?:AKIA|ASIA|AGPA|AIDA|AROA)[A-Z0-9]{16}\b")
KNOWN_TOKENS = re.compile(
    r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{20,}|xox[abeprs]-[A-Za-z0-9-]{10,}|hf_[A-Za-z0-9]{20,}"
    r"|sk-[A-Za-z0-9_-]{20,}|AIza[A-Za-z0-9_-]{35}|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*)"
)
EMAIL = re.compile(
    r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){0,8}\.[A-Za-z]{2,24}\b"
)

_ROWS: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (PRIVATE_KEY, MASK),
    (AUTHORIZATION, rf"\1{MASK}"),
    (BEARER, rf"\1{MASK}"),
    (URL_CREDENTIALS, rf"\1{MASK}@"),
    (ASSIGNED, rf"\1{MASK}"),
    (FLAG, rf"\1{MASK}"),
    (AWS_KEY_ID, MASK),
    (KNOWN_TOKENS, MASK),
)
SECRET_NAME = re.compile(rf"(?i).*{_KEY_WORDS}{_NAME_END}|(?:proxy-)?authorization")


def redacted(text: str, *, people: bool = False) -> str:
    """`text` without passwords, tokens, keys and URL credentials. E-mail addresses go, too, unless `people`: a decision
    keeps the name of who took it. Redacting twice changes nothing more."""
    for pattern, mask in _ROWS:
        text = pattern.sub(mask, text)
    return text if people else EMAIL.sub(MASK, text)


def names_secret(name: str) -> bool:
    """True for a field such as `password`, `api_key` or `RERAIL_TOKEN`, whose value is to be masked whatever it looks like."""
    return SECRET_NAME.fullmatch(name) is not None
