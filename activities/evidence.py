"""Copying the evidence before anything is restarted: a requeue truncates logs."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

from activities.asks import Place
from activities.requeued import who_requeued
from activities.tail import all_paths
from rerail import hostlist
from rerail.errors import RerailError
from rerail.ports import Hosts, Logs, Scheduler
from rerail.records import Anomaly, Attempt, Job, JobState, Kind, Requeuer

LOG_HEAD = 1 << 20
"""Bytes kept of a log's beginning: versions, ranks and nodes are told there."""

LOG_TAIL = 64 << 20
"""Bytes kept of its end; with the head, what a worker reads in some tenths of a second."""

KERNEL_TAIL = 1 << 20
"""Bytes kept of each node's kernel log."""

SETTLE_S = 6.0
"""How long a crash may take to end the whole job before we look: torchrun and srun tear down within a few seconds."""

PIECE = 1 << 20

SCRIPT = "batch.sh"
"""The batch script's name in a bundle."""

T = TypeVar("T")


@dataclass(frozen=True)
class Sources:
    """Where the evidence of one cluster comes from."""

    scheduler: Scheduler
    logs: Logs
    hosts: Hosts


@dataclass(frozen=True)
class Bundle:
    """The copied evidence of one incident, in the layout of a case, so that `rerail diagnose FOLDER` judges it again offline."""

    folder: Path
    job: Job
    ends: dict[str, Place]
    """Where each log of the attempt ended: what comes after it is the next attempt's."""
    missing: tuple[str, ...] = ()
    """What could not be copied, and why."""


def collect(sources: Sources, anomaly: Anomaly, folder: Path) -> Bundle:
    """Copy log, kernel logs, processes and the scheduler's record; what can't be read is left out and named in missing.json."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "job.log").unlink(missing_ok=True)  # of an earlier try that was cut off
    job = as_it_ended(sources, settled(sources.scheduler, anomaly), anomaly)
    missing: dict[str, str] = {}
    ends: dict[str, Place] = {}
    for name, path in all_paths(sources.logs, job).items():
        copy = partial(copy_log, sources.logs, path, anomaly.begins.get(name, 0), folder / "job.log")
        end = keep(missing, f"the log ({name})", copy)
        if end is not None:
            ends[name] = end
    for node in job.nodes:
        keep(missing, f"the kernel log of {node}", partial(copy_kernel_log, sources.hosts, node, anomaly.attempt, folder))
    keep(missing, "the processes", lambda: copy_processes(sources.scheduler, job, folder))
    keep(missing, "the scheduler's record", lambda: copy_record(sources.scheduler, job, folder))
    keep(missing, "the batch script", lambda: copy_script(sources.scheduler, job, folder))
    write(folder / "missing.json", missing)
    return Bundle(folder=folder, job=job, ends=ends, missing=tuple(f"{what}: {why}" for what, why in missing.items()))


def settled(scheduler: Scheduler, anomaly: Anomaly) -> Job:
    """The job's record once a crash has run its course, or after SETTLE_S."""
    until = time.monotonic() + SETTLE_S
    while True:
        job = scheduler.job(anomaly.attempt.job.job_id)
        over = job.state.ended and not job.completing
        if over or anomaly.kind is not Kind.CRASH or job.restarts != anomaly.attempt.restarts or time.monotonic() > until:
            return job
        time.sleep(0.2)


ENDED_BY = {Requeuer.NODE_FAILURE: JobState.NODE_FAIL, Requeuer.PREEMPTION: JobState.PREEMPTED}
"""What the attempt came to that the scheduler has sent back to the queue by itself."""


def as_it_ended(sources: Sources, job: Job, anomaly: Anomaly) -> Job:
    """The record of the attempt that failed: of a job that is back in the queue the scheduler no longer tells it."""
    if job.restarts <= anomaly.attempt.restarts or not anomaly.ran_on:
        return job
    by = who_requeued(sources.scheduler, sources.logs, job, anomaly.attempt, anomaly.ran_on)
    was = {"nodes": hostlist.expand(anomaly.ran_on), "started_at": anomaly.attempt.started_at, "ended_at": anomaly.seen_at}
    state = ENDED_BY.get(by, job.state) if by else job.state
    return job.model_copy(update={**was, "state": state, "restarts": anomaly.attempt.restarts})


def copy_script(scheduler: Scheduler, job: Job, folder: Path) -> None:
    """For a job that can no longer be requeued. It may hold secrets, so that only our own user reads it."""
    script = scheduler.script(job.job_id)
    if script:
        target = folder / SCRIPT
        target.touch(0o600)
        target.write_bytes(script)


def keep(missing: dict[str, str], name: str, copy: Callable[[], T]) -> T | None:
    """Copy one piece of evidence; a source that can't be read is an unknown, not a failure."""
    try:
        return copy()
    except RerailError as error:
        missing[name] = str(error)[:300]
        return None


def copy_log(logs: Logs, path: str, begin: int, target: Path) -> Place:
    """Append the log's head and tail to `target`; what lies between is told by a line in their place."""
    size = logs.read(path, 0, 0).size
    begin = begin if begin <= size else 0
    spans = [(begin, size)]
    if size - begin > LOG_HEAD + LOG_TAIL:
        spans = [(begin, begin + LOG_HEAD), (size - LOG_TAIL, size)]
    with target.open("ab") as out:
        for start, end in spans:
            if start != begin:
                out.write(b"\n[rerail: %d bytes in between were not copied]\n" % (start - begin - LOG_HEAD))
            for offset in range(start, end, PIECE):
                out.write(logs.read(path, offset, min(PIECE, end - offset)).data)
    return Place(offset=size, fingerprint=logs.fingerprint_at(path, size), begin=size)


def copy_kernel_log(hosts: Hosts, node: str, attempt: Attempt, folder: Path) -> None:
    since = attempt.started_at or datetime.fromtimestamp(0, UTC)
    text = hosts.kernel_log(node, since, KERNEL_TAIL)
    if text is not None:
        (folder / "dmesg").mkdir(exist_ok=True)
        (folder / "dmesg" / f"{node}.log").write_bytes(text)


def copy_processes(scheduler: Scheduler, job: Job, folder: Path) -> None:
    """Where each rank ran, and how its process fares, where the scheduler can tell."""
    ranks = scheduler.ranks(job)
    if ranks:
        write(folder / "processes.json", [rank.model_dump(mode="json") for rank in ranks])
        write(folder / "ranks.json", {str(rank.rank): rank.node for rank in ranks})


def copy_record(scheduler: Scheduler, job: Job, folder: Path) -> None:
    """The scheduler's record in the words of a case."""
    mine = set(job.nodes)
    states = {n.name: f"{n.state} ({n.reason})" if n.reason else str(n.state) for n in scheduler.nodes() if n.name in mine}
    record = {
        "job_id": job.job_id,
        "state": job.state.upper(),
        "exit_code": f"{job.exit_code or 0}:{job.exit_signal or 0}",
        "nodes": list(job.nodes),
        "reason": job.reason,
        "node_states": states,
        "failed_node": job.failed_node,
        "cancelled_by": job.cancelled_by,
        "restart_count": job.restarts,
        "started_at": job.started_at and job.started_at.isoformat(),
        "ended_at": job.ended_at and job.ended_at.isoformat(),
        "sampled_at": datetime.now(UTC).isoformat(),
    }
    write(folder / "scheduler.json", record)


def write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
