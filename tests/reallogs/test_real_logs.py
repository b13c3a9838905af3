"""Seventeen real runs on a real Slurm: all of them right."""

import pytest

from tests.corpus.scoring import REAL_LOGS, Case, cases, judge


@pytest.mark.parametrize("case", cases(REAL_LOGS), ids=lambda case: case.name)
def test_a_real_run_is_judged_as_it_was_broken(case: Case) -> None:
    judged = judge(case)
    assert judged.all_right, judged.told
