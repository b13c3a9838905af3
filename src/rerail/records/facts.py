"""What a plan relies on, read again right before acting."""

from datetime import datetime

from rerail.records.job import Job
from rerail.records.owner import Owner
from rerail.records.record import Record
from rerail.records.words import Requeuer


class Facts(Record):
    """The state of the job and of the nodes it could run on, at one moment."""

    job: Job
    read_at: datetime
    eligible_nodes: tuple[str, ...] = ()
    """Nodes up, in the job's partition, not excluded by anyone."""
    requeued_by: Requeuer | None = None
    """Who sent the failed attempt back to the queue, where somebody has."""
    dependants: tuple[Job, ...] = ()
    """Jobs that wait for the end of this one, or that did and have started."""
    owner: Owner | None = None
    """Who else restarts this job."""
    cannot_drain: str = ""
    """Why rerail can't drain nodes here; empty when it can, and where nobody asked."""
    void: str = ""
    """A sentence when an approval given for the earlier facts no longer holds."""
