"""Lines fit for records, terminals and pages."""

import unicodedata
from io import BytesIO

from hypothesis import given
from hypothesis import strategies as st

from rerail.readers import blocks, lines


@given(st.binary(max_size=6000))
def test_no_control_character_survives_an_excerpt(line: bytes) -> None:
    said = lines.excerpt(line)
    assert len(said) <= lines.LONGEST_EXCERPT
    assert not [char for char in said if unicodedata.category(char) in ("Cc", "Zl", "Zp") or char in "\u202e\u2066\u200b\ufeff"]


def test_colours_titles_and_overwritten_bars_are_gone() -> None:
    assert lines.excerpt(b"\x1b[31m 10%|#\r 20%|##\x1b[0m \x1b]0;title\x07") == "20%|##"
    assert lines.plain(b"\x1b[31mstep: 4\x1b[0m") == b"step: 4"


@given(st.lists(st.binary(max_size=50).filter(lambda line: b"\n" not in line), min_size=1, max_size=60), st.integers(1, 40))
def test_blocks_give_all_lines_with_their_numbers_however_small_the_pieces(said: list[bytes], piece: int) -> None:
    data = b"\n".join(said) + b"\n"
    found: dict[int, bytes] = {}
    for block in blocks.read(Pieces(data, piece), len(data)):
        found |= dict(enumerate(block.data[:-1].split(b"\n"), block.line))
    assert found == dict(enumerate(said, 1))


def test_a_line_without_end_is_cut_and_the_next_one_keeps_its_number() -> None:
    data = b"x" * (3 * blocks.LONGEST) + b"\nnext\n"
    read = list(blocks.read(Pieces(data, 10_000), len(data)))
    assert sum(len(block.data) for block in read) < 2 * blocks.LONGEST
    assert any(block.cut for block in read)
    assert (read[-1].line + read[-1].data.count(b"\n") - 1, read[-1].data.split(b"\n")[-2]) == (2, b"next")


class Pieces(BytesIO):
    """A stream that gives small pieces, as a pipe or a growing file does."""

    def __init__(self, data: bytes, piece: int) -> None:
        super().__init__(data)
        self.piece = piece

    def read(self, size: int | None = -1) -> bytes:
        return super().read(self.piece if size is None or size < 0 else min(size, self.piece))
