"""Tells the story in the terminal: one plain sentence at a time, with the seconds since it began."""

import sys
import textwrap
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TextIO

WIDTH = 118
INDENT = " " * 11


@dataclass
class Teller:
    """Sentences with relative seconds; texts of logs and of strangers lose what could steer a terminal."""

    out: TextIO = field(default_factory=lambda: sys.stdout)
    began: float = field(default_factory=time.monotonic)

    def say(self, sentence: str) -> None:
        """A new moment of the story."""
        stamp = f"[{time.monotonic() - self.began:6.1f} s] "
        self.write(wrapped(sentence, first=stamp))

    def add(self, *lines: str) -> None:
        """Lines that belong to the moment; long ones go on below, links and commands stay in one piece."""
        for line in lines:
            self.write(wrapped(line, first=INDENT) if line else [""])

    def exact(self, *lines: str) -> None:
        """Lines to copy: never broken."""
        self.write(INDENT + plain(line) for line in lines)

    def write(self, lines: Iterable[str]) -> None:
        print(*lines, sep="\n", file=self.out, flush=True)


def wrapped(text: str, first: str) -> list[str]:
    """The text over as many lines as it needs, indented by as much as `first` is wide."""
    body = plain(text)
    lead = " " * (len(body) - len(body.lstrip()))
    wrap = textwrap.TextWrapper(WIDTH, break_long_words=False, break_on_hyphens=False, subsequent_indent=INDENT + lead)
    wrap.initial_indent = first + lead
    return wrap.wrap(body.strip()) or [first.rstrip()]


def plain(text: str) -> str:
    """Printable characters only."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
