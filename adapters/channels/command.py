"""Telling by a program: the notice comes as JSON on its standard input. No shell, bounded time and output, empty environment."""

import contextlib
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from typing import IO

from adapters.channels.wording import line, payload
from rerail.errors import Misconfigured, OutcomeUnknown, Permanent, Transient
from rerail.records import Notice

ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
MAX_OUTPUT_BYTES = 2_048
"""What is kept of the program's words, for the message about its failure; the rest is read and dropped."""
LOOK_S = 0.05
"""How soon the end of a program is noticed whose children keep its output open."""
NEVER = frozenset({os.EX_USAGE, os.EX_DATAERR, os.EX_NOINPUT, os.EX_NOUSER, os.EX_NOPERM, os.EX_CONFIG})
"""Exit codes of sysexits.h that another try will not change."""


class Command:
    """Implements `rerail.ports.Channel`. `argv[0]` is a full path; it is ended with its children at `timeout_s`."""

    def __init__(self, argv: Sequence[str], name: str = "command", timeout_s: float = 10.0) -> None:
        self.name = name
        self._argv = tuple(argv)
        self._timeout_s = timeout_s

    def send(self, notice: Notice) -> None:
        """Tell it. Exit code 0 means told; 64, 65, 66, 67, 77 and 78 raise Permanent, all others Transient; a program that is
        not there raises Misconfigured; one ended at its deadline OutcomeUnknown, which the notice's key lets it recognise."""
        with tempfile.TemporaryFile() as stdin:  # a file: a program that never reads cannot block us
            stdin.write(payload(notice))
            stdin.seek(0)
            process = self._start(stdin)
        try:
            words = self._attend(process)
        finally:
            _end(process)
        self._judge(process.returncode, line(words.decode("utf-8", "replace")))

    def _start(self, stdin: IO[bytes]) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                self._argv,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=ENVIRONMENT,
                cwd="/",
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or type(error).__name__
            raise Misconfigured(
                f"the program {self._argv[0]!r} of the channel {self.name} cannot be started ({reason})."
            ) from error

    def _attend(self, process: subprocess.Popen[bytes]) -> bytes:
        """What the program says until it has ended; OutcomeUnknown when it does not end."""
        assert process.stdout is not None
        deadline = time.monotonic() + self._timeout_s
        words = b""
        os.set_blocking(process.stdout.fileno(), False)
        while process.poll() is None:
            if time.monotonic() > deadline:
                raise OutcomeUnknown(
                    f"the channel {self.name} did not end in {self._timeout_s:g} s and was ended; it is tried again."
                )
            words = (words + _said(process.stdout.fileno(), LOOK_S))[:MAX_OUTPUT_BYTES]
        return (words + _said(process.stdout.fileno(), 0))[:MAX_OUTPUT_BYTES]

    def _judge(self, code: int, words: str) -> None:
        if code == 0:
            return
        said = f"the channel {self.name} ended with {code}" + (f" and said {words!r}" if words else "")
        if code in NEVER:
            raise Permanent(f"{said}: mend {self._argv[0]} or its arguments in the settings.")
        raise Transient(f"{said}; it is tried again.")


def _said(descriptor: int, wait_s: float) -> bytes:
    """What is there to read, after `wait_s` at most; after the end of the output it only waits."""
    ready = select.poll()  # select.select knows no descriptor above 1,023
    ready.register(descriptor, select.POLLIN)
    if not ready.poll(wait_s * 1_000):
        return b""
    data = os.read(descriptor, 65_536)
    if not data:
        time.sleep(wait_s)
    return data


def _end(process: subprocess.Popen[bytes]) -> None:
    """A program still running is ended with all that it started; what a program left behind on purpose goes on."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.stdout is not None:
        process.stdout.close()
