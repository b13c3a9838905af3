"""The demonstration as a process of its own, watched through what it prints."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DEADLINE_S = 120.0

ON_A_TERMINAL = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Gives the process a terminal that it owns, as a shell does."""


@dataclass
class Performed:
    """A running demonstration."""

    process: "subprocess.Popen[bytes]"
    home: Path
    screen: int
    """Where its output is read, and for one on a terminal its input written."""
    shown: str = ""

    def until(self, pattern: str) -> "re.Match[str]":
        """Wait until that is on the screen."""
        deadline = time.monotonic() + DEADLINE_S
        while not (found := re.search(pattern, self.shown)):
            assert time.monotonic() < deadline, f"{pattern!r} was not shown:\n{self.shown}"
            assert self.read(), f"it ended without {pattern!r}:\n{self.shown}"
        return found

    def read(self) -> bool:
        """More of its output; False at the end."""
        try:
            piece = os.read(self.screen, 65536)
        except OSError:  # a terminal whose last process has gone
            return False
        self.shown += piece.decode()
        return bool(piece)

    def type(self, text: str) -> None:
        os.write(self.screen, text.encode())

    def exit_code(self) -> int:
        """Of its end, which is waited for."""
        while self.read():
            pass
        return self.process.wait(DEADLINE_S)

    def left(self) -> dict[int, str]:
        """Command lines, by pid, of this machine's processes that belong to it."""
        lines = {}
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if str(self.home) in line and int(path.parent.name) != os.getpid():
                lines[int(path.parent.name)] = line
        return lines

    def wait_until_nothing_is_left(self) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while left := self.left():
            assert time.monotonic() < deadline, left
            time.sleep(0.05)


@contextmanager
def performed(
    home: Path, fault: str, *options: str, terminal: bool = False, variables: Mapping[str, str] | None = None
) -> Iterator[Performed]:
    """Start one; whatever the test does, nothing of it is left."""
    inner, outer = os.openpty() if terminal else os.pipe()
    command = [sys.executable, "-m", "demo", "--dir", str(home), *options]
    if terminal:
        command = [sys.executable, "-c", ON_A_TERMINAL, *command]
    process = subprocess.Popen(
        command,
        stdin=outer if terminal else subprocess.DEVNULL,
        stdout=outer,
        stderr=outer,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}", "FAULT": fault, **(variables or {})},
    )
    os.close(outer)
    running = Performed(process, home, inner)
    try:
        yield running
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            process.wait()
        os.close(inner)
        running.wait_until_nothing_is_left()
