"""The files that one attempt of a job leaves: its specification, and per rank a claim, a pid, an exit status.

They are the truth about processes: a daemon that was killed finds everything here, whoever started it.
"""

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adapters.schedulers.local import processes
from adapters.schedulers.local.book import Entry

PROGRAM = Path(__file__).with_name("rank.py")
MAX_FILE = 4 * 1024 * 1024
"""Bytes read of any of these files; a specification carries a command line and an environment."""


@dataclass(frozen=True)
class Sight:
    """One rank as its files tell. Times are seconds since the epoch."""

    rank: int
    node: str
    claimed: bool = False
    guarded: bool = False
    """True while the process that watches over the rank lives."""
    guard: int | None = None
    """Its pid."""
    pid: int | None = None
    start: int | None = None
    ended_at: float | None = None
    exit_code: int | None = None
    exit_signal: int | None = None
    error: str = ""

    @property
    def ended(self) -> bool:
        """True when nothing of this rank will run any more, whether or not its status is known."""
        return self.claimed and not self.guarded

    @property
    def lost(self) -> bool:
        """True when it ended and nobody knows how: its guard was killed, or the machine restarted."""
        return self.ended and self.ended_at is None

    @property
    def bad(self) -> bool:
        """True when it ended otherwise than with exit code 0."""
        return self.ended and self.exit_code != 0


def attempt_folder(folder: Path, job: int, restarts: int) -> Path:
    """Where the files of an attempt lie."""
    return folder / "jobs" / str(job) / str(restarts)


@dataclass(frozen=True)
class Attempt:
    """The files of one attempt."""

    folder: Path

    def write(self, cluster: str, entry: Entry) -> None:
        """Write the specification: from then on ranks may be started."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        spec = {
            "cluster": cluster,
            "job": entry.id,
            "restarts": entry.live,
            "token": entry.token,
            "argv": entry.argv,
            "env": dict(entry.env),
            "folder": entry.folder,
            "output": entry.output,
            "nodes": entry.nodes,
            "ranks_per_node": entry.ranks_per_node,
            "port": entry.port,
        }
        draft = self.folder / ".spec.json"
        draft.write_text(json.dumps(spec), encoding="utf-8")
        draft.chmod(0o600)
        draft.replace(self.folder / "spec.json")

    @property
    def written(self) -> bool:
        """True when ranks of it may have been started."""
        return (self.folder / "spec.json").exists()

    def spec(self) -> dict[str, Any]:
        """What the attempt runs; empty when it is not there (any more)."""
        return _read(self.folder / "spec.json")

    def launch(self, rank: int) -> "subprocess.Popen[bytes]":
        """Start the guard of a rank, in a session of its own so that no terminal and no daemon takes it along."""
        return subprocess.Popen(
            [sys.executable, "-I", "-S", str(PROGRAM), str(self.folder), str(rank)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
            env={"PATH": os.environ.get("PATH", os.defpath)},
        )

    def see(self, spec: dict[str, Any]) -> tuple[Sight, ...]:
        """All ranks."""
        per_node = int(spec["ranks_per_node"])
        return tuple(self._see(rank, spec["nodes"][rank // per_node]) for rank in range(len(spec["nodes"]) * per_node))

    def stop(self) -> None:
        """From now on no rank of it starts its command."""
        with contextlib.suppress(FileNotFoundError):
            (self.folder / "stop").touch()

    def _see(self, rank: int, node: str) -> Sight:
        claim = self.folder / f"{rank}.claim"
        guard, guarded = _guard(claim)
        if guard is None:
            return Sight(rank, node)
        exited, place = _read(self.folder / f"{rank}.exit"), _read(self.folder / f"{rank}.pid")
        return Sight(
            rank=rank,
            node=node,
            claimed=True,
            guarded=guarded and not exited,
            guard=guard,
            pid=place.get("pid"),
            start=place.get("start"),
            ended_at=exited.get("ended_at"),
            exit_code=exited.get("exit_code"),
            exit_signal=exited.get("exit_signal"),
            error=str(exited.get("error", "")),
        )


def end(token: str, *, hard: bool) -> int:
    """Ask every process of the attempt to end, or kill it; returns how many there were. A stopped one is woken to hear it."""
    signals = (signal.SIGKILL,) if hard else (signal.SIGTERM, signal.SIGCONT)
    return processes.send("RERAIL_ATTEMPT", token, signals)


def _guard(claim: Path) -> tuple[int | None, bool]:
    """The pid in the claim (None without a claim), and whether its process still holds the lock."""
    try:
        fd = os.open(claim, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None, False
    try:
        pid = int(os.read(fd, 32) or b"0")
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return pid, True
    finally:
        os.close(fd)
    return pid, False


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            value = json.loads(file.read(MAX_FILE))
    except (FileNotFoundError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
