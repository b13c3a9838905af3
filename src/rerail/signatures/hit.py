"""A hit: one row that matched one line."""

from typing import NamedTuple


class Hit(NamedTuple):
    """`line` counts from 1; `start` and `end` are the line's bytes in the whole text (of a line beyond the cap, the piece's)."""

    line: int
    start: int
    end: int
    id: str
