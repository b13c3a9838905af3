"""Reading a text of any length in pieces, once, with bounded memory: which rows hit which lines."""

from collections.abc import Iterator, Sequence
from typing import BinaryIO

from rerail.records import Role
from rerail.signatures.catalogue import ALL
from rerail.signatures.engine import Engine, compiled, engine, fitting
from rerail.signatures.hit import Hit
from rerail.signatures.signature import Signature

LINE_CAP = 64 << 10
"""Bytes of a line looked at in one go. A longer line (progress bars that never end it) is read in pieces of this size."""
PIECE = 4 << 20
"""Bytes read from a file at once: large enough to keep the automaton busy, small against 300 MB."""


class Scanner:
    """Takes a text in chunks of any size, as they come from a file or a live tail. Keeps at most one line cap of text back."""

    def __init__(self, rows: Sequence[Signature] = ALL, engine_name: str = "", *, line: int = 1, offset: int = 0) -> None:
        """`line` and `offset` tell where the first chunk begins, for a reader that goes on where it stopped."""
        self._ids = tuple(row.id for row in rows)
        self._patterns = tuple(row.pattern for row in rows)
        self._breadths = tuple(row.breadth for row in rows)
        self._name = engine_name
        self._engine: Engine | None = None
        self._rest = b""
        self.line = line
        """Number of the line that the next unread byte belongs to."""
        self.offset = offset
        """Bytes read so far, the half line kept back not counted: where to go on."""

    def feed(self, chunk: bytes) -> list[Hit]:
        """The hits in all lines that `chunk` completes; a line beyond the cap is not waited for."""
        text = self._rest + chunk if self._rest else chunk
        cut = text.rfind(b"\n") + 1
        while len(text) - cut > LINE_CAP:
            cut = _part_end(text, cut)
        self._rest = text[cut:]
        return self._take(text[:cut])

    def close(self) -> list[Hit]:
        """The hits in what was left without a newline."""
        text, self._rest = self._rest, b""
        return self._take(text)

    def _take(self, text: bytes) -> list[Hit]:
        if not text:
            return []
        if self._engine is None:
            self._engine = engine(self._patterns, self._name)
        hits: list[Hit] = []
        seen = 0
        for start, end, found in self._engine.lines(text):
            self.line += text.count(b"\n", seen, start)
            seen = start
            hits += self._hits(text, start, end, found)
        self.line += text.count(b"\n", seen)
        self.offset += len(text)
        return hits

    def _hits(self, text: bytes, start: int, end: int, found: tuple[int, ...]) -> list[Hit]:
        if end - start <= LINE_CAP:
            return [Hit(self.line, self.offset + start, self.offset + end, self._ids[n]) for n in self._speaking(found)]
        return [hit for part in _parts(text, start, end) for hit in self._part_hits(text, *part, found)]

    def _part_hits(self, text: bytes, start: int, end: int, found: tuple[int, ...]) -> list[Hit]:
        part = text[start:end]
        true = tuple(n for n in found if compiled(self._patterns[n]).search(part))
        return [Hit(self.line, self.offset + start, self.offset + end, self._ids[n]) for n in self._speaking(true)]

    def _speaking(self, found: tuple[int, ...]) -> tuple[int, ...]:
        """Of several rows on one line, the narrowest."""
        if len(found) < 2:
            return found
        narrowest = min(self._breadths[n] for n in found)
        return tuple(n for n in found if self._breadths[n] == narrowest)


def _part_end(text: bytes, start: int) -> int:
    """Where to cut a line beyond the cap: behind the last carriage return within the cap, else hard at the cap."""
    turn = text.rfind(b"\r", start, start + LINE_CAP) + 1
    return turn or start + LINE_CAP


def _parts(text: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The same cuts, whatever the chunks were that the line came in."""
    while end - start > LINE_CAP:
        stop = _part_end(text, start)
        yield start, stop
        start = stop
    yield start, end


def scan(data: bytes, rows: Sequence[Signature] = ALL, engine_name: str = "") -> list[Hit]:
    """All hits in a text, by line and row; one pass."""
    scanner = Scanner(rows, engine_name or fitting(len(data)))
    hits = []
    for at in range(0, len(data), PIECE):
        hits += scanner.feed(data[at : at + PIECE])
    return hits + scanner.close()


def scan_stream(stream: BinaryIO, rows: Sequence[Signature] = ALL, engine_name: str = "") -> Iterator[Hit]:
    """The hits in a file or pipe as they are found; memory does not grow with its size.

    A text made of nothing but different failures is read at 0.2 MB/s by RE2: who reads strangers' text stops after so many hits
    (`itertools.islice`) and says so.
    """
    scanner = Scanner(rows, engine_name)
    while chunk := stream.read(PIECE):
        yield from scanner.feed(chunk)
    yield from scanner.close()


def named(row: Signature, line: bytes) -> dict[str, str]:
    """What the row's named groups (node, nodes, rank, ranks, peer, code ...) say in a line it hits; empty where it does not."""
    found = compiled(row.pattern).search(line)
    if not found:
        return {}
    return {str(name, "ascii"): str(text, "latin-1") for name, text in found.groupdict().items() if text}


def loudest(rows: Sequence[Signature]) -> Signature | None:
    """The row that speaks for a line that several rows hit: noise silences all, then a root, then a cascade."""
    order = (Role.NOISE, Role.ROOT, Role.CASCADE)
    return min(rows, key=lambda row: order.index(row.role), default=None)
