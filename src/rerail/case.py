"""A case: what a failed, hung or slow job left behind, in one folder. The evidence bundle of an incident is such a folder, so the
verdict of a live incident can be had again offline by `rerail diagnose FOLDER`."""

import json
import os
import re
import stat
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rerail import flightrecorder, signatures
from rerail.errors import Misconfigured
from rerail.readers import errorfiles, joblog, kernel, scheduler
from rerail.readers.errorfiles import ErrorFile
from rerail.readers.joblog import JobLog
from rerail.readers.kernel import KernelLog
from rerail.readers.scheduler import Scheduled
from rerail.records import Rank
from rerail.signatures import Signature

MOST_JSON = 8 << 20
"""Bytes of a JSON file of a case; ranks of 100,000 processes take 3 MB."""

MOST_DUMPS = 1024
MOST_DUMP_BYTES = 256 << 20
"""Of all flight-recorder dumps of a case together."""

MOST_ERRORS = 1024
MOST_FILES = 20_000
"""Directory entries looked at in one case."""

MOST_NODES = 4096
"""Kernel logs read of one case."""

MOST_KERNEL_BYTES = 512 << 20
"""Of all kernel logs of a case together, shared evenly; the newest of each."""
LEAST_KERNEL_BYTES = 256 << 10
"""A node's share at least: some 2,000 lines."""


@dataclass(frozen=True)
class Case:
    """What was left behind, read and bounded."""

    folder: str = ""
    log: JobLog = field(default_factory=JobLog)
    kernel: dict[str, KernelLog] = field(default_factory=dict)
    scheduler: Scheduled | None = None
    rank_nodes: dict[int, str] = field(default_factory=dict)
    processes: tuple[Rank, ...] = ()
    dumps: dict[int, dict[str, Any]] = field(default_factory=dict)
    """NCCL flight-recorder dumps by rank."""
    errors: tuple[ErrorFile, ...] = ()
    """Error files of torch elastic."""
    missing: tuple[str, ...] = ()
    """What was not there or could not be read, one sentence each."""


def read_case(folder: Path | str, rows: tuple[Signature, ...] = signatures.ALL, steps: str = "") -> Case:
    """Read a case folder, or a bare log. Regular files only: a pipe or a device is said to be left out, never waited for.

    `steps` is a site's own pattern of progress lines; see `progress.mark`. Raises Misconfigured when there is nothing to read.
    """
    path = Path(folder)
    if not path.exists():
        raise Misconfigured(f"{path} does not exist; give a case folder or a log file")
    if not path.is_dir():
        if _regular(path) is None:
            raise Misconfigured(f"{path} is no regular file; save what it gives to a file, and give that")
        log, unread = _log(path, rows, None, steps)
        return Case(
            str(path),
            log,
            rank_nodes=dict(log.rank_nodes),
            missing=(*unread, "only a log was given: no scheduler's record, no kernel log"),
        )
    missing: list[str] = []
    said = _json(path / "scheduler.json", missing)
    scheduled = scheduler.read(said) if said is not None else None
    started = scheduled.started_at if scheduled else None
    log, unread = _log(path / "job.log", rows, started.year if started else None, steps)
    missing += unread
    if scheduled is None:
        missing.append("no scheduler's record")
    kernels = _kernels(path / "dmesg", rows, scheduled, missing)
    ranks = _ranks(_json(path / "ranks.json", missing))
    processes = _processes(_json(path / "processes.json", missing))
    named = {rank.rank: rank.node for rank in processes if rank.node}
    return Case(
        folder=str(path),
        log=log,
        kernel=kernels,
        scheduler=scheduled,
        rank_nodes={**log.rank_nodes, **named, **ranks},
        processes=processes,
        dumps=_dumps(path, missing),
        errors=_errors(path, missing),
        missing=tuple(missing),
    )


