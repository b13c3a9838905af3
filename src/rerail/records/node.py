"""A scheduler's record of a node."""

from datetime import datetime

from rerail.records.record import Record
from rerail.records.words import NodeState


class Node(Record):
    """Whether work can land there, and what somebody wrote as the reason."""

    name: str
    state: NodeState = NodeState.UNKNOWN
    partitions: tuple[str, ...] = ()
    reason: str = ""
    reason_by: str = ""
    """Who wrote it; known where one node is read."""
    reason_at: datetime | None = None
    busy: bool = False
