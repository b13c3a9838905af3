"""What the doctor found: one thing, how bad it is, and what to do about it."""

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """Only `fail` makes the exit code 1."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True)
class Finding:
    """`what` is one sentence without its full stop; `step` the next step, empty where there is none to take."""

    level: Level
    what: str
    step: str = ""

    def __str__(self) -> str:
        line = f"{self.level.value:<4}  {self.what}" + (f"  — {self.step}" if self.step else "")
        return "".join(mark if mark.isprintable() else "\N{REPLACEMENT CHARACTER}" for mark in line)


def ok(what: str) -> Finding:
    return Finding(Level.OK, what)


def warn(what: str, step: str) -> Finding:
    return Finding(Level.WARN, what, step)


def fail(what: str, step: str) -> Finding:
    return Finding(Level.FAIL, what, step)
