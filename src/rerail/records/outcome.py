"""How an incident ended, and what a job remembers of it."""

from datetime import datetime

from rerail.records.record import Record
from rerail.records.words import FaultClass, Kind, Result


class Outcome(Record):
    """The end of an incident. `marks` are the moments of its story: detected, verdict, plan, decided, accepted, running, past."""

    result: Result
    why: str = ""
    marks: dict[str, datetime] = {}
    failed_step: int | None = None
    resumed_step: int | None = None
    checkpoint_step: int | None = None
    passed_step: int | None = None
    nodes: tuple[str, ...] = ()
    """Where the job runs now."""


class Recovery(Record):
    """One line of a job's recovery history, kept by WatchJob: the ground for budgets per cause."""

    attempt: int
    kind: Kind
    fault: FaultClass
    cause: str = ""
    nodes: tuple[str, ...] = ()
    step: int | None = None
    result: Result
    restarted: bool = False
    at: datetime
    by: str = ""
    """Who approved the restart: a person, or the policy."""
    reason: str = ""
    """Why, in their words."""
    why: str = ""
    """What the verdict said."""
    bundle: str = ""
    """Folder, on the worker's host, with the attempt's log and the rest of the evidence."""
    run: str = ""
    """The incident's first run: its workflow id alone may have been used before."""
    excluded: tuple[str, ...] = ()
    """Nodes that we have put on the job's exclusion list; the rest of that list is its owner's."""
    owner: str = ""
    """Who took the job over from us meanwhile, where somebody did."""
