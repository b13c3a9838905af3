"""A stream in blocks of whole lines, bounded whatever the stream holds."""

from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

BLOCK = 4 << 20
"""Bytes of a block: large enough for the automaton, small against the memory that a diagnosis may take."""

LONGEST = 256 << 10
"""Of a line longer than this the front is kept, and the rest is passed over until its newline."""


class Block(NamedTuple):
    """Whole lines, each ending in a newline; `line` is the number of the first one, from 1."""

    data: bytes
    line: int
    last: bool
    cut: bool = False
    """True when a line was longer than LONGEST and lost its rest."""


def read(stream: BinaryIO, size: int) -> Iterator[Block]:
    """Blocks of the first `size` bytes of a stream. A last line without a newline gets one. Ends early when the stream does."""
    rest, line, left, skipping = b"", 1, size, False
    while left > 0 and (piece := stream.read(min(BLOCK, left))):
        left -= len(piece)
        cut = skipping
        if skipping:
            end = piece.find(b"\n")
            piece, skipping = (piece[end:], False) if end >= 0 else (b"", True)
        text = rest + piece
        whole = text.rfind(b"\n") + 1
        rest, text = text[whole:], text[:whole]
        if len(rest) > LONGEST:
            rest, skipping, cut = rest[:LONGEST], True, True
        if text:
            yield Block(text, line, left <= 0 and not rest, cut)
            line += text.count(b"\n")
    if rest:
        yield Block(rest + b"\n", line, True, skipping)
