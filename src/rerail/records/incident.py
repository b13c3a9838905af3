"""An incident as people see it: what a query of RemediateJob answers."""

from datetime import datetime

from rerail.records.anomaly import Anomaly
from rerail.records.decision import Recorded
from rerail.records.outcome import Outcome, Recovery
from rerail.records.plan import Plan
from rerail.records.record import Record
from rerail.records.verdict import Verdict
from rerail.records.words import Stage


class Incident(Record):
    """One anomaly's life so far."""

    id: str
    """The workflow id."""
    stage: Stage
    anomaly: Anomaly
    joined: tuple[Anomaly, ...] = ()
    verdict: Verdict | None = None
    plan: Plan | None = None
    decided: Recorded | None = None
    outcome: Outcome | None = None
    waiting_since: datetime | None = None
    expires_at: datetime | None = None
    bundle: str = ""
    """Folder, on the worker's host, with the copied evidence."""
    history: tuple[Recovery, ...] = ()
    """What was done about the job before."""
    notes: tuple[str, ...] = ()
    """What else a reader should know: refused messages, joins, pauses; bounded."""
