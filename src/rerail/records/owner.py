"""Who else restarts a job, and how a scheduler restarts jobs by itself."""

from rerail.records.record import Record


class Owner(Record):
    """A second owner of a job's restarts, and the sign by which it was known."""

    name: str
    """As people call it: PyTorch Lightning's auto-requeue, RequeueExit in slurm.conf ..."""
    evidence: str = ""
    """Where the sign was found, and what it says; one bounded line."""


class Habits(Record):
    """What a scheduler does by itself when a job ends: exit codes that make it requeue the job, or requeue and hold it."""

    requeue_exits: tuple[int, ...] = ()
    hold_exits: tuple[int, ...] = ()
