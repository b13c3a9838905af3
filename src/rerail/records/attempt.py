"""Which job, and which execution of it. Job ids wrap and a requeue resets the submit time, so neither is enough alone."""

from datetime import datetime

from rerail.records.record import Record


class JobKey(Record):
    """A job for all its life: cluster, job id, and the submit time at first sight (UTC, whole seconds)."""

    cluster: str
    job_id: str
    submitted_at: datetime

    def __str__(self) -> str:
        return f"{self.cluster}/{self.job_id}/{int(self.submitted_at.timestamp())}"


class Attempt(Record):
    """One execution of a job. `number` is our counter from 1; `restarts` and `started_at` tie it to the scheduler's record."""

    job: JobKey
    number: int
    restarts: int = 0
    submitted_at: datetime | None = None
    """As the scheduler says it now; a requeue resets it."""
    started_at: datetime | None = None

    def __str__(self) -> str:
        return f"{self.job}/{self.number}"
