"""Jobs that were to run after this one. One that starts on a failed attempt and a restart of that attempt would run side by side."""

import re
from collections.abc import Iterable

from rerail.records import Job, JobState

FREED_BY_FAILURE = ("afterany", "afternotok")
"""Kinds of dependency that a failed attempt fulfils."""

MOST = 8
"""Dependants remembered of one job."""

_CLAUSE = re.compile(r"(after[a-z]*):([0-9_*+:()a-z]+)")
_ID = re.compile(r"([0-9]+)(_[0-9]+|_\*)?")


def waits_for(other: Job, job: Job) -> str:
    """The kind of dependency (`afterany` ...) by which a job waits for the end of another one; empty when it doesn't."""
    names = {job.job_id, job.job_id.partition("+")[0]}
    if job.array_job_id:
        names |= {f"{job.array_job_id}_*", job.array_job_id}
    for kind, rest in _CLAUSE.findall(other.dependency):
        if kind != "after" and names & {number + task for number, task in _ID.findall(rest)}:
            return str(kind)
    return ""


def of(job: Job, queue: Iterable[Job]) -> tuple[Job, ...]:
    """The jobs of the queue that a failure of this one would set free."""
    found = (o for o in queue if o.dependency and o.state is JobState.PENDING and waits_for(o, job) in FREED_BY_FAILURE)
    return tuple(found)[:MOST]


def hindrance(job: Job, dependants: Iterable[Job]) -> str:
    """Why a restart would run beside a dependant; empty when none is in the way.

    A job that still runs and is requeued frees nobody. One that failed has freed them: they run, or will as soon as they can,
    unless somebody holds or cancels them.
    """
    for other in dependants:
        if other.state in (JobState.RUNNING, JobState.SUSPENDED):
            return f"job {other.job_id} was to run after this one had failed, and has started: restarted, both would run"
        if other.state.ended and other.state is not JobState.CANCELLED:
            return f"job {other.job_id} was to run after this one had failed, and has run already ({other.state})"
        if other.state is JobState.PENDING and job.state.ended and not other.held:
            return (
                f"job {other.job_id} was to run after this one had failed, and would start while it is restarted; "
                f"`scontrol hold {other.job_id}` or `scancel {other.job_id}` first, then ask again"
            )
    return ""