def _regular(path: Path) -> int | None:
    """Size of a regular file; None for anything that may block or never end."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _log(path: Path, rows: tuple[Signature, ...], year: int | None, steps: str) -> tuple[JobLog, list[str]]:
    size = _regular(path)
    if size is None:
        return JobLog(), [f"{path.name}: not there, or no regular file"]
    try:
        with path.open("rb") as stream:
            log = joblog.read(stream, size, rows, year, steps)
    except OSError as error:
        return JobLog(), [f"{path.name}: could not be read ({error.strerror})"]
    return log, list(log.notes)


def _bytes(path: Path, most: int, missing: list[str], end: bool = False) -> bytes | None:
    """At most `most` bytes of a regular file, its end when `end`; None when there is none."""
    size = _regular(path)
    if size is None:
        return None
    try:
        with path.open("rb") as stream:
            if end and size > most:
                stream.seek(size - most)
            return stream.read(most)
    except OSError as error:
        missing.append(f"{path.name}: could not be read ({error.strerror})")
        return None


def _json(path: Path, missing: list[str]) -> Any:
    data = _bytes(path, MOST_JSON + 1, missing)
    if data is None:
        return None
    if len(data) > MOST_JSON:
        missing.append(f"{path.name}: larger than {MOST_JSON >> 20} MiB, not read")
        return None
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        missing.append(f"{path.name}: no JSON")
        return None


def _kernels(folder: Path, rows: tuple[Signature, ...], scheduled: Scheduled | None, missing: list[str]) -> dict[str, KernelLog]:
    if not folder.is_dir():
        missing.append("no kernel log of any node")
        return {}
    year = scheduled.started_at.year if scheduled and scheduled.started_at else None
    logs: dict[str, KernelLog] = {}
    paths = sorted(folder.glob("*.log"))
    if len(paths) > MOST_NODES:
        missing.append(f"only the first {MOST_NODES} of {len(paths)} kernel logs were read")
    paths = paths[:MOST_NODES]
    most = min(kernel.MOST_BYTES, max(LEAST_KERNEL_BYTES, MOST_KERNEL_BYTES // (len(paths) or 1)))
    for path in paths:
        data = _bytes(path, most, missing, end=True)
        if data is not None:
            if (_regular(path) or 0) > most:
                missing.append(f"dmesg/{path.name}: only the last {most >> 10} KiB were read")
            read = kernel.read(path.name.removesuffix(".log"), data, year, rows)
            logs[read.node] = kernel.dated(read, scheduled.seen_until if scheduled else None)
    nodes = scheduled.nodes if scheduled else ()
    silent = [node for node in nodes if node not in logs]
    if silent and logs:
        missing.append(f"no kernel log of {', '.join(silent[:4])}{' and others' if len(silent) > 4 else ''}")
    return logs


def _ranks(said: Any) -> dict[int, str]:
    if not isinstance(said, dict):
        return {}
    return {
        int(rank): node for rank, node in said.items() if str(rank).isdecimal() and len(str(rank)) < 8 and isinstance(node, str)
    }


def _processes(said: Any) -> tuple[Rank, ...]:
    found = []
    for item in said if isinstance(said, list) else []:
        try:
            found.append(_naive(Rank.model_validate(item)))
        except ValidationError:
            continue
    return tuple(found)


def _naive(rank: Rank) -> Rank:
    """Times of a case are naive, in UTC where their zone was told: most logs name no zone, and the two can't be compared."""
    at = rank.ended_at
    return rank.model_copy(update={"ended_at": at.astimezone(UTC).replace(tzinfo=None)}) if at is not None and at.tzinfo else rank


def _files(folder: Path, wanted: re.Pattern[str]) -> list[Path]:
    """Files up to three folders deep whose path within the case matches; links to folders are not followed."""
    found: list[Path] = []
    seen = 0
    for root, folders, names in os.walk(folder):
        depth = len(Path(root).relative_to(folder).parts)
        folders[:] = sorted(folders) if depth < 3 else []
        for name in sorted(names):
            seen += 1
            relative = str(Path(root, name).relative_to(folder))
            if wanted.search(relative):
                found.append(Path(root, name))
        if seen > MOST_FILES:
            break
    return found


_DUMP = re.compile(r"(?:^|/)(?:_dump_|nccl_trace_rank_|\w*flight\w*_rank_?|fr_trace_)\d{1,6}(?:\.json|\.pickle|\.pkl)?$")
_ERROR = re.compile(r"(?:^|/)error(?:[-_]?\d{1,7})?\.json$")


def _dumps(folder: Path, missing: list[str]) -> dict[int, dict[str, Any]]:
    """Flight-recorder dumps beside the log, as many as the budget allows."""
    found: dict[int, dict[str, Any]] = {}
    left = MOST_DUMP_BYTES
    for path in _files(folder, _DUMP)[:MOST_DUMPS]:
        rank, data = flightrecorder.rank_of(path.name), _bytes(path, min(flightrecorder.MOST_BYTES + 1, left), missing)
        if rank is None or data is None:
            continue
        left -= len(data)
        try:
            found[rank] = flightrecorder.read(data)
        except flightrecorder.Refused as refusal:
            missing.append(f"{path.name}: {refusal}")
    return found


def _errors(folder: Path, missing: list[str]) -> tuple[ErrorFile, ...]:
    """Error files of torch elastic beside the log."""
    found = []
    for path in _files(folder, _ERROR)[:MOST_ERRORS]:
        data = _bytes(path, errorfiles.MOST_BYTES, missing)
        said = errorfiles.read(str(path.relative_to(folder)), data) if data is not None else None
        if said is not None and said.raised:
            found.append(said)
    return tuple(found)
