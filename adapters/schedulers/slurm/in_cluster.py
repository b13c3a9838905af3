"""Commands on a host of the cluster itself: no shell, a process group of their own, a deadline, an end to what is read."""

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence

from adapters.schedulers.slurm.runner import ENVIRONMENT, Ran
from rerail.errors import Misconfigured, OutcomeUnknown, Transient
from rerail.ports import ALL_RIGHTS, Right

SEARCH_PATH = "/usr/local/bin:/usr/bin:/bin:/opt/slurm/bin:/usr/local/slurm/bin"
"""Where sites keep Slurm's commands."""

MOST_OUTPUT = 256 * 1024 * 1024
"""Bytes of one command; 10,000 jobs are about 40 MB of Slurm's JSON, more is a mistake or an attack."""

REAP_S = 2.0
"""Seconds for a killed command to go; one stuck in the kernel (dead file server) is left behind."""

_CHUNK = 1024 * 1024


class InCluster:
    """Runs commands on this host."""

    def __init__(self, slurm_conf: str = "", search_path: str = SEARCH_PATH, most_output: int = MOST_OUTPUT) -> None:
        """`slurm_conf` names another slurm.conf than the host's own. Nothing of our own environment reaches the commands."""
        self._environment = {"PATH": search_path, **ENVIRONMENT}
        if slurm_conf:
            self._environment["SLURM_CONF"] = slurm_conf
        self._most = most_output

    def rights(self) -> frozenset[Right]:
        """All: one user does everything, and Slurm says no where he may not."""
        return ALL_RIGHTS

    def run(self, argv: Sequence[str], deadline_s: float) -> Ran:
        """As the port says."""
        end = time.monotonic() + deadline_s
        process = self._start(argv)
        try:
            stdout, stderr = self._collect(process, end)
            return Ran(process.wait(max(0.0, end - time.monotonic())), stdout, stderr)
        except (TimeoutError, subprocess.TimeoutExpired):
            raise OutcomeUnknown(f"{argv[0]} did not end within {deadline_s:g} s and was stopped") from None
        finally:
            _end(process)

    def _start(self, argv: Sequence[str]) -> "subprocess.Popen[bytes]":
        conf = self._environment.get("SLURM_CONF")
        if conf and not os.path.isfile(conf):  # Slurm's commands would wait a minute for it to appear
            raise Misconfigured(f"no file {conf}; set the path of this cluster's slurm.conf")
        try:
            return subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self._environment,
                cwd="/",
                start_new_session=True,
            )
        except (FileNotFoundError, PermissionError):
            where = self._environment["PATH"]
            raise Misconfigured(f"no command {argv[0]} in {where}; install Slurm's client commands or set their path") from None
        except OSError as error:
            raise Transient(f"{argv[0]} could not be started: {error.strerror}") from None

    def _collect(self, process: "subprocess.Popen[bytes]", end: float) -> tuple[bytes, bytes]:
        """All of both streams; TimeoutError at the deadline."""
        streams = {process.stdout: bytearray(), process.stderr: bytearray()}
        with selectors.DefaultSelector() as waiting:
            for stream in streams:
                waiting.register(stream, selectors.EVENT_READ)  # type: ignore[arg-type]
            while waiting.get_map():
                left = end - time.monotonic()
                if left <= 0:
                    raise TimeoutError
                for ready, _ in waiting.select(left):
                    chunk = os.read(ready.fd, _CHUNK)
                    if not chunk:
                        waiting.unregister(ready.fileobj)
                    streams[ready.fileobj] += chunk  # type: ignore[index]
                if sum(map(len, streams.values())) > self._most:
                    raise OutcomeUnknown(f"a command printed more than {self._most} bytes and was stopped")
        return bytes(streams[process.stdout]), bytes(streams[process.stderr])


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Leave nothing of it: its children share its process group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    for stream in (process.stdout, process.stderr):
        if stream:
            stream.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(REAP_S)
