"""The steps proposed, in order, with the rule that chose them; or a refusal with its reason."""

from datetime import datetime

from rerail.records.record import Record
from rerail.records.words import StepKind


class Step(Record):
    """One step of a plan and why it is there."""

    kind: StepKind
    nodes: tuple[str, ...] = ()
    why: str = ""


class Plan(Record):
    """What policy proposes for one incident. `id` is a digest of verdict, attempt and steps: approvals are bound to it."""

    id: str
    rule: str
    steps: tuple[Step, ...] = ()
    ask: bool = True
    """True when a person has to approve before anything is done."""
    reasons: tuple[str, ...] = ()
    refusal: str = ""
    """Why nothing can be done, when nothing can."""
    requeue_until: datetime | None = None
    nodes_needed: int = 0
    nodes_eligible: int = 0
    """How many nodes remain that may take the job, after this plan."""
    lifts: bool = False
    """True when the owner's --no-requeue has to be lifted for it, and policy allows that."""
    again: str = ""
    """The command by which a person submits the job again, once its scheduler can no longer requeue it."""

    @property
    def excluded(self) -> tuple[str, ...]:
        """The nodes that the plan keeps this job away from."""
        return tuple(n for s in self.steps if s.kind is StepKind.EXCLUDE for n in s.nodes)

    def has(self, kind: StepKind) -> bool:
        """True when a step of that kind is in the plan."""
        return any(s.kind is kind for s in self.steps)
