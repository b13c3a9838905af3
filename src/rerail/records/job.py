"""A scheduler's record of a job, in our words."""

from datetime import datetime

from rerail.records.record import Record
from rerail.records.words import JobState


class Job(Record):
    """What the scheduler says of one job at one moment. Times are UTC; an unknown number is None, an unknown text empty."""

    cluster: str
    job_id: str
    name: str = ""
    user: str = ""
    account: str = ""
    partition: str = ""
    qos: str = ""
    state: JobState = JobState.UNKNOWN
    flags: tuple[str, ...] = ()
    """Lower-case flags on top of the base state, unknown ones kept: completing, requeued, requeue_hold ..."""
    reason: str = ""
    exit_code: int | None = None
    exit_signal: int | None = None
    nodes: tuple[str, ...] = ()
    """Allocated nodes in rank order; of an ended job, those it ran on."""
    nodes_needed: int = 1
    restarts: int = 0
    """The scheduler's restart counter; counts preemptions and operators' requeues too, so never a budget."""
    batch: bool = True
    requeue: bool = True
    """False when the owner asked for no requeue."""
    held: bool = False
    excluded_nodes: tuple[str, ...] = ()
    required_nodes: tuple[str, ...] = ()
    """Nodes that its owner asked for by name: it starts on all of them, or not at all."""
    submitted_at: datetime | None = None
    """Reset by a requeue."""
    started_at: datetime | None = None
    ended_at: datetime | None = None
    begins_at: datetime | None = None
    """Earliest start of a pending job."""
    requeue_until: datetime | None = None
    """Until when an ended job can still be requeued; None when it does not end or is not known."""
    time_limit_s: int | None = None
    output: str = ""
    """Path of the log, expanded."""
    error_output: str = ""
    """Path of the log of standard error where it is another one."""
    folder: str = ""
    comment: str = ""
    cancelled_by: str = ""
    failed_node: str = ""
    array_job_id: str = ""
    array_task_id: str = ""
    het_job_id: str = ""
    dependency: str = ""
    """What it waits for, as its owner wrote it: `afternotok:12,singleton` ...; empty once that has come about."""
    command: str = ""
    """The batch script with its arguments, as submitted."""

    @property
    def led(self) -> bool:
        """True for a component of a heterogeneous job beside its leader: it lives, dies and is restarted with the leader."""
        return bool(self.het_job_id) and self.job_id != self.het_job_id

    @property
    def completing(self) -> bool:
        """True while the processes of the attempt are still being cleaned up."""
        return "completing" in self.flags


class Reading(Record):
    """One cluster-wide read: all jobs it still knows, running, pending and recently ended. Never empty for unreadable."""

    cluster: str
    read_at: datetime
    """By the scheduler's clock where that can be told, as the jobs' times are: ours may be off."""
    jobs: tuple[Job, ...] = ()
