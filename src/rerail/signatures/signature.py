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
    breadth: int = 0
    """How wide the row catches: 0 a text that says what happened, 1 a general text, 2 and 3 any exception at all.

    Of the rows that hit one line only the narrowest speak.
    """

    @property
    def spoken(self) -> tuple[str, ...]:
        """All example lines."""
        return (self.example, *self.examples)

    @property
    def general(self) -> bool:
        """True for a row that speaks only where no narrower row knows the line."""
        return self.breadth > 0
