"""A signature: one known failure's recognisable trace in a log line, with what it says about the failure."""

from enum import StrEnum

from rerail.records import Advice, FaultClass, Kind, Role
from rerail.records.record import Record


class Scope(StrEnum):
    """What the line points at: one machine, one process, the whole job, or a service that jobs share."""

    NODE = "node"
    RANK = "rank"
    JOB = "job"
    SERVICE = "service"


class Signature(Record):
    """One row of the catalogue. What a row says holds for its line alone: spread over nodes and order in time come later.

    `pattern` is RE2 syntax (no look-around, no back-reference), searched within one line of bytes. Named groups carry names out
    of the line: `node` or `nodes` (a name or a Slurm hostlist) and `rank` or `ranks` of whom it accuses, `peer` of the other end,
    which is a lead and no culprit, `code` for an exit code, `signal`, `step`.

    Of a cascade row, `fault`, `cause`, `kind` and `advice` are what can be said when no root is found.
    A noise row says that its whole line is harmless, whatever other rows see in it.
    """

    id: str
    pattern: str
    role: Role
    fault: FaultClass
    scope: Scope
    cause: str
    """snake_case name of the cause."""
    advice: Advice | None = None
    kind: Kind
    why: str
    """One sentence."""
    source: str
    """Where the text is known from: project, man page, driver."""
    example: str
    """One real-looking line; a test proves that this row alone claims it as a root."""
    examples: tuple[str, ...] = ()
    """Other wordings of the same."""
    general: bool = False
    """True for a row that speaks only where no other row knows the line."""

    @property
    def spoken(self) -> tuple[str, ...]:
        """All example lines."""
        return (self.example, *self.examples)
