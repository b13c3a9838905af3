"""Daemons of the testbed: started apart from the caller, known by a file with pid and start time, ended by nothing but those."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

POLL_S = 0.02
SEARCH_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"

# The shell goes away at once, so the daemon belongs to init, which reaps it: whoever started it may end or be killed.
_DETACH = 'out=$1; shift; setsid "$@" </dev/null >>"$out" 2>&1 & echo $!'

# First process of a node: its own hostname, hosts file and Slurm configuration; then it only reaps what is left to it.
_NODE_INIT = """
hostname "$1"; mount --bind "$2/hosts" /etc/hosts; mount --bind "$2" /etc/slurm; shift 2
"$@" & while :; do wait -n 2>/dev/null || sleep 0.2; done
"""


class NotReady(Exception):
    """Something did not come up, or did not end, within its time."""


def wait_until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Poll until it holds; NotReady names what was waited for."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise NotReady(f"{what}: not within {seconds:g} s")
        time.sleep(POLL_S)


@dataclass(frozen=True)
class Processes:
    """The daemons whose pid files lie in one folder."""

    run: Path
    log: Path

    def start(self, name: str, argv: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start a daemon of that name; what it prints goes to LOG/name.out."""
        shell = ["sh", "-c", _DETACH, "detach", str(self.log / f"{name}.out"), *argv]
        done = subprocess.run(shell, env=dict(environment), capture_output=True, text=True, check=True)
        self.adopt(name, int(done.stdout))

    def start_node(self, name: str, etc: Path, argv: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start a daemon as a machine of its own: hostname, process numbers, mounts. Killing its first process is power loss."""
        apart = ["unshare", "--uts", "--pid", "--fork", "--mount", "--mount-proc", "--kill-child=KILL", "--"]
        self.start(name, [*apart, "bash", "-c", _NODE_INIT, "init", name, str(etc), *argv], environment)

    def adopt(self, name: str, pid: int) -> None:
        """Remember a process under a name."""
        self._file(name).write_text(f"{pid} {_start_time(pid)}\n")

    def pid(self, name: str) -> int | None:
        """Its pid while it lives. A reused pid has another start time, a zombie has ended."""
        try:
            pid, started = self._file(name).read_text().split()
        except (FileNotFoundError, ValueError):
            return None
        return int(pid) if _start_time(int(pid)) == started else None

    def names(self) -> tuple[str, ...]:
        """All that were started and not stopped."""
        return tuple(sorted(file.stem for file in self.run.glob("*.pid")))

    def stop(self, name: str, number: int = signal.SIGTERM) -> None:
        """End it, with force after 5 s."""
        for attempt in (number, signal.SIGKILL):
            pid = self.pid(name)
            if pid is None:
                break
            os.kill(pid, attempt)
            try:
                wait_until(lambda: self.pid(name) is None, 5, f"end of {name}")
            except NotReady:
                continue
        self._file(name).unlink(missing_ok=True)

    def node_init(self, name: str) -> int:
        """Pid, seen from outside, of the first process of a node."""
        pid = self.pid(name)
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split() if pid else []
        if not children:
            raise NotReady(f"{name} does not run")
        return int(children[0])

    def enter(self, name: str, argv: Sequence[str]) -> list[str]:
        """The command line that runs `argv` inside a node."""
        return ["nsenter", "-t", str(self.node_init(name)), "-m", "-u", "-p", "--", *argv]

    def _file(self, name: str) -> Path:
        return self.run / f"{name}.pid"


def _start_time(pid: int) -> str:
    """Clock ticks since boot at which a living process began; empty when it ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return "" if fields[0] in "ZX" else fields[19]
