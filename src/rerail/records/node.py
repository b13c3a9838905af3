"""A scheduler's record of a node."""

from rerail.records.record import Record
from rerail.records.words import NodeState


class Node(Record):
    """Whether work can land there, and what somebody wrote as the reason."""

    name: str
    state: NodeState = NodeState.UNKNOWN
    partitions: tuple[str, ...] = ()
    reason: str = ""
    busy: bool = False
