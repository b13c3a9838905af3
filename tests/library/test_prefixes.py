"""Prefixes of launchers and loggers."""

# ruff: noqa: DTZ001  (logs name no zone)

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerail.readers import prefixes


@pytest.mark.parametrize(
    ("line", "rank", "task", "local", "host", "body"),
    [
        ("[rank7]: RuntimeError: x", 7, None, None, "", "RuntimeError: x"),
        ("[rank 2] step 1", 2, None, None, "", "step 1"),
        (" 3: Epoch 1", None, 3, None, "", "Epoch 1"),
        ("13: [rank13]: boom", 13, 13, None, "", "boom"),
        ("[1,2]<stdout>:step 4", 2, None, None, "", "step 4"),
        ("[default5]:[rank21]: E", 21, None, 5, "", "E"),
        ("(RayTrainWorker pid=4711, ip=10.0.0.7) step 4", None, None, None, "10.0.0.7", "step 4"),
        ("(pid=4711) step 4", None, None, None, "", "step 4"),
        ("vega01: [2024-09-30 18:12:30,000] [INFO] go", None, None, None, "vega01", "go"),
        ("worker-0 | step 9", None, None, None, "worker-0", "step 9"),
        ("[pod/train-1/pytorch] step 9", None, None, None, "train-1", "step 9"),
        ("srun: error: n1: task 0: Killed", None, None, None, "", "srun: error: n1: task 0: Killed"),
        ("RuntimeError: nothing in front", None, None, None, "", "RuntimeError: nothing in front"),
    ],
)
def test_a_prefix_tells_who_speaks(  # noqa: PLR0917
    line: str, rank: int | None, task: int | None, local: int | None, host: str, body: str
) -> None:
    read = prefixes.read(line)
    assert (read.rank, read.task, read.local, read.host, read.body) == (rank, task, local, host, body)


@pytest.mark.parametrize(
    ("line", "at"),
    [
        ("[2025-03-11 22:05:00.676481] iteration 3", datetime(2025, 3, 11, 22, 5, 0, 676481)),
        ("2026-12-01T03:23:36,123456+0100 NVRM", datetime(2026, 12, 1, 2, 23, 36, 123456)),
        ("[Wed Mar 12 04:48:54 2025] x", datetime(2025, 3, 12, 4, 48, 54)),
        ("Jun  3 07:46:32 node kernel: x", datetime(2024, 6, 3, 7, 46, 32)),
        ("E1201 03:23:52.724000 15 torch/x.py:1002] failed", datetime(2024, 12, 1, 3, 23, 52, 724000)),
        ("[rank3]:[E1201 03:23:52.724000111 ProcessGroupNCCL.cpp:607] x", datetime(2024, 12, 1, 3, 23, 52, 724000)),
        ("2: 2024/02/30 03:00:00 no such day", None),
    ],
)
def test_a_prefix_tells_when(line: str, at: datetime | None) -> None:
    assert prefixes.read(line, 2024).at == at


@given(st.text(max_size=300))
def test_any_line_is_split_into_a_front_and_a_body_that_it_ends_with(line: str) -> None:
    assert line.endswith(prefixes.read(line).body)


@given(
    st.lists(
        st.sampled_from(
            ["[", "(", "1", "9: ", "rank 3: ", "node1: ", "[default0]:", "INFO: ", "pod/a/b ", "D", "DLL ", "é", "٣: "]
        ),
        max_size=5,
    )
)
def test_no_row_is_passed_over_for_what_it_begins_with(parts: list[str]) -> None:
    line = "".join(parts)
    asked = [piece for pieces in prefixes._OPENED_BY.values() for piece in pieces]
    for at in range(len(line)):
        every = next((match for piece in prefixes._PIECES if (match := piece.match(line, at)) and match.end() > at), None)
        if every is not None:
            assert every.re in asked
            assert every.re in prefixes._OPENED_BY["a" if line[at].isalpha() else "0" if line[at].isdecimal() else line[at]]
