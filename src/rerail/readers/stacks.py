"""Python stacks of living ranks, as py-spy or faulthandler dumps them into a log."""

import re
from typing import NamedTuple

from rerail.readers.prefixes import Prefix

MOST = 4096
MOST_FRAMES = 40


class Stack(NamedTuple):
    """The main thread's frames of one rank, innermost first: `function (file)`."""

    line: int
    rank: int
    frames: tuple[str, ...]


_HEADER = re.compile(
    r"(?i)\brank[ =:#]{0,2}(\d{1,7})\b.{0,40}\bpid\b|\bpid\b.{0,40}\brank[ =:#]{0,2}(\d{1,7})\b"
    r"|stack (?:trace )?(?:of|for) rank (\d{1,7})"
    r"|^[\s=#*-]{0,12}rank[ =:#]{0,2}(\d{1,7})\b[^:]{0,80}$"  # a heading of its own; what follows tells whether stacks do
)
_PROCESS = re.compile(r"^Process \d{1,9}: ")
"""The first line of py-spy's dump: whose it is, a prefix tells where no heading does."""
_PREAMBLE = re.compile(r"^(?:Process \d{1,9}: |Python v\d)")
_THREAD = re.compile(r"^\s*Thread \S+")
_FRAME = re.compile(r"^\s+(?:File \"([^\"]{1,200})\", line \d+,? in (\w{1,80})|([\w<>.]{1,80}) \(([^()]{1,200}):\d+\))")


class Stacks:
    """Takes lines in and gives stacks."""

    def __init__(self) -> None:
        self._found: dict[int, Stack] = {}
        self._rank: int | None = None
        self._threads = 0

    def take(self, number: int, front: Prefix) -> None:
        """Take in one line."""
        body = front.body
        header = _HEADER.search(body) if "rank" in body.lower() else None
        speaker = front.rank if front.rank is not None else front.task
        if header:
            self._begin(number, int(next(group for group in header.groups() if group)))
            return
        if speaker is not None and _PROCESS.match(body):
            self._begin(number, speaker)
            return
        if self._rank is None or _PREAMBLE.match(body):
            return
        if _THREAD.match(body):
            self._threads += 1
            return
        frame = _FRAME.match(" " + body)
        if frame is None:
            self._rank = self._rank if not body.strip() else None
        elif self._threads <= 1:
            self._add(frame)

    def _begin(self, number: int, rank: int) -> None:
        self._rank, self._threads = rank, 0
        if len(self._found) < MOST:
            self._found[rank] = Stack(number, rank, ())

    def _add(self, frame: re.Match[str]) -> None:
        rank = self._rank if self._rank is not None else -1
        stack = self._found.get(rank)
        if stack is not None and len(stack.frames) < MOST_FRAMES:
            said = f"{frame[2] or frame[3]} ({frame[1] or frame[4]})"
            self._found[rank] = stack._replace(frames=(*stack.frames, said))

    def close(self) -> list[Stack]:
        """The last stack of each rank that has frames."""
        return [stack for _, stack in sorted(self._found.items()) if stack.frames]
