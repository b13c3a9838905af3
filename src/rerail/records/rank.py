"""One process of a job, where a scheduler can tell."""

from datetime import datetime

from rerail.records.record import Record


class Rank(Record):
    """A global rank, the node it runs on, and its process's state as the kernel names it (R, S, D, T, Z; empty when gone)."""

    rank: int
    node: str
    pid: int | None = None
    state: str = ""
    exit_code: int | None = None
    exit_signal: int | None = None
    ended_at: datetime | None = None
