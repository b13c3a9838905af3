"""Kernel logs: `dmesg -T`, uptime, syslog and ISO lines; what of them a signature knows, with the time it happened."""

import re
from datetime import datetime, timedelta
from typing import NamedTuple

from rerail import signatures
from rerail.readers import lines, prefixes
from rerail.records import Role
from rerail.signatures import Signature

MOST_BYTES = 64 << 20
"""Of a longer kernel log, its end is read: the newest lines are the ones about this job."""

MOST_LINES = 2_000
"""Known lines kept of one node: the newest."""

_UPTIME = re.compile(rb"^\[\s*(\d{1,10}\.\d{1,9})\]")


class KernelLine(NamedTuple):
    """One known line of a node's kernel log."""

    line: int
    at: datetime | None
    row: Signature
    text: bytes
    uptime: float | None = None


class KernelLog(NamedTuple):
    """What one node's kernel log told."""

    node: str
    known: tuple[KernelLine, ...]
    first: datetime | None = None
    last: datetime | None = None
    last_uptime: float | None = None
    last_line: int = 0
    back_line: int = 0
    """The last line that says that a service answers again; 0 for none."""
    note: str = ""
    """What was not read, when something was not."""


_BACK = ("storage.nfs_ok", "storage.lustre_restored")
"""Rows of services that answer again."""


def read(node: str, data: bytes, year: int | None, rows: tuple[Signature, ...] = signatures.ALL) -> KernelLog:
    """The known lines of a node's kernel log, oldest first. `year` completes syslog times. Bounded by MOST_BYTES, MOST_LINES."""
    note = ""
    if len(data) > MOST_BYTES:
        note, data = f"only the last {MOST_BYTES >> 20} MiB were read", data[-MOST_BYTES:]
    index = {row.id: row for row in rows}
    found: dict[int, list[tuple[Signature, bytes]]] = {}
    for hit in signatures.scan(data, rows):
        found.setdefault(hit.line, []).append((index[hit.id], lines.bounded(data[hit.start : hit.end])))
    known = [line for number, said in sorted(found.items())[-MOST_LINES:] if (line := _known(number, said, year))]
    ends = [at for at in (time_of(data[:400].split(b"\n")[0], year), time_of(data[-2000:].rstrip().split(b"\n")[-1], year)) if at]
    last_uptime = _uptime(data[-2000:].rstrip().split(b"\n")[-1])
    back = max((number for number, said in found.items() if any(row.id in _BACK for row, _ in said)), default=0)
    return KernelLog(
        node, tuple(known), ends[0] if ends else None, ends[-1] if ends else None, last_uptime, data.count(b"\n"), back, note
    )


def _known(number: int, said: list[tuple[Signature, bytes]], year: int | None) -> KernelLine | None:
    """The row that speaks for the line, unless that row calls it noise."""
    row = signatures.loudest([row for row, _ in said])
    if row is None or row.role is Role.NOISE:
        return None
    return KernelLine(number, time_of(said[0][1], year), row, said[0][1], _uptime(said[0][1]))


def time_of(line: bytes, year: int | None) -> datetime | None:
    """When the line was written; None for uptime and for lines without a time."""
    return prefixes.read(lines.text(line)[:200], year).at


def _uptime(line: bytes) -> float | None:
    match = _UPTIME.match(line)
    return float(match[1]) if match else None


def dated(log: KernelLog, ended: datetime | None) -> KernelLog:
    """Lines that tell only an uptime get the latest time they can have: the log's last line was written before `ended`."""
    if ended is None or log.last_uptime is None:
        return log
    last = log.last_uptime

    def at(line: KernelLine) -> datetime | None:
        return line.at if line.uptime is None else ended - timedelta(seconds=last - line.uptime)

    return log._replace(known=tuple(line._replace(at=at(line)) for line in log.known))
