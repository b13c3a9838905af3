"""`squeue --json` of any Slurm from 22.05 on, as jobs in our words.

An answer with errors is no answer: 22.05 exits with 0 and an empty list when its controller is dead.
"""

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from adapters.schedulers.slurm import output, shapes
from adapters.schedulers.slurm.answers import printable
from rerail.errors import Unreadable
from rerail.records import Job, JobState

BASES = {
    "BOOT_FAIL": JobState.BOOT_FAIL,
    "CANCELLED": JobState.CANCELLED,
    "COMPLETED": JobState.COMPLETED,
    "DEADLINE": JobState.DEADLINE,
    "FAILED": JobState.FAILED,
    "NODE_FAIL": JobState.NODE_FAIL,
    "OUT_OF_MEMORY": JobState.OUT_OF_MEMORY,
    "PENDING": JobState.PENDING,
    "PREEMPTED": JobState.PREEMPTED,
    "RUNNING": JobState.RUNNING,
    "SUSPENDED": JobState.SUSPENDED,
    "TIMEOUT": JobState.TIMEOUT,
}

BASE_UNDER_FLAG = {
    "CONFIGURING": JobState.RUNNING,
    "EXPEDITING": JobState.PENDING,
    "POWER_UP_NODE": JobState.RUNNING,
    "REQUEUED": JobState.PENDING,
    "REQUEUE_FED": JobState.PENDING,
    "REQUEUE_HOLD": JobState.PENDING,
    "RESIZING": JobState.RUNNING,
    "SIGNALING": JobState.RUNNING,
    "SPECIAL_EXIT": JobState.PENDING,
    "STOPPED": JobState.RUNNING,
}
"""22.05 prints a flag in place of the base state that it stands on."""

BASE_BY_REASON = {
    "NonZeroExitCode": JobState.FAILED,
    "JobLaunchFailure": JobState.FAILED,
    "TimeLimit": JobState.TIMEOUT,
    "NodeDown": JobState.NODE_FAIL,
    "OutOfMemory": JobState.OUT_OF_MEMORY,
}
"""What a job that 22.05 calls COMPLETING has come to; one that completed well or was cancelled is unknown till then."""

HELD_REASONS = ("JobHeldUser", "JobHeldAdmin", "job_requeued_in_held_state", "job requeued in held state")


def jobs(answer: bytes, cluster: str, min_job_age_s: int | None) -> dict[int, Job]:
    """All jobs by Slurm's own number (a task of an array has its own, too). Unreadable when it isn't a whole answer."""
    entries = _entries(answer)
    found = {}
    for entry in entries:
        number = shapes.number(entry.get("job_id")) if isinstance(entry, Mapping) else None
        if not number:
            raise Unreadable(
                "squeue named a job without an id; this Slurm's JSON is unknown to rerail, please report its version"
            )
        found[number] = job(number, entry, cluster, min_job_age_s)
    return found


def job(number: int, entry: Mapping[str, Any], cluster: str, min_job_age_s: int | None) -> Job:
    """One entry of the list."""
    state, flags = _state(entry)
    lived = state in (JobState.RUNNING, JobState.SUSPENDED) or state.ended
    waits = state is JobState.PENDING and "completing" not in flags  # before that the begin time isn't set yet
    nodes = shapes.nodes(entry.get("nodes")) or shapes.nodes(entry.get("job_resources")) if lived else ()
    reason = shapes.text(entry.get("state_reason"))
    ended_at = shapes.moment(entry.get("end_time")) if state.ended else None
    code, signal = shapes.exit_status(entry.get("exit_code")) if state.ended else (None, None)
    limit = shapes.number(entry.get("time_limit"))
    return Job(
        cluster=cluster,
        name=shapes.text(entry.get("name")),
        user=shapes.text(entry.get("user_name")) or str(shapes.number(entry.get("user_id")) or ""),
        account=shapes.text(entry.get("account")),
        partition=shapes.text(entry.get("partition")),
        qos=shapes.text(entry.get("qos")),
        state=state,
        flags=flags,
        reason="" if reason == "None" else reason,
        exit_code=code,
        exit_signal=signal,
        nodes=nodes,
        nodes_needed=shapes.number(entry.get("node_count")) or 1,
        restarts=shapes.number(entry.get("restart_cnt")) or 0,
        batch=shapes.flag(entry.get("batch_flag"), unknown=True),
        requeue=shapes.flag(entry.get("requeue"), unknown=True),
        held=_held(entry, state, reason),
        excluded_nodes=shapes.nodes(entry.get("excluded_nodes")),
        required_nodes=shapes.nodes(entry.get("required_nodes")),
        submitted_at=shapes.moment(entry.get("submit_time")),
        started_at=shapes.moment(entry.get("start_time")) if lived else None,
        ended_at=ended_at,
        begins_at=shapes.moment(entry.get("eligible_time")) if waits else None,
        requeue_until=ended_at + timedelta(seconds=min_job_age_s) if ended_at and min_job_age_s else None,
        time_limit_s=None if limit is None else limit * 60,
        folder=_path(entry.get("current_working_directory")),
        comment=shapes.text(entry.get("comment")),
        failed_node=shapes.text(entry.get("failed_node")),
        dependency=shapes.text(entry.get("dependency")),
        command=shapes.text(entry.get("command")),
        **_identity(number, entry),
        **_logs(number, entry, nodes),
    )


