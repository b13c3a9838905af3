"""One row of the persistent audit trail."""

from datetime import datetime
from typing import Any

from rerail.records.record import Record
from rerail.records.words import RowKind


class AuditRow(Record):
    """What happened, exactly once: `key` is unique over retries and replays (incident's first run id + step)."""

    key: str
    at: datetime
    kind: RowKind
    cluster: str
    job_id: str = ""
    attempt: int | None = None
    incident: str = ""
    actor: str = "rerail"
    """Who did it: rerail, or the person's name as given."""
    text: str = ""
    """One sentence."""
    body: dict[str, Any] = {}
    """The record behind it, as JSON values; bounded."""
