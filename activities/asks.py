"""What workflows hand to activities and get back: one record in, one record out."""

from datetime import datetime
from enum import StrEnum

from rerail.detectors import Symptom, Watched
from rerail.records import (
    Anomaly,
    Attempt,
    Isolation,
    JobState,
    Node,
    Outcome,
    Plan,
    Record,
    Recorded,
    Recovery,
    RowKind,
    Verdict,
)


class SurveyAsk(Record):
    """Which cluster, what is known of its jobs, and when it was last read."""

    cluster: str
    known: dict[str, Attempt] = {}
    read_at: datetime | None = None
    blind_since: datetime | None = None


class Survey(Record):
    """What changed since: new or restarted jobs in scope, ids that the scheduler forgot, or that it can't be read."""

    read_at: datetime | None = None
    appeared: tuple[Attempt, ...] = ()
    updated: tuple[Attempt, ...] = ()
    gone: tuple[str, ...] = ()
    blind_since: datetime | None = None
    blind_why: str = ""


class Place(Record):
    """How far a log has been read: byte offset, and the fingerprint of what lies before it."""

    offset: int = 0
    fingerprint: str = ""
    begin: int = 0
    """Where this attempt's part begins: a log that is appended to holds earlier attempts too."""


class FollowAsk(Record):
    """Which attempt to follow, from where on, and what its detectors know so far."""

    attempt: Attempt
    places: dict[str, Place] = {}
    """By the log's short name: `out`, and `err` where standard error goes elsewhere."""
    watched: Watched | None = None
    blind: bool = False
    """True when it was announced that the log can't be read."""
    ran_on: str = ""
    """The attempt's nodes as a hostlist, once it was seen to run."""
    dependants: tuple[str, ...] = ()
    """Jobs that wait for its end, as last seen."""


class Seen(StrEnum):
    """Why a follow came back."""

    ANOMALY = "anomaly"
    NEXT_ATTEMPT = "next_attempt"
    ENDED = "ended"
    GONE = "gone"
    BLIND = "blind"
    SIGHTED = "sighted"


class Followed(Record):
    """What was seen, and where to go on."""

    seen: Seen
    at: FollowAsk
    symptoms: tuple[Symptom, ...] = ()
    time: datetime
    why: str = ""
    before: Attempt | None = None
    """The attempt that was followed, when the next one is there."""


class FindAsk(Record):
    """A job as a person names it."""

    cluster: str
    job_id: str
    known: Attempt | None = None


class ExamineAsk(Record):
    """Gather the evidence of an anomaly and attribute it."""

    run: str
    """The incident's first run: with the step's name, what an audit row's key is made of."""
    anomaly: Anomaly
    revision: int = 1


class Examined(Record):
    """The verdict, where the copied evidence lies, and the job's last step as the log tells it."""

    verdict: Verdict
    bundle: str
    places: dict[str, Place] = {}
    """The ends of the logs when they were copied."""
    last_step: int | None = None
    checkpoint_step: int | None = None


class ProposeAsk(Record):
    """Make a plan of a verdict."""

    run: str
    anomaly: Anomaly
    verdict: Verdict
    history: tuple[Recovery, ...] = ()
    revision: int = 1
    bundle: str = ""
    """Where the evidence was copied to."""


class Proposed(Record):
    """The plan, and how long an approval may take."""

    plan: Plan
    expires_s: float
    remind_s: float
    comment: bool = False
    """True when the verdict is to stand in the job's comment, too."""
    notes: tuple[str, ...] = ()
    """What the job's owner should know: wishes that nobody understands, or that are not granted."""


class RecheckAsk(Record):
    """Read the facts again, right before acting."""

    run: str
    attempt: Attempt
    plan: Plan
    anomaly: Anomaly | None = None


class Rechecked(Record):
    """Whether an approval still holds."""

    void: str = ""
    """A sentence when it does not."""
    running: bool = False
    nodes_needed: int = 1
    nodes_eligible: int = 0
    """Nodes that may take the job, those of the plan's exclusion included."""
    listed: tuple[str, ...] = ()
    """Nodes of the plan's exclusion that stand on the job's list already: whoever put them there, it was not this plan."""
    owner: str = ""
    """Who restarts the job from now on, when somebody did meanwhile."""


