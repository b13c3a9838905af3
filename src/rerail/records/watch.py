"""What the watchers answer when they are asked."""

from datetime import datetime

from rerail.records.attempt import Attempt
from rerail.records.outcome import Recovery
from rerail.records.record import Record


class ClusterState(Record):
    """What WatchCluster knows of its cluster."""

    cluster: str
    read_at: datetime | None = None
    blind_since: datetime | None = None
    blind_why: str = ""
    jobs: tuple[Attempt, ...] = ()


class JobWatch(Record):
    """What WatchJob knows of its job."""

    attempt: Attempt
    incident: str = ""
    """The open incident."""
    history: tuple[Recovery, ...] = ()
    last: str = ""
    blind: bool = False
    last_step: int | None = None
