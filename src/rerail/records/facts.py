"""What a plan relies on, read again right before acting."""

from datetime import datetime

from rerail.records.job import Job
from rerail.records.record import Record


class Facts(Record):
    """The state of the job and of the nodes it could run on, at one moment."""

    job: Job
    read_at: datetime
    eligible_nodes: tuple[str, ...] = ()
    """Nodes up, in the job's partition, not excluded by anyone."""
    void: str = ""
    """A sentence when an approval given for the earlier facts no longer holds."""
