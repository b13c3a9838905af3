"""What GuardCluster answers to a wish to isolate."""

from datetime import datetime

from rerail.records.node import Node
from rerail.records.record import Record


class GrantAsk(Record):
    """An incident's wish to keep a job away from nodes."""

    cluster: str
    incident: str
    nodes: tuple[str, ...] = ()
    nodes_needed: int = 1
    nodes_eligible: int = 0
    """Eligible nodes before this isolation, the wished ones included."""
    job: str = ""
    run: str = ""
    """The incident's first run: another incident of the same attempt is another wish."""


class Grant(Record):
    """Granted or refused with a sentence; the same incident asking again gets the same answer."""

    incident: str
    granted: bool
    reason: str = ""
    at: datetime | None = None


class Isolation(Record):
    """One row of the isolation ledger."""

    node: str
    incident: str
    job: str = ""
    since: datetime
    run: str = ""
    excluded: bool = False
    """True once the node is on the job's exclusion list because of us. What its owner had put there himself stays his."""
    restarts: int = 0
    """The job's restart count since then: one of that id with a lower one is another job."""
    drained: Node | None = None
    """The node as our drain left it."""


class Isolated(Record):
    """What an incident tells the guard once it is done."""

    incident: str
    run: str = ""
    job: str = ""
    restarts: int = 0
    excluded: tuple[str, ...] = ()
    drained: tuple[Node, ...] = ()


class GuardState(Record):
    """What GuardCluster holds, and what a query of it answers."""

    cluster: str
    paused: bool = False
    paused_by: str = ""
    paused_why: str = ""
    paused_since: datetime | None = None
    isolations: tuple[Isolation, ...] = ()
    grants: dict[str, Grant] = {}
    """By incident and run; the newest ones."""
    waiting: tuple[str, ...] = ()
    """Incidents that wait for the end of the pause."""
