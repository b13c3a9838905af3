"""What a detector saw; not yet a cause."""

from datetime import datetime

from rerail.records.attempt import Attempt
from rerail.records.record import Record
from rerail.records.words import Kind


class Anomaly(Record):
    """One sighting of something wrong with one attempt. `id` is deterministic, so that a second sighting folds into the first."""

    id: str
    attempt: Attempt
    kind: Kind
    detector: str
    """Which detector or person: exited, stalled, slow, request."""
    seen_at: datetime
    symptom_at: datetime | None = None
    """When the first sign of it happened, where that is known: the job's end, the last progress."""
    why: str = ""
    """One sentence for a person; bounded."""
    last_step: int | None = None
    """The highest training step seen in this attempt."""
    checkpoint_step: int | None = None
    begins: dict[str, int] = {}
    """Where this attempt's part of each log begins, in bytes, where that is not 0: a log may hold earlier attempts too."""
    ranks: tuple[int, ...] = ()
    """Ranks that the detector itself can point at."""
    requested_by: str = ""
    ran_on: str = ""
    """The nodes of this attempt as a hostlist, where its watcher has seen them: the record of a job in the queue names none."""
    dependants: tuple[str, ...] = ()
    """Jobs that wait for the end of this one (their ids), as last seen while they waited."""
