"""The scan: any chunks, long lines, strange bytes, bounded memory, the same answer."""

import io
import random
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rerail.signatures import ALL, Hit, Scanner, by_id, scan, scan_stream
from rerail.signatures.engine import installed
from rerail.signatures.scanner import LINE_CAP

XID = by_id("xid.79").example.encode()
OOM = by_id("cuda.out_of_memory").example.encode()
EXAMPLES = [line.encode() for row in ALL for line in row.spoken]
LINES = st.one_of(
    st.sampled_from(EXAMPLES), st.binary(max_size=60), st.sampled_from([b"", b"step 1 loss 2.0", b"\x00\xff\xfe", b"\r", b"a\rb"])
)


@given(lines=st.lists(LINES, max_size=30), cuts=st.lists(st.integers(1, 400), max_size=20))
@settings(max_examples=25, deadline=None)
def test_how_a_text_is_chunked_changes_nothing(lines: list[bytes], cuts: list[int]) -> None:
    text = b"\n".join(lines)
    scanner, at, hits = Scanner(), 0, []
    for cut in cuts:
        hits += scanner.feed(text[at : at + cut])
        at += cut
    assert hits + scanner.feed(text[at:]) + scanner.close() == scan(text)


@given(lines=st.lists(LINES, max_size=30))
@settings(max_examples=25, deadline=None)
def test_engines_agree_on_any_text(lines: list[bytes]) -> None:
    text = b"\n".join(lines)
    told = [scan(text, engine_name=name) for name in installed()]
    assert all(one == told[0] for one in told)


def test_engines_agree_on_thousands_of_mixed_lines() -> None:
    dice = random.Random(7)
    lines = [dice.choice(EXAMPLES)[dice.randrange(9) :] + b" " * dice.randrange(2) + dice.choice(EXAMPLES) for _ in range(1000)]
    text = b"\n".join(dice.choice((line, dice.choice(EXAMPLES))) for line in lines for _ in range(2))
    told = [scan(text, engine_name=name) for name in installed()]
    assert all(one == told[0] for one in told)


@pytest.mark.parametrize("name", installed())
def test_a_hit_tells_line_and_bytes(name: str) -> None:
    text = b"step 1\n\n" + XID + b"\nstep 2\n" + OOM
    hits = scan(text, engine_name=name)
    assert [(hit.line, hit.id) for hit in hits] == [(3, "xid.79"), (5, "cuda.out_of_memory")]
    assert [text[hit.start : hit.end] for hit in hits] == [XID, OOM]


@pytest.mark.parametrize("name", installed())
def test_nothing_matches_across_a_newline(name: str) -> None:
    halves = [line[: len(line) // 2] + b"\n" + line[len(line) // 2 :] for line in EXAMPLES]
    for half in halves:
        top, bottom = half.split(b"\n")
        alone = {hit.id for hit in scan(top, engine_name=name)} | {hit.id for hit in scan(bottom, engine_name=name)}
        assert {hit.id for hit in scan(half, engine_name=name)} <= alone


@pytest.mark.parametrize("name", installed())
def test_an_error_behind_hours_of_progress_bars_on_one_line_is_found(name: str) -> None:
    bars = b"".join(b"\r  9%%|#  | %d/99999 [14:24<2:10:35,  2.98s/it]" % n for n in range(30_000))
    text = b"start\n" + bars + OOM + b"\nend\n"
    hits = scan(text, engine_name=name)
    assert [(hit.line, hit.id) for hit in hits] == [(2, "cuda.out_of_memory")]
    assert hits[0].end - hits[0].start <= LINE_CAP
    assert OOM in text[hits[0].start : hits[0].end]


def test_a_long_line_gives_the_same_hits_in_any_chunks() -> None:
    text = b"x" * 100_000 + OOM + b"\r" + b"y" * 300_000 + XID + b"\n" + XID
    whole = scan(text)
    for size in (1000, 65_536, 70_001):
        scanner = Scanner()
        pieces = [hit for at in range(0, len(text), size) for hit in scanner.feed(text[at : at + size])]
        assert pieces + scanner.close() == whole
    assert {hit.id for hit in whole} == {"cuda.out_of_memory", "xid.79"}


def test_nul_bytes_and_broken_utf8_hide_nothing() -> None:
    assert [hit.id for hit in scan(b"\x00\x00\xff" + XID + b"\xc3\x28\x00")] == ["xid.79"]


def test_a_reader_goes_on_where_it_stopped() -> None:
    text = b"one\ntwo\n" + XID + b"\nhalf"
    first = Scanner()
    first.feed(text[:8])
    later = Scanner(line=first.line, offset=first.offset)
    assert later.feed(text[8:]) == [Hit(3, 8, 8 + len(XID), "xid.79")]
    assert (later.line, later.offset) == (4, 8 + len(XID) + 1)


def test_a_half_line_waits_for_its_end() -> None:
    scanner = Scanner()
    assert scanner.feed(XID[:50]) == []
    assert [hit.id for hit in scanner.feed(XID[50:] + b"\n")] == ["xid.79"]


def test_a_stream_is_read_once_and_lazily() -> None:
    assert [hit.line for hit in scan_stream(io.BytesIO((XID + b"\n") * 3))] == [1, 2, 3]


def test_importing_compiles_nothing() -> None:
    code = (
        "import sys, rerail.signatures.engine as e; assert e._made.cache_info().currsize == 0 and 'hyperscan' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path)})


def test_memory_stays_bounded_on_a_text_without_newline() -> None:
    code = (
        "import resource; from rerail.signatures import Scanner; s = Scanner(engine_name='re2'); s.feed(b'warm\\n');"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss;"
        "[s.feed(b'y' * 1_000_000) for _ in range(200)];"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, env={"PYTHONPATH": ":".join(sys.path)}
    )
    assert int(done.stdout) < 100_000
