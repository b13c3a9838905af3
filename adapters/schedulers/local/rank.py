"""One rank of one attempt: claims its place, starts the command, labels its output, leaves its exit status in a file.

Run by its path, with the standard library alone, so that it starts in some 20 ms and needs nothing of a daemon that may die.
At most one process ever starts the command of a rank, however often this program is started for it: the claim is a hard link.
"""

import contextlib
import fcntl
import json
import os
import selectors
import signal
import subprocess
import sys
import time

MAX_LINE = 64 * 1024
"""Bytes; a longer line is broken, so that memory stays bounded and appended writes stay whole."""
DRAIN_S = 0.3
"""After the rank's end: how long to wait for output from descendants that still hold its pipe."""


def claim(attempt: str, rank: int) -> int | None:
    """The locked claim's descriptor, or None when another process has the rank. The lock is held while this process lives."""
    draft = os.path.join(attempt, f".{rank}.{os.getpid()}")
    lock = os.open(draft, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    os.write(lock, str(os.getpid()).encode())
    try:
        os.link(draft, os.path.join(attempt, f"{rank}.claim"))
    except FileExistsError:
        return None
    finally:
        os.unlink(draft)
    return lock


def leave(attempt: str, name: str, fact: dict[str, object]) -> None:
    """Write a file that is there whole or not at all."""
    draft = os.path.join(attempt, f".{name}.{os.getpid()}")
    with open(draft, "w", encoding="utf-8") as file:
        json.dump(fact, file)
    os.replace(draft, os.path.join(attempt, name))


class Log:
    """The job's log, shared by all ranks: whole lines are appended, each with the rank before it, like `srun --label`."""

    def __init__(self, path: str, rank: int) -> None:
        self._label = f"{rank}: ".encode()
        self._rest = b""
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)

    def feed(self, data: bytes) -> None:
        """Take output as it comes; write what is whole."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        while len(self._rest) >= MAX_LINE:
            lines.append(self._rest[:MAX_LINE])
            self._rest = self._rest[MAX_LINE:]
        self._append(b"".join(self._label + line + b"\n" for line in lines))

    def end(self) -> None:
        """Write what is left without a newline."""
        if self._rest:
            self.feed(b"\n")

    def say(self, text: str) -> None:
        """A line of the scheduler itself."""
        self._append(f"local: {text}\n".encode(errors="backslashreplace"))

    def _append(self, data: bytes) -> None:
        with contextlib.suppress(OSError):  # a full disk must not end the training
            while data:
                data = data[os.write(self._fd, data) :]


def rank_environment(spec: dict[str, object], rank: int) -> dict[str, str]:
    """What torchrun sets, and the names of our own."""
    nodes, per_node = spec["nodes"], spec["ranks_per_node"]
    assert isinstance(nodes, list)
    assert isinstance(per_node, int)
    assert isinstance(spec["env"], dict)
    place = rank // per_node
    return {
        **spec["env"],
        "RANK": str(rank),
        "WORLD_SIZE": str(len(nodes) * per_node),
        "LOCAL_RANK": str(rank % per_node),
        "LOCAL_WORLD_SIZE": str(per_node),
        "GROUP_RANK": str(place),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(spec["port"]),
        "PYTHONUNBUFFERED": "1",
        "RERAIL_CLUSTER": str(spec["cluster"]),
        "RERAIL_JOB_ID": str(spec["job"]),
        "RERAIL_NODE": str(nodes[place]),
        "RERAIL_RESTART_COUNT": str(spec["restarts"]),
        "RERAIL_ATTEMPT": str(spec["token"]),
    }


def start_ticks(pid: int) -> int:
    """When the kernel says the process started, in ticks since boot; with the pid it names one process."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[19])


def follow(child: "subprocess.Popen[bytes]", log: Log) -> tuple[int | None, int | None, float]:
    """Copy output until the command ends; returns its exit code or the signal that killed it, and when. Its group goes too."""
    assert child.stdout is not None
    pipe, ended = child.stdout.fileno(), os.pidfd_open(child.pid)
    os.set_blocking(pipe, False)
    with selectors.DefaultSelector() as events:
        events.register(pipe, selectors.EVENT_READ)
        events.register(ended, selectors.EVENT_READ)
        deadline = None
        while deadline is None or time.monotonic() < deadline:
            ready = {key.fd for key, _ in events.select(None if deadline is None else deadline - time.monotonic())}
            if pipe in ready and not _copy(pipe, log):
                events.unregister(pipe)
                if deadline is not None:
                    break
            if ended in ready:
                events.unregister(ended)
                at, deadline = time.time(), time.monotonic() + DRAIN_S
                how = os.waitid(os.P_PIDFD, ended, os.WEXITED | os.WNOWAIT)  # not reaped: the group's number stays ours
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(child.pid, signal.SIGKILL)
                if pipe not in events.get_map():
                    break
    child.wait()
    assert how is not None
    return (how.si_status, None, at) if how.si_code == os.CLD_EXITED else (None, how.si_status, at)


def _copy(pipe: int, log: Log) -> bool:
    try:
        data = os.read(pipe, MAX_LINE)
    except BlockingIOError:
        return True
    log.feed(data)
    return bool(data)


def run(attempt: str, rank: int, spec: dict[str, object]) -> dict[str, object]:
    """Start the command and see it to its end; what comes back is the rank's exit file."""
    node = rank_environment(spec, rank)["RERAIL_NODE"]
    try:
        log = Log(str(spec["output"]), rank)
    except OSError as error:
        return {"exit_code": 1, "exit_signal": None, "error": f"the log could not be opened: {error.strerror}"}
    if os.path.exists(os.path.join(attempt, "stop")):
        return {"exit_code": None, "exit_signal": int(signal.SIGTERM), "error": "stopped before its start"}
    argv = spec["argv"]
    assert isinstance(argv, list)
    try:
        child = subprocess.Popen(
            argv,
            cwd=str(spec["folder"]),
            env=rank_environment(spec, rank),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            bufsize=0,
        )
    except (OSError, ValueError) as error:
        log.say(f"error: node {node}: rank {rank}: the command could not be started: {error}")
        return {"exit_code": 127, "exit_signal": None, "error": f"the command could not be started: {error}"[:200]}
    leave(attempt, f"{rank}.pid", {"pid": child.pid, "start": start_ticks(child.pid), "node": node, "at": time.time()})
    code, killer, at = follow(child, log)
    log.end()
    _tell(attempt, log, f"node {node}: rank {rank}", code, killer)
    return {"exit_code": code, "exit_signal": killer, "ended_at": at}


def _tell(attempt: str, log: Log, who: str, code: int | None, killer: int | None) -> None:
    """Say how the rank ended; an end that was asked for is no error."""
    if code == 0:
        return
    how = f"exited with code {code}" if killer is None else f"killed by signal {killer}"
    stopped = os.path.exists(os.path.join(attempt, "stop"))
    log.say(f"{who}: stopped by the scheduler ({how})" if stopped else f"error: {who}: {how}")


def main(attempt: str, rank: int) -> None:
    """Take the rank, unless somebody has it."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)  # a handler, not SIG_IGN, which the command would inherit
    lock = claim(attempt, rank)
    if lock is None:
        return
    with open(os.path.join(attempt, "spec.json"), encoding="utf-8") as file:
        spec = json.load(file)
    leave(attempt, f"{rank}.exit", {"ended_at": time.time(), **run(attempt, rank, spec)})
    os.close(lock)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
