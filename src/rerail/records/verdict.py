"""Attribution's conclusion."""

from rerail.records.evidence import Excerpt
from rerail.records.record import Record
from rerail.records.words import Advice, FaultClass, Kind


class Verdict(Record):
    """What kind of anomaly, where its root lies, who is the culprit, what an expert would do, and why.

    Without evidence against a node there is no node in it. `confidence` is 0 to 1.
    """

    kind: Kind
    fault: FaultClass
    cause: str = "unknown"
    """snake_case name of the cause."""
    culprit_nodes: tuple[str, ...] = ()
    culprit_ranks: tuple[int, ...] = ()
    advice: Advice = Advice.RESTART
    confidence: float = 0.0
    evidence: tuple[Excerpt, ...] = ()
    """The few lines that tell, in order of time; at most 8."""
    why: str = ""
    """One or two plain sentences."""
    unknowns: tuple[str, ...] = ()
    """What was missing."""
    rivals: tuple[str, ...] = ()
    """Other causes within reach, each with what would settle it."""
