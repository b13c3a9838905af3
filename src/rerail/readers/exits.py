"""What launchers say of an ended process in one line: exit code or signal, and of whom."""

import re
from typing import NamedTuple


class Exit(NamedTuple):
    """A process ended. `code` is negative for a signal."""

    code: int
    rank: int | None = None
    task: int | None = None
    local: int | None = None
    host: str = ""
    pid: int | None = None


SIGNALS = {
    "Illegal instruction": 4,
    "Bus error": 7,
    "Floating point exception": 8,
    "Segmentation fault": 11,
}

_ROWS = (
    # torchrun: failed (exitcode: -9) local_rank: 0 (pid: 18) of binary: python
    re.compile(r"failed \(exitcode: (?P<code>-?\d{1,5})\) local_rank: (?P<local>\d{1,5}) \(pid: (?P<pid>\d{1,9})\)"),
    # srun: error: node3: task 2: Exited with exit code 3 | Segmentation fault (core dumped)
    re.compile(
        r"srun: error: (?P<host>[\w.-]{1,100}): task (?P<task>\d{1,7}): (?:Exited with exit code (?P<code>\d{1,5})"
        r"|(?P<signal>[A-Z][a-z ]{5,30}))"
    ),
    # mpirun: process rank 3 with PID 0 on node n2 exited on signal 9 (Killed)
    re.compile(r"process rank (?P<rank>\d{1,7}) .{0,80}?on node (?P<host>[\w.-]{1,100}) exited on signal (?P<number>\d{1,2})"),
    # rerail's own local scheduler: error: node n2: rank 2: killed by signal 9
    re.compile(
        r"error: node (?P<host>[\w.-]{1,100}): rank (?P<rank>\d{1,7}): (?:killed by signal (?P<number>\d{1,2})|exited with"
        r" (?:exit )?code (?P<code>\d{1,5}))"
    ),
    # sites' own: <rank 2> exit code 1
    re.compile(r"<?\brank (?P<rank>\d{1,7})>?[ :]{1,3}(?:exited with )?exit ?code[ =:]{1,2}(?P<code>-?\d{1,5})"),
)
_WORDS = re.compile(r"exit|signal|srun: error")


def read(body: str) -> Exit | None:
    """What a line says of an ended process; None for most lines."""
    if not _WORDS.search(body):
        return None
    for row in _ROWS:
        match = row.search(body[:600])
        if match:
            return _exit(match.groupdict())
    return None


def _exit(said: dict[str, str | None]) -> Exit | None:
    code = _code(said)
    if code is None:
        return None

    def number(name: str) -> int | None:
        text = said.get(name)
        return int(text) if text else None

    return Exit(code, number("rank"), number("task"), number("local"), said.get("host") or "", number("pid"))


def _code(said: dict[str, str | None]) -> int | None:
    if said.get("number"):
        return -int(said["number"] or 0)
    if said.get("signal"):
        signal = next((number for name, number in SIGNALS.items() if (said["signal"] or "").startswith(name)), None)
        return -signal if signal else None
    code = said.get("code")
    return int(code) if code else None
