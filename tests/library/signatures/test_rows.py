"""Every row of the catalogue proves itself by its own examples."""

import re
from collections import Counter

import pytest

from rerail.records import Advice, FaultClass, Kind, Role
from rerail.signatures import ALL, Signature, by_id, loudest, named, scan
from rerail.signatures.engine import compiled, installed, may_cross

IDS = [row.id for row in ALL]
EXAMPLES = [(row, line) for row in ALL for line in row.spoken]
PREFIXES = (
    "",
    "12: ",
    "[rank7]: ",
    "[default3]:[rank11]: ",
    "worker-2 | ",
    "node18: ",
    "(RayTrainWorker pid=77, ip=10.0.0.4) ",
    "[1,5]<stderr>:",
)
"""What launchers put in front of a line."""
ANCHORED = {row.id for row in ALL if re.search(r"(?<!\[)\^", row.pattern)}
"""Rows that look at where a line begins, so that a prefix may hide them."""


def rows_on(line: bytes) -> list[Signature]:
    return [by_id(hit.id) for hit in scan(line)]


def test_an_example_is_known_by_its_own_row_and_no_other_root() -> None:
    wrong = []
    for row, line in EXAMPLES:
        rows = rows_on(line.encode())
        rivals = [other.id for other in rows if other.role is Role.ROOT and other is not row]
        if row not in rows or (rivals and row.role is not Role.NOISE):
            wrong.append((row.id, line, rivals))
    assert wrong == []


def test_noise_never_silences_the_example_of_a_root_or_an_echo() -> None:
    voices = [(row, loudest(rows_on(line.encode()))) for row, line in EXAMPLES]
    assert [(row.id, voice and voice.id) for row, voice in voices if voice is None or voice.role is not row.role] == []


def test_a_launchers_prefix_hides_no_example() -> None:
    free = [row for row in ALL if row.id not in ANCHORED]
    text = "\n".join(prefix + row.example for row in free for prefix in PREFIXES).encode()
    known = {(hit.line, hit.id) for hit in scan(text)}
    lines = enumerate(((row, prefix) for row in free for prefix in PREFIXES), 1)
    assert [(row.id, prefix) for line, (row, prefix) in lines if (line, row.id) not in known] == []


def test_ids_are_unique_and_say_their_family() -> None:
    assert len(set(IDS)) == len(IDS) >= 240
    assert all(re.fullmatch(r"[a-z0-9]+\.[a-z0-9_]+", one) for one in IDS)


def test_a_row_says_why_and_where_from() -> None:
    good = re.compile(r"[a-z][a-z0-9_]*")
    silent = [
        row.id
        for row in ALL
        if not (row.why.endswith(".") and row.source and row.example.isprintable() and good.fullmatch(row.cause))
    ]
    assert silent == []


def test_a_row_contradicts_itself_in_nothing() -> None:
    assert [row.id for row in ALL if not consistent(row)] == []


def consistent(row: Signature) -> bool:
    calm = (row.fault is FaultClass.NONE, row.advice is Advice.NO_ACTION, row.kind is Kind.NONE)
    if row.role is Role.NOISE:
        return row.advice in (None, Advice.NO_ACTION) and row.kind is Kind.NONE
    if row.advice is Advice.RESTART_EXCLUDING_NODES and row.fault not in (FaultClass.HARDWARE, FaultClass.SYSTEM):
        return False
    return row.advice is not None and len(set(calm)) == 1


def test_a_pattern_stays_within_its_line_and_ends_firmly() -> None:
    loose = re.compile(r"\\[sDW]|\.\*$|\.\+$|\(\?[=!<](?!P)")
    assert [row.id for row in ALL if loose.search(row.pattern) or not row.pattern.isascii()] == []
    assert [row.id for row in ALL if named(row, b"") or compiled(row.pattern).search(b"step 12 of 100, loss 2.31")] == []


def test_few_patterns_need_the_second_look_of_hyperscan() -> None:
    assert sum(may_cross(row.pattern) for row in ALL) < 20


def test_names_are_carried_out_of_a_line() -> None:
    line = b"srun: error: kronos: task 2: Exited with exit code 1"
    assert named(by_id("slurm.task_exit"), line) == {"node": "kronos", "ranks": "2", "code": "1"}
    assert named(by_id("slurm.node_failure"), b"srun: error: Node failure on gpu-[0412-0413]")["nodes"] == "gpu-[0412-0413]"


@pytest.mark.parametrize("name", installed())
def test_engines_and_pythons_re_agree_on_every_example(name: str) -> None:
    text = "\n".join(line for row in ALL for line in row.spoken).encode()
    told = Counter((hit.line, hit.id) for hit in scan(text, engine_name=name))
    assert told == Counter(by_re(text))


def by_re(text: bytes) -> list[tuple[int, str]]:
    """What Python's re finds, line by line, with the rule that only the narrowest rows speak."""
    patterns = [(row, re.compile(row.pattern.encode())) for row in ALL]
    told = []
    for number, line in enumerate(text.split(b"\n"), 1):
        rows = [row for row, pattern in patterns if pattern.search(line)]
        narrowest = min((row.breadth for row in rows), default=0)
        told += [(number, row.id) for row in rows if row.breadth == narrowest]
    return told
