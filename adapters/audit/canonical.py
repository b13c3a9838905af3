"""The one form of an audit row as text: the same row gives the same bytes, in every process and release.

JSON without spaces, non-ASCII characters as they are, the row's fields in the order of `FIELDS`, the names inside `body` sorted,
times in UTC with microseconds and `Z`. A hash over these bytes can stand for the row.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from rerail.records import AuditRow
from rerail.redaction import MASK, names_secret, redacted

FIELDS = ("key", "at", "kind", "cluster", "job_id", "attempt", "incident", "actor", "text", "body")
PEOPLE = frozenset({"actor", "by", "identity", "requested_by"})
"""Fields that name who acted: an e-mail address may stand there."""
MAX_BODY_BYTES = 65_536
"""A larger body is replaced by its size and digest; bodies are records with bounded excerpts, 10 KB at the most."""
LOOKED_UP = ("key", "kind", "cluster", "job_id", "incident")
"""Names that rows are found by: our own words, kept whole."""
MAX_TEXT = 2_000
MAX_DEPTH = 24


def canonical_json(row: AuditRow) -> str:
    """The row as its canonical text, redacted and bounded."""
    values = {field: _field(field, getattr(row, field)) for field in FIELDS}
    values["body"] = _bounded(values["body"])
    return _text(values)


def canonical_time(at: datetime) -> str:
    """UTC with microseconds, such as 2026-12-01T09:30:00.000000Z; a time without zone counts as UTC."""
    aware = at if at.tzinfo else at.replace(tzinfo=UTC)
    return aware.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _field(name: str, value: Any) -> Any:
    if name in LOOKED_UP:
        return cleaned(str(value))
    plain = _plain(value, name)
    return plain[:MAX_TEXT] if isinstance(plain, str) else plain


def _plain(value: Any, name: str = "", depth: int = 0) -> Any:
    """JSON values only; what JSON cannot say is told as text."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, Mapping) and depth < MAX_DEPTH:
        pairs = sorted(((cleaned(str(key)), inner) for key, inner in value.items()), key=lambda pair: pair[0])
        return {key: _plain(inner, key, depth + 1) for key, inner in pairs}
    if isinstance(value, (list, tuple)) and depth < MAX_DEPTH:
        return [_plain(inner, name, depth + 1) for inner in value]
    return _words(value, name)


def _words(value: Any, name: str) -> str:
    if isinstance(value, datetime):
        return canonical_time(value)
    if isinstance(value, str) and value and names_secret(name):
        return MASK
    return redacted(cleaned(str(value)), people=name in PEOPLE)


def _bounded(body: Any) -> Any:
    raw = _text(body).encode()
    if len(raw) <= MAX_BODY_BYTES:
        return body
    return {"left_out_bytes": len(raw), "left_out_sha256": hashlib.sha256(raw).hexdigest()}


def cleaned(text: str) -> str:
    """`text` without lone surrogates, which UTF-8 cannot carry, and NUL, which PostgreSQL does not store."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
