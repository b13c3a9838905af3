"""Wakes the daemon of a cluster folder, or starts it: a lock says that one lives, a pipe wakes it, a file's age says it moves."""

import contextlib
import fcntl
import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import rerail
from rerail.errors import Misconfigured, Transient, Unreadable

HERE = Path(__file__).resolve()
ROOT = HERE.parents[3]
"""The folder that holds `adapters`."""
STUCK_S = 20.0
"""A daemon moves every second; one that has not for so long is stopped or hangs, and the record is no longer the truth."""
START_S = 10.0
"""The launcher needs some 30 ms."""
MAX_LOG = 1024 * 1024
"""Bytes of the daemon's own log, above which a new daemon begins it anew."""


def ring(folder: Path) -> None:
    """Wake the daemon; start one where none lives. Returns at once. Raises Misconfigured when it can't be started."""
    lock = take(folder)
    if lock is None:
        _poke(folder)
        return
    try:
        os.ftruncate(lock, 0)  # the number in it is that of a daemon that died
        beat(folder)
        _start(folder, lock)
    finally:
        os.close(lock)  # the daemon has inherited it: from its first moment nobody else can start a second one


def check(folder: Path) -> None:
    """Unreadable when the living daemon does not move: what it would report may have happened long ago."""
    with contextlib.suppress(FileNotFoundError):
        age = time.time() - (folder / "beat").stat().st_mtime
        if age > STUCK_S:
            raise Unreadable(f"the daemon of the local cluster has not moved for {age:.0f} s: look at process {pid(folder)}")


def take(folder: Path) -> int | None:
    """The daemon's lock as a descriptor, or None when a daemon has it."""
    lock = _open_lock(folder)
    try:
        fcntl.fcntl(lock, fcntl.F_OFD_SETLK, _whole_file())
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


def held(folder: Path) -> bool:
    """Whether a daemon lives. Asks without taking: a probe that takes the lock would look like a daemon to others."""
    lock = _open_lock(folder)
    try:
        answer = fcntl.fcntl(lock, fcntl.F_OFD_GETLK, _whole_file())
    finally:
        os.close(lock)
    return int(struct.unpack_from("h", answer)[0]) != fcntl.F_UNLCK


def pid(folder: Path) -> int | None:
    """The living daemon's process; None when none lives, or when it is only starting."""
    text = (folder / "daemon.lock").read_text(encoding="ascii", errors="replace").strip() if held(folder) else ""
    return int(text) if text.isdigit() else None


def stop(folder: Path, timeout_s: float = 10.0) -> None:
    """End the daemon; ranks run on, and the next call starts a new one. Raises Transient when it does not end in time."""
    deadline = time.monotonic() + timeout_s
    while held(folder):
        if time.monotonic() > deadline:
            raise Transient(f"the daemon of the local cluster (process {pid(folder)}) did not end within {timeout_s:g} s")
        number = pid(folder)
        if number is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGTERM)
        time.sleep(0.02)


def beat(folder: Path) -> None:
    """Say that the daemon moves."""
    path = folder / "beat"
    try:
        os.utime(path)
    except FileNotFoundError:
        path.touch(mode=0o600)


def hang(folder: Path) -> int:
    """The daemon's end of the pipe, as a descriptor that becomes readable when somebody rings."""
    path = folder / "bell"
    with contextlib.suppress(FileExistsError):
        os.mkfifo(path, 0o600)
    return os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)


def _open_lock(folder: Path) -> int:
    try:
        return os.open(folder / "daemon.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Unreadable(f"the folder of the local cluster can't be used: {error}") from error


def _whole_file() -> bytes:
    """Linux's `struct flock` for an exclusive lock of all bytes. Owned by the open file, so a child inherits it."""
    return struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)


def _poke(folder: Path) -> None:
    with contextlib.suppress(OSError):  # nobody listens yet: a starting daemon looks at the record anyway
        fd = os.open(folder / "bell", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            os.write(fd, b".")
        finally:
            os.close(fd)


def _start(folder: Path, lock: int) -> None:
    command = [sys.executable, "-P", "-m", "adapters.schedulers.local.daemon", str(folder.absolute()), str(lock)]
    log = folder / "daemon.log"
    mode = os.O_TRUNC if log.exists() and log.stat().st_size > MAX_LOG else os.O_APPEND
    errors = os.open(log, os.O_WRONLY | os.O_CREAT | mode | os.O_CLOEXEC, 0o600)
    try:
        subprocess.run(
            [sys.executable, "-I", "-S", str(HERE.with_name("detach.py")), *command],
            check=True,
            cwd="/",
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=errors,
            stderr=errors,
            pass_fds=(lock,),
            start_new_session=True,
            timeout=START_S,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise Misconfigured(f"the daemon of the local cluster could not be started: {error}") from error
    finally:
        os.close(errors)


def _environment() -> dict[str, str]:
    """Nothing of the caller's own: its secrets don't belong to the daemon, and a job's mark would make it part of that job."""
    roots = dict.fromkeys([str(ROOT), str(Path(rerail.__file__).resolve().parents[1])])
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ") if name in os.environ}
    return {**kept, "PYTHONPATH": os.pathsep.join(roots)}
