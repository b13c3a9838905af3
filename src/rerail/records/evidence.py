"""The lines that a verdict stands on."""

from datetime import datetime

from rerail.records.record import Record
from rerail.records.words import Role


class Excerpt(Record):
    """One line of one source: bounded to 300 characters, control characters replaced."""

    source: str
    """File inside the case: job.log, dmesg/NODE.log, scheduler.json ..."""
    line: int | None = None
    text: str = ""
    role: Role = Role.ROOT
    signature: str = ""
    node: str = ""
    rank: int | None = None
    at: datetime | None = None
