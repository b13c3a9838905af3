"""Jobs that were to run after this one. One that starts on a failed attempt would run beside a restart of that attempt."""

import re
from collections.abc import Iterable, Mapping

from rerail.records import Job, JobState

FREED_BY_FAILURE = ("afterany", "afternotok")
"""Kinds of dependency that a failed attempt fulfils."""

MOST = 8
"""Dependants remembered of one job."""

_CLAUSE = re.compile(r"(after[a-z]*):([0-9_*+:()a-z]+)")
_ID = re.compile(r"([0-9]+)(_[0-9]+|_\*)?")


Index = Mapping[str, tuple[str, ...]]
"""By a job's id as dependencies name it: the jobs that its failure would set free."""


def index(queue: Iterable[Job]) -> Index:
    """Made once a reading; most jobs depend on nothing."""
    found: dict[str, tuple[str, ...]] = {}
    for job in queue:
        if job.dependency and job.state is JobState.PENDING:
            for name in waits_for(job.dependency):
                found[name] = (*found.get(name, ()), job.job_id)
    return found


def waits_for(dependency: str) -> frozenset[str]:
    """The ids whose failure fulfils (a part of) the dependency; a whole array is `12` or `12_*`."""
    clauses = [rest for kind, rest in _CLAUSE.findall(dependency) if kind in FREED_BY_FAILURE]
    return frozenset(number + task for rest in clauses for number, task in _ID.findall(rest))


def of(job: Job, known: Index) -> tuple[str, ...]:
    """The ids of the jobs that a failure of this one would set free."""
    whole = (job.array_job_id, f"{job.array_job_id}_*") if job.array_job_id else ()
    found = dict.fromkeys(other for name in (job.job_id, *whole) for other in known.get(name, ()))
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
