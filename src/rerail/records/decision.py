"""What a person said to a plan."""

from datetime import datetime

from rerail.records.record import Record
from rerail.records.words import Verb


class Decision(Record):
    """Sent as JSON to the update `decide`: verdict, reason, by; `plan` binds it to the plan that was shown."""

    verdict: Verb
    reason: str
    by: str
    plan: str = ""
    drain: bool = False
    """True when the plan's drain is approved, too: a plan is never approved with it unless this says so."""


class Recorded(Record):
    """A decision as it was taken: how it came, when, and the identity that Temporal recorded beside the name given."""

    decision: Decision
    way: str
    """update, signal, cancel or policy."""
    at: datetime
    identity: str = ""
    """Empty until an activity has read it from the history, and where the server recorded none."""
