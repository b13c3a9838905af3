"""Everything that crosses a durable boundary: frozen records, one noun a module, new fields always with defaults."""

from rerail.records.anomaly import Anomaly
from rerail.records.attempt import Attempt, JobKey
from rerail.records.audit import AuditRow
from rerail.records.decision import Decision, Recorded
from rerail.records.evidence import Excerpt
from rerail.records.facts import Facts
from rerail.records.grant import Grant, GrantAsk, GuardState, Isolated, Isolation
from rerail.records.incident import Incident
from rerail.records.job import Job, Reading
from rerail.records.node import Node
from rerail.records.notice import Notice
from rerail.records.outcome import Outcome, Recovery
from rerail.records.owner import Habits, Owner
from rerail.records.plan import Plan, Step
from rerail.records.rank import Rank
from rerail.records.record import Record
from rerail.records.verdict import Verdict
from rerail.records.watch import ClusterState, JobWatch
from rerail.records.words import (
    Advice,
    Drain,
    FaultClass,
    JobState,
    Kind,
    Mode,
    NodeState,
    NoticeKind,
    Requeuer,
    Result,
    Role,
    RowKind,
    Stage,
    StepKind,
    Verb,
)

__all__ = [
    "Advice",
    "Anomaly",
    "Attempt",
    "AuditRow",
    "ClusterState",
    "Decision",
    "Drain",
    "Excerpt",
    "Facts",
    "FaultClass",
    "Grant",
    "GrantAsk",
    "GuardState",
    "Habits",
    "Incident",
    "Isolated",
    "Isolation",
    "Job",
    "JobKey",
    "JobState",
    "JobWatch",
    "Kind",
    "Mode",
    "Node",
    "NodeState",
    "Notice",
    "NoticeKind",
    "Outcome",
    "Owner",
    "Plan",
    "Rank",
    "Reading",
    "Record",
    "Recorded",
    "Recovery",
    "Requeuer",
    "Result",
    "Role",
    "RowKind",
    "Stage",
    "Step",
    "StepKind",
    "Verb",
    "Verdict",
]
