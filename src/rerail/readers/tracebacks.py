"""Python tracebacks, put back together where ranks wrote into each other's."""

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from rerail.readers import lines
from rerail.readers.prefixes import Prefix

MOST = 600
LONGEST = 400
"""Lines after its header in which a traceback's exception is looked for."""


class Traceback(NamedTuple):
    """One traceback: where it begins, where its exception stands, who raised it."""

    line: int
    last_line: int
    front: Prefix
    raised: str
    """The exception's line, bounded: `ValueError: bad sample`; empty when it never came."""
    files: tuple[str, ...]
    """Files of its frames, outermost first, the last eight."""
    chained: bool = False
    """True for one that arose while another was handled."""

    @property
    def name(self) -> str:
        """The exception's name without its modules."""
        return re.split(r"[:\s]", self.raised, maxsplit=1)[0].rsplit(".", 1)[-1]


@dataclass
class _Open:
    line: int
    front: Prefix
    chained: bool
    files: list[str] = field(default_factory=list)


_HEADER = "Traceback (most recent call last)"
_CHAINS = ("During handling of the above exception", "The above exception was the direct cause")
_FRAME = re.compile(r'^\s*File "([^"]{1,300})", line \d+')
_RAISED = re.compile(r"^[A-Za-z_][\w.]{0,160}(?::\s|:$|$)")
_ENDS_LIKE_ONE = re.compile(
    r"(?:Error|Exception|Interrupt|Exit|Iteration|Fault|Timeout|Failure|Abort|Warning)(?::|$)|^[a-z_][\w]*(?:\.[\w]+)+:"
)


class Tracebacks:
    """Takes lines in and gives tracebacks; ranks are told apart by their prefixes."""

    def __init__(self) -> None:
        self._open: dict[str, _Open] = {}
        self._chained: dict[str, bool] = {}
        self._found: list[Traceback] = []

    def take(self, number: int, front: Prefix, said: str) -> None:
        """Take in one line."""
        speaker = f"{front.rank}/{front.task}/{front.local}/{front.host}"
        body = front.body.rstrip()
        if _HEADER in body:
            self._end(speaker, number, "")
            if len(self._found) + len(self._open) < MOST:
                self._open[speaker] = _Open(number, front, self._chained.pop(speaker, False))
            return
        if any(body.startswith(chain) for chain in _CHAINS):
            self._chained[speaker] = True
        opened = self._open.get(speaker)
        if opened is None:
            return
        frame = _FRAME.match(body)
        if frame:
            opened.files = [*opened.files, frame[1]][-8:]
        elif body[:1].strip() and _RAISED.match(body) and _ENDS_LIKE_ONE.search(body[:200]) and not said.startswith("    "):
            self._end(speaker, number, body)
        elif number - opened.line > LONGEST:
            self._end(speaker, number, "")

    def close(self) -> list[Traceback]:
        """All, in order of their first lines."""
        for speaker in list(self._open):
            self._end(speaker, self._open[speaker].line, "")
        return sorted(self._found, key=lambda one: one.line)

    def _end(self, speaker: str, number: int, raised: str) -> None:
        opened = self._open.pop(speaker, None)
        if opened is not None:
            files = tuple(opened.files)
            self._found.append(Traceback(opened.line, number, opened.front, lines.excerpt(raised), files, opened.chained))
