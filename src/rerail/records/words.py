"""The one set of words for judgement; docs/vocabulary.md says what each means."""

from enum import StrEnum


class Kind(StrEnum):
    """What a detector saw."""

    CRASH = "crash"
    HANG = "hang"
    STRAGGLER = "straggler"
    NONE = "none"


class FaultClass(StrEnum):
    """Where the root cause lies."""

    HARDWARE = "hardware"
    SYSTEM = "system"
    APPLICATION = "application"
    NONE = "none"
    UNKNOWN = "unknown"


class Advice(StrEnum):
    """What an expert would say; a policy turns it into a plan."""

    RESTART_EXCLUDING_NODES = "restart_excluding_nodes"
    RESTART = "restart"
    STOP = "stop"
    NO_ACTION = "no_action"


class Role(StrEnum):
    """What a matched line is: the cause itself, an echo of it, or nothing to worry about."""

    ROOT = "root"
    CASCADE = "cascade"
    NOISE = "noise"


class Mode(StrEnum):
    """Monitor proposes and waits for a person; autonomous acts within the limits."""

    MONITOR = "monitor"
    AUTONOMOUS = "autonomous"


class Drain(StrEnum):
    """Whether a node may be taken away from everybody: never, or where a person says so in the approval."""

    NEVER = "never"
    ASK = "ask"


class JobState(StrEnum):
    """A scheduler's base state of a job, in our words; flags (completing, requeued ...) are kept beside it."""

    PENDING = "pending"
    RUNNING = "running"
    SUSPENDED = "suspended"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"
    PREEMPTED = "preempted"
    OUT_OF_MEMORY = "out_of_memory"
    NODE_FAIL = "node_fail"
    BOOT_FAIL = "boot_fail"
    DEADLINE = "deadline"
    UNKNOWN = "unknown"

    @property
    def ended(self) -> bool:
        """True when nothing of this attempt runs any more."""
        return self not in (JobState.PENDING, JobState.RUNNING, JobState.SUSPENDED, JobState.UNKNOWN)

    @property
    def broken(self) -> bool:
        """True when the attempt ended by a failure, not by anyone's will and not by success."""
        return self in (JobState.FAILED, JobState.OUT_OF_MEMORY, JobState.NODE_FAIL, JobState.BOOT_FAIL)


class NodeState(StrEnum):
    """Whether new work can land on a node."""

    UP = "up"
    DRAINED = "drained"
    DOWN = "down"
    UNKNOWN = "unknown"


class StepKind(StrEnum):
    """One step of a plan."""

    EXCLUDE = "exclude"
    DRAIN = "drain"
    RESTART = "restart"
    WATCH = "watch"
    STOP = "stop"
    TELL = "tell"
    NOTHING = "nothing"


class Requeuer(StrEnum):
    """Who sent an attempt back to the queue."""

    NODE_FAILURE = "node_failure"
    PREEMPTION = "preemption"
    MAINTENANCE = "maintenance"
    SOMEBODY = "somebody"


class Stage(StrEnum):
    """Where an incident stands; the value of the search attribute RerailStage."""

    DIAGNOSING = "diagnosing"
    AWAITING_APPROVAL = "awaiting_approval"
    PAUSED = "paused"
    ACTING = "acting"
    VERIFYING = "verifying"
    CLOSED = "closed"


class Result(StrEnum):
    """How an incident ended."""

    RECOVERED = "recovered"
    STOPPED = "stopped"
    NO_ACTION = "no_action"
    REJECTED = "rejected"
    EXPIRED = "expired"
    VOIDED = "voided"
    REFUSED = "refused"
    FAILED = "failed"


class Verb(StrEnum):
    """What a person decides."""

    APPROVE = "approve"
    REJECT = "reject"


class RowKind(StrEnum):
    """What an audit row tells."""

    DETECTED = "detected"
    VERDICT = "verdict"
    PLAN = "plan"
    DECISION = "decision"
    GRANT = "grant"
    ACTION = "action"
    READ_BACK = "read_back"
    OUTCOME = "outcome"
    PAUSE = "pause"
    RESUME = "resume"
    READMIT = "readmit"
    BLIND = "blind"
    SIGHTED = "sighted"


class NoticeKind(StrEnum):
    """What people are told."""

    OPENED = "opened"
    WAITING = "waiting"
    REMINDER = "reminder"
    DONE = "done"
    BLIND = "blind"
    SIGHTED = "sighted"
