"""Which job and which attempt a scheduler's record is. A requeue resets the submit time and job ids wrap."""

from datetime import UTC, datetime

from rerail.records import Attempt, Job, JobKey


def sight(job: Job, known: Attempt | None, now: datetime) -> Attempt:
    """The attempt that the record shows: of the known job, or the first one of another job that was given the same id."""
    return attempt_one(job, now) if known is None or is_another(job, known) else advance(known, job)


def attempt_one(job: Job, now: datetime) -> Attempt:
    """The first attempt that we see of a job; its submit time at this first sight names the job from now on."""
    key = JobKey(cluster=job.cluster, job_id=job.job_id, submitted_at=whole_second(job.submitted_at or now))
    return shown(key, 1, job)


def is_another(job: Job, known: Attempt) -> bool:
    """True when the id was given to a new job: it counts restarts from the start again, or was submitted without one."""
    if job.restarts < known.restarts:
        return True
    return job.restarts == known.restarts and later(job.submitted_at, known.submitted_at)


def advance(attempt: Attempt, job: Job) -> Attempt:
    """The same attempt, or a later one by the scheduler's restart counter or start time."""
    more = job.restarts - attempt.restarts
    if more <= 0 and later(job.started_at, attempt.started_at):
        more = 1
    if more > 0 or (attempt.started_at is None and job.started_at is not None):
        return shown(attempt.job, attempt.number + more, job)
    return attempt


def shown(key: JobKey, number: int, job: Job) -> Attempt:
    """The attempt as the record shows it."""
    return Attempt(
        job=key,
        number=number,
        restarts=job.restarts,
        submitted_at=job.submitted_at,
        started_at=job.started_at,
    )


def later(now: datetime | None, then: datetime | None) -> bool:
    """True when both are known and the first is later."""
    return now is not None and then is not None and now > then


def whole_second(at: datetime) -> datetime:
    """UTC without fractions: what a workflow id can carry."""
    return at.astimezone(UTC).replace(microsecond=0)
