"""Ranks that work longer than their peers."""

import csv
import os
from collections import defaultdict
from pathlib import Path

import pytest

from rerail import peers

DATA = os.environ.get("RERAIL_TEST_DATA", "")
"""A folder with stragglers/steps-AR.csv and steps-SE.csv (ByteDance's traces, Apache-2.0), where there is one."""

STEADY = {rank: 1.0 + 0.01 * (rank % 3) for rank in range(8)}


def test_one_slow_rank_among_many_stands_out() -> None:
    assert peers.outliers({**STEADY, 5: 1.6}) == (5,)


def test_equal_ranks_do_not_stand_out() -> None:
    assert peers.outliers(STEADY) == ()
    assert peers.outliers({**STEADY, 5: 1.08}) == ()


def test_too_few_peers_say_nothing() -> None:
    assert peers.outliers({0: 1.0, 1: 9.0}) == ()


def test_a_stage_that_works_longer_is_compared_with_itself() -> None:
    stages = {rank: rank // 4 for rank in range(8)}
    assert peers.outliers({rank: 1.0 + stages[rank] for rank in range(8)}, stages) == ()


def test_a_rank_is_slow_when_it_stands_out_again_and_again() -> None:
    slow = {**STEADY, 5: 1.6}
    assert peers.slow([STEADY] * 4 + [slow] * 4) == ()
    assert peers.slow([STEADY] * 3 + [slow] * 5) == (5,)


@pytest.mark.skipif(not DATA, reason="RERAIL_TEST_DATA names no folder with the traces")
@pytest.mark.parametrize(("trace", "expected"), [("AR", {0}), ("SE", set())])
def test_the_slowed_worker_of_a_real_trace_is_found_and_an_imbalance_blames_nobody(trace: str, expected: set[int]) -> None:
    steps: dict[int, dict[int, float]] = defaultdict(dict)
    stages: dict[int, int] = {}
    with Path(DATA, "stragglers", f"steps-{trace}.csv").open() as rows:
        for row in csv.DictReader(rows):
            steps[int(row["step"])][int(row["rank"])] = float(row["compute_dur"])
            stages[int(row["rank"])] = int(row["stage"])
    work = [ranks for _, ranks in sorted(steps.items())]
    assert {rank for end in range(1, len(work) + 1) for rank in peers.slow(work[:end], stages)} == expected
    assert peers.slow(work[:5], stages) == tuple(expected)
