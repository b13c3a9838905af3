"""What the kernel says of processes: which carry a mark in their environment, and in which state one is."""

import contextlib
import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

PROC = Path("/proc")


def send(name: str, value: str, signals: Sequence[signal.Signals]) -> int:
    """Signal every process started with `name=value` in its environment; returns how many there were.

    The mark is inherited by all descendants, whatever group or session they chose. Zombies have none and count as gone.
    """
    mark = f"{name}={value}".encode()
    return sum(_send_marked(pid, mark, signals) for pid in _pids())


def state(pid: int | None, start: int | None) -> str:
    """The kernel's letter for the process (R, S, D, T, Z); empty when it is gone or another process has its number."""
    found = stat(pid) if pid else None
    return found[0] if found and found[1] == start else ""


def stat(pid: int) -> tuple[str, int] | None:
    """State letter, and start in ticks since boot; None when there is no such process."""
    try:
        fields = (PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return fields[0].decode("ascii"), int(fields[19])


def _pids() -> Iterator[int]:
    mine = os.getpid()
    return (int(entry) for entry in os.listdir(PROC) if entry.isdigit() and int(entry) != mine)


def _send_marked(pid: int, mark: bytes, signals: Sequence[signal.Signals]) -> bool:
    """The descriptor pins the process before its mark is read, so that a reused number is never hit."""
    try:
        fd = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if mark not in (PROC / str(pid) / "environ").read_bytes().split(b"\0"):
            return False
        for number in signals:
            signal.pidfd_send_signal(fd, number)
    except OSError:
        return False
    finally:
        with contextlib.suppress(OSError):
            os.close(fd)
    return True
