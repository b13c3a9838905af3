"""A moment by which something has to be over, and the guard that sees to it: some calls of paramiko know no time-out."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Deadline:
    """By the monotonic clock."""

    at: float

    @classmethod
    def after(cls, seconds: float) -> "Deadline":
        return cls(time.monotonic() + seconds)

    def left(self, most: float = threading.TIMEOUT_MAX) -> float:
        """Seconds, never below zero, never above `most`."""
        return max(0.0, min(most, self.at - time.monotonic()))

    @property
    def passed(self) -> bool:
        return time.monotonic() >= self.at


class Guard:
    """Calls `end` at the deadline unless the block is over by then: a peer that says nothing leaves no thread behind."""

    def __init__(self, deadline: Deadline, end: Callable[[], object]) -> None:
        self._timer = threading.Timer(deadline.left(), end)
        self._timer.daemon = True

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