class EffectAsk(Record):
    """One effect on one attempt of a job; `step` names it in the audit trail."""

    run: str
    attempt: Attempt
    nodes: tuple[str, ...] = ()
    lifts: bool = False
    """Lift the owner's --no-requeue first: policy allows it."""
    ours: tuple[str, ...] = ()
    """Nodes that earlier incidents have put on the job's exclusion list; those that were readmitted since come off it."""


class Effect(Record):
    """What a fresh read showed after the effect."""

    state: JobState
    found_done: bool = False
    """True when it was found done already: by an earlier try of ours, or by somebody else."""
    at: datetime


class DrainAsk(Record):
    """Take nodes away from everybody; the reason names the incident and its cause."""

    run: str
    attempt: Attempt
    incident: str
    nodes: tuple[str, ...]
    cause: str


class Drained(Record):
    """The nodes as our drain left them, and a sentence for each that was left alone."""

    nodes: tuple[Node, ...] = ()
    left: tuple[str, ...] = ()


class ReadmitAsk(Record):
    """Give a node back: end our drain, and take it off the lists of jobs; `isolations` are its rows of the ledger."""

    key: str
    """What the keys of its audit rows begin with."""
    cluster: str
    node: str
    isolations: tuple[Isolation, ...]
    by: str
    reason: str


class Readmitted(Record):
    """What was done, or left as it is, and why: a sentence each."""

    said: tuple[str, ...] = ()


class AnnotateAsk(Record):
    """Write our line into the comment of the job."""

    run: str
    step: str
    attempt: Attempt
    word: str


class Annotated(Record):
    """Why it was not written; empty when it was."""

    why_not: str = ""


class VerifyAsk(Record):
    """Watch until training is past the failed step."""

    run: str
    attempt: Attempt
    """The attempt that failed."""
    places: dict[str, Place] = {}
    last_step: int | None = None
    checkpoint_step: int | None = None
    banned: tuple[str, ...] = ()
    give_up_s: float
    told: str = ""
    """Why it waits, as it was told already."""


class Verified(Record):
    """Whether training moves again, and how that was seen."""

    moving: bool
    why: str
    nodes: tuple[str, ...] = ()
    running_at: datetime | None = None
    past_at: datetime | None = None
    resumed_step: int | None = None
    passed_step: int | None = None
    waits: bool = False
    """True when nothing is proved yet: it waits in the queue for the reason `why`, which people should know."""
    unfit: bool = False
    """True when it can't start on any nodes that are left to it."""
    places: dict[str, Place] = {}
    """Where to go on verifying."""


class RecordAsk(Record):
    """Keep a decision; the identity is read from the workflow's own history."""

    run: str
    attempt: Attempt
    recorded: Recorded
    plan: str


class Opened(Record):
    """The incident that the anomaly belongs to now."""

    incident: str
    joined: bool = False
    closed: bool = False
    run: str = ""
    """Its run: a second incident of the same attempt has the same workflow id."""
    tells: bool = False
    """True when there is a channel to tell people on."""


class RequestAsk(Record):
    """A person wants a job remediated."""

    cluster: str
    attempt: Attempt
    by: str
    reason: str


class CloseAsk(Record):
    """Keep how an incident ended."""

    run: str
    attempt: Attempt
    outcome: Outcome


class NoteAsk(Record):
    """Keep something that belongs to no incident."""

    key: str
    kind: RowKind
    cluster: str
    job_id: str = ""
    actor: str = "rerail"
    text: str
    at: datetime


class RemediateInput(Record):
    """What RemediateJob starts with."""

    anomaly: Anomaly
    history: tuple[Recovery, ...] = ()
    tells: bool = False
    """True when there is a channel to tell people on."""


class WatchJobInput(Record):
    """What WatchJob starts with, and carries over a continue-as-new."""

    attempt: Attempt
    follow: FollowAsk | None = None
    history: tuple[Recovery, ...] = ()
    incident: str = ""
    """The open incident, if any."""
    incident_run: str = ""
    anomalies: int = 0
    """How many anomalies were reported: part of their ids."""


class WatchClusterInput(Record):
    """What WatchCluster starts with, and carries over a continue-as-new."""

    cluster: str
    known: dict[str, Attempt] = {}
    read_at: datetime | None = None
    blind_since: datetime | None = None
    blind_why: str = ""


class Told(Record):
    """Channels that will never take a notice, each with its reason."""

    refused: tuple[str, ...] = ()
