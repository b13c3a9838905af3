"""The engines that find signatures in text: google-re2 always, hyperscan where it is installed, with equal answers.

A literal prefilter with a Python confirm step drops to 6-8 MB/s as soon as a progress line holds one of the literals, so the
exact expressions go to the automaton and only true hits reach Python.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from importlib.util import find_spec
from typing import Any, Protocol

import re2

from rerail.errors import Misconfigured

GROUPS = 3
"""Automata that share the rows between them. Measured: one over all rows is no faster on the log of one failure, and text mixed
from all rows at random drives it into ever new states and 400 MB; ten are half as fast everywhere else."""
MEMORY = 32 << 20
"""Bytes that each automaton may use; there are two for each group, so 192 MB at the very worst."""

SMALL = 32 << 20
"""Bytes up to which RE2 is done before hyperscan has compiled its database and read (measured: 20 MB in 0.3 s against 1.1 s)."""
MOST_ENGINES = 8
"""Engines kept: two for the catalogue, and some for the rows of sites."""

Lines = Iterator[tuple[int, int, tuple[int, ...]]]
"""(start, end, indices of rows) of each line with a hit, in order; bytes within the piece, the newline left out."""


class Engine(Protocol):
    """Finds the lines of a piece of text that any of its patterns hits."""

    def lines(self, piece: bytes) -> Lines:
        """All lines with hits."""
        ...


def options() -> Any:
    """Bytes, one line at a time, quiet."""
    made = re2.Options()
    made.encoding = re2.Options.Encoding.LATIN1
    made.max_mem = MEMORY
    made.never_nl = True
    made.log_errors = False
    return made


def plain(pattern: str) -> bytes:
    """The pattern without the names of its groups, which may not repeat within one automaton."""
    return re.sub(r"\(\?P<\w+>", "(?:", pattern).encode("ascii")


@cache
def compiled(pattern: str) -> Any:
    """One pattern by itself, with its named groups. Raises Misconfigured when RE2 refuses it."""
    try:
        return re2.compile(b"(?m)" + pattern.encode("ascii"), options())
    except (re2.error, UnicodeEncodeError) as error:
        raise Misconfigured(f"signature pattern refused: {str(error)[:200]}") from error


def line_bounds(piece: bytes, at: int) -> tuple[int, int]:
    """Start and end of the line that holds byte `at`."""
    end = piece.find(b"\n", at)
    return piece.rfind(b"\n", 0, at) + 1, len(piece) if end < 0 else end


class _Group:
    """Some of the rows: one alternation finds the lines, a set tells the rows of each."""

    def __init__(self, rows: Sequence[int], patterns: Sequence[str]) -> None:
        self._rows = rows
        bare = [b"(?:" + plain(p) + b")" for p in patterns]
        self._any = re2.compile(b"(?m)" + b"|".join(bare), options())
        self._set = re2.Set.SearchSet(options())
        for pattern in bare:
            self._set.Add(b"(?m)" + pattern)
        self._set.Compile()

    def lines(self, piece: bytes) -> Lines:
        at, size = 0, len(piece)
        while at < size and (found := self._any.search(piece, at)):
            start, end = line_bounds(piece, found.start())
            rows = self._set.Match(piece[start:end])
            if rows:
                yield start, end, tuple(self._rows[n] for n in rows)
            at = end + 1


class Re2Engine:
    """The rows in groups of neighbours, which begin alike and so share states."""

    def __init__(self, patterns: Sequence[str]) -> None:
        size = -(-len(patterns) // GROUPS) or 1
        parts = [range(at, min(at + size, len(patterns))) for at in range(0, len(patterns), size)]
        self._groups = [_Group(part, [patterns[n] for n in part]) for part in parts]

    def lines(self, piece: bytes) -> Lines:
        """See Engine."""
        ends: dict[int, int] = {}
        rows: dict[int, tuple[int, ...]] = {}
        for group in self._groups:
            for start, end, found in group.lines(piece):
                ends[start] = end
                rows[start] = rows.get(start, ()) + found
        for start in sorted(ends):
            yield start, ends[start], tuple(sorted(rows[start]))


def may_cross(pattern: str) -> bool:
    """True where a match could run over a newline: a class that holds it. RE2 is told never to; hyperscan cannot be."""
    bounded = re.sub(r"\[\^[^\]]*\\n[^\]]*\]", "", pattern)
    return bool(re.search(r"\\[sWDnvxpPC0-7]|\[\^|\[:|\(\?[a-z]*s", bounded))


class HyperscanEngine:
    """One database with ids, in block mode. A pattern that could match over a newline is confirmed by RE2 on its line."""

    def __init__(self, patterns: Sequence[str]) -> None:
        import hyperscan  # noqa: PLC0415  (an optional extra)

        self._loose = {row: pattern for row, pattern in enumerate(patterns) if may_cross(pattern)}
        self._database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        self._database.compile(
            expressions=[plain(p) for p in patterns],
            ids=list(range(len(patterns))),
            flags=[hyperscan.HS_FLAG_MULTILINE] * len(patterns),
        )

    def lines(self, piece: bytes) -> Lines:
        """See Engine."""
        finds: list[tuple[int, int]] = []
        self._database.scan(piece, match_event_handler=lambda row, _start, end, _flags, _ctx: finds.append((end, row)))
        finds.sort()
        start = end = -1
        rows: set[int] = set()
        for at, row in finds:
            if at - 1 > end:  # the last byte decides: a match that took the newline along belongs to the line before
                yield from self._true(piece, start, end, rows)
                start, end = line_bounds(piece, max(at - 1, 0))
                rows = set()
            rows.add(row)
        yield from self._true(piece, start, end, rows)

    def _true(self, piece: bytes, start: int, end: int, rows: set[int]) -> Lines:
        if not self._loose.keys().isdisjoint(rows):
            text = piece[start:end]
            rows = {row for row in rows if row not in self._loose or compiled(self._loose[row]).search(text)}
        if rows:
            yield start, end, tuple(sorted(rows))


def installed() -> tuple[str, ...]:
    """Names of the engines that can be used here, the fastest first."""
    return ("hyperscan", "re2") if find_spec("hyperscan") else ("re2",)


def fitting(size: int) -> str:
    """The engine for a text of so many bytes: RE2 compiles as it goes, hyperscan takes a second before it starts."""
    return "re2" if size <= SMALL else installed()[0]


def engine(patterns: tuple[str, ...], name: str = "") -> Engine:
    """The engine over these patterns, compiled once; `name` is hyperscan or re2, the fastest installed when empty."""
    return _made(patterns, name or installed()[0])


@lru_cache(maxsize=MOST_ENGINES)
def _made(patterns: tuple[str, ...], name: str) -> Engine:
    return HyperscanEngine(patterns) if name == "hyperscan" else Re2Engine(patterns)