def _entries(answer: bytes) -> list[Any]:
    try:
        document = json.loads(answer.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        raise Unreadable("squeue did not print JSON; it needs Slurm 22.05 or newer with its JSON serializer") from None
    entries = document.get("jobs") if isinstance(document, Mapping) else None
    if not isinstance(entries, list):
        raise Unreadable("squeue's JSON has no list of jobs")
    if errors := document.get("errors"):
        raise Unreadable(f"squeue could not ask slurmctld: {printable(_first_error(errors))}; `scontrol ping` tells more")
    return entries


def _first_error(errors: Any) -> str:
    first = errors[0] if isinstance(errors, list) else errors
    if not isinstance(first, Mapping):
        return str(first)
    return str(first.get("description") or first.get("error") or first)


def _state(entry: Mapping[str, Any]) -> tuple[JobState, tuple[str, ...]]:
    """Base state and lower-case flags."""
    words = shapes.words(entry.get("job_state"))
    flags = tuple(word.lower() for word in words if word not in BASES)
    for word in words:
        if word in BASES:
            return BASES[word], flags
    for word in words:
        if word in BASE_UNDER_FLAG:
            return BASE_UNDER_FLAG[word], flags
    if "COMPLETING" in words and _goes_back(entry):
        return JobState.PENDING, flags
    return BASE_BY_REASON.get(shapes.text(entry.get("state_reason")), JobState.UNKNOWN), flags


def _goes_back(entry: Mapping[str, Any]) -> bool:
    """True when the job that 22.05 calls COMPLETING is being requeued.

    Slurm then reports the end that it expects, a whole time limit after the start; an attempt that ended has the real one.
    """
    start, end, limit = (entry.get(key) for key in ("start_time", "end_time", "time_limit"))
    if not shapes.number(entry.get("restart_cnt")) or not isinstance(start, int) or not isinstance(end, int):
        return False
    minutes = shapes.number(limit)
    return end - start >= minutes * 60 if minutes else end >= shapes.NO_VALUES


def _held(entry: Mapping[str, Any], state: JobState, reason: str) -> bool:
    if state is not JobState.PENDING:
        return False
    return shapes.number(entry.get("priority")) == 0 or entry.get("hold") is True or reason in HELD_REASONS


def _identity(number: int, entry: Mapping[str, Any]) -> dict[str, str]:
    """The name by which commands know it, and what it is a part of."""
    array = shapes.number(entry.get("array_job_id")) or 0
    leader = shapes.number(entry.get("het_job_id")) or 0
    if array:
        task = shapes.number(entry.get("array_task_id"))
        waiting = shapes.text(entry.get("array_task_string"))  # the tasks of the array that no record of their own has yet
        name = str(array) if task is None else f"{array}_{task}"
        return {"job_id": name, "array_job_id": str(array), "array_task_id": waiting if task is None else str(task)}
    if leader:
        offset = shapes.number(entry.get("het_job_offset")) or 0
        return {"job_id": f"{leader}+{offset}" if offset else str(leader), "het_job_id": str(leader)}
    return {"job_id": str(number)}


def _logs(number: int, entry: Mapping[str, Any], nodes: tuple[str, ...]) -> dict[str, str]:
    if not _has_log(entry):
        return {}
    names = output.Names(
        number=number,
        array=shapes.number(entry.get("array_job_id")) or 0,
        task=shapes.number(entry.get("array_task_id")),
        name=shapes.text(entry.get("name")),
        user=shapes.text(entry.get("user_name")),
        first_node=shapes.text(entry.get("batch_host")) or (nodes[0] if nodes else ""),
        folder=_path(entry.get("current_working_directory")),
    )
    out = _path(entry.get("stdout_expanded")) or output.log_path(_path(entry.get("standard_output")), names)
    pattern = _path(entry.get("standard_error"))
    error = _path(entry.get("stderr_expanded")) or (output.log_path(pattern, names) if pattern else "")
    return {"output": out, "error_output": "" if error == out else error}


def _has_log(entry: Mapping[str, Any]) -> bool:
    """Not srun and salloc (they print to a terminal), the waiting rest of an array, a component beside the leader."""
    waiting_array = shapes.number(entry.get("array_job_id")) and shapes.number(entry.get("array_task_id")) is None
    component = shapes.number(entry.get("het_job_id")) and shapes.number(entry.get("het_job_offset"))
    return shapes.flag(entry.get("batch_flag"), unknown=True) and not waiting_array and not component


def _path(value: Any) -> str:
    """Paths are kept as they are: one character less would be another file."""
    return value if isinstance(value, str) else ""
