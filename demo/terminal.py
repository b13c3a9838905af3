"""A person at the terminal: questions that can be withdrawn, because the answer may come another way."""

import asyncio
import os
import sys
import termios
from dataclasses import dataclass

LINE_MAX = 4096


class Gone(Exception):
    """The person has closed the input (Ctrl-D): no answer comes from here."""


@dataclass(frozen=True)
class Terminal:
    """Reads lines without a thread, so that a question ends with the task that asks it."""

    fd: int

    @classmethod
    def here(cls) -> "Terminal | None":
        """The terminal that this process may talk through; None when there is none, or when it is in the background."""
        try:
            fd = sys.stdin.fileno()
            usable = os.isatty(fd) and sys.stdout.isatty() and os.tcgetpgrp(fd) == os.getpgrp()
        except (OSError, ValueError):
            return None
        return cls(fd) if usable else None

    def forget_typed(self) -> None:
        """What was typed before a question was seen is no answer to it."""
        termios.tcflush(self.fd, termios.TCIFLUSH)

    async def ask(self, question: str) -> str:
        """The line that was typed, without blanks around it. Raises Gone at the end of input."""
        print(f"{question} ", end="", flush=True)
        loop = asyncio.get_running_loop()
        readable = asyncio.Event()
        loop.add_reader(self.fd, readable.set)
        try:
            await readable.wait()
        finally:
            loop.remove_reader(self.fd)
        line = os.read(self.fd, LINE_MAX)  # the terminal gives one line at a time
        if not line:
            raise Gone
        return line.decode(errors="replace").strip()

    async def ask_until(self, question: str, default: str = "") -> str:
        """Ask again until something was typed, or take the default."""
        while not (said := await self.ask(question) or default):
            print("           Something has to stand here.", flush=True)
        return said
