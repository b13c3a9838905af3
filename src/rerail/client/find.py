"""Finding what a person means: an id as the Temporal UI shows it, or a job id as the scheduler prints it."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from temporalio.client import WorkflowExecution, WorkflowExecutionStatus

from rerail import names
from rerail.client.connection import one_line
from rerail.errors import Malformed, NotFound
from rerail.records import ClusterState, GuardState, Incident, JobWatch, Record
from rerail.requests import read_job_request

Explanation = Incident | JobWatch | ClusterState | GuardState
"""What `explain` answers: which of them depends on what was asked about."""


class Sort(StrEnum):
    """What an id names; the value is the workflow's type."""

    INCIDENT = names.REMEDIATE_JOB
    JOB = names.WATCH_JOB
    CLUSTER = names.WATCH_CLUSTER
    GUARD = names.GUARD_CLUSTER


PREFIXES = {"remediate-job/": Sort.INCIDENT, "watch-job/": Sort.JOB, "watch-cluster/": Sort.CLUSTER, "guard-cluster/": Sort.GUARD}
"""How the ids of `rerail.names` begin."""

QUERIES: dict[Sort, tuple[str, type[Any]]] = {
    Sort.INCIDENT: (names.INCIDENT, Incident),
    Sort.JOB: (names.JOB_STATE, JobWatch),
    Sort.CLUSTER: (names.CLUSTER_STATE, ClusterState),
    Sort.GUARD: (names.GUARD_STATE, GuardState),
}
"""What each of them can be asked, and what it answers."""

ID_MAX = 400
"""Characters of a workflow id: cluster, job, submit time and attempt need at most 160."""

RUNNING = "Running"


class Job(Record):
    """A job as a person named it; the cluster is empty where none was named."""

    job_id: str
    cluster: str = ""

    def __str__(self) -> str:
        return f"job {self.job_id} on {self.cluster}" if self.cluster else f"job {self.job_id}"


def sort_of(text: str) -> Sort | None:
    """What an id names; None for what is no id of ours, and then perhaps a job id."""
    return next((sort for prefix, sort in PREFIXES.items() if text.startswith(prefix)), None)


def checked_id(text: str) -> str:
    """An id that can be sent as it is; Malformed otherwise."""
    if len(text) > ID_MAX or not text.isprintable():
        raise Malformed("that is no id: copy it from `rerail pending`, `rerail incidents` or the Temporal UI")
    return text


def job_named(text: str, cluster: str | None) -> Job:
    """The job of a job id; Malformed with a sentence for anything else."""
    try:
        return Job(job_id=read_job_request({"job_id": text}).job_id, cluster=cluster or "")
    except ValueError as error:
        raise Malformed(f"{one_line(text, 60)!r} names nothing: {error}; or name an id from `rerail incidents`") from None


def quoted(value: str) -> str:
    """A string of Temporal's list filter: whatever is in it stays inside it."""
    if not value.isprintable():
        raise Malformed(f"{one_line(value, 60)!r} has characters in it that no name has")
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def where(*sorts: Sort, **attributes: str | None) -> str:
    """A list filter: workflows of these types whose attributes have these values; None leaves one open."""
    types = ", ".join(quoted(sort.value) for sort in sorts)
    parts = [f"WorkflowType IN ({types})", *(f"{name} = {quoted(v)}" for name, v in attributes.items() if v)]
    return " AND ".join(parts)


def choose(found: Sequence[WorkflowExecution], job: Job) -> str:
    """The id that is meant: the open incident, else the open watcher, else the newest that has ended.

    NotFound when there is none, Malformed with the candidates when there are several.
    """
    best = sorted(found, key=rank)
    if not best:
        raise NotFound(
            f"nothing is known of {job}; `rerail incidents` lists what is, `rerail watch CLUSTER JOB` has a job watched"
        )
    equals = [one for one in best if rank(one) == rank(best[0])]
    if rank(best[0])[0]:  # what has ended: the newest of each cluster stands for the older ones
        newest: dict[str, WorkflowExecution] = {}
        for one in sorted(equals, key=lambda one: one.start_time, reverse=True):
            newest.setdefault(cluster_of(one.id), one)
        equals = list(newest.values())
    if len(equals) > 1:
        raise Malformed(f"{job} may be any of these, name one: {', '.join(sorted(one.id for one in equals))}")
    return equals[0].id


def rank(one: WorkflowExecution) -> tuple[bool, bool]:
    """Open before ended, incidents before watchers."""
    return one.status is not WorkflowExecutionStatus.RUNNING, one.workflow_type != Sort.INCIDENT


def cluster_of(workflow_id: str) -> str:
    """The cluster in one of our ids."""
    return workflow_id.split("/")[1] if "/" in workflow_id else ""
