"""The labelled corpus: what an expert would have said."""

from collections.abc import Sequence

import pytest

from rerail.hostlist import expand
from tests.corpus.scoring import CORPUS, FIELDS, Judged, cases, judge, without_own_rows

pytestmark = pytest.mark.xdist_group("corpus")


@pytest.fixture(scope="module")
def judged() -> list[Judged]:
    return [judge(case) for case in cases(CORPUS)]


@pytest.fixture(scope="module")
def apart() -> list[Judged]:
    return [one for one in without_own_rows() if one.case.folder.is_relative_to(CORPUS)]


def share(judged: Sequence[Judged], field: str) -> float:
    return sum(one.right[field] for one in judged) / len(judged)


@pytest.mark.parametrize("field", FIELDS)
def test_each_word_of_the_verdict_is_right_in_92_of_100_cases(judged: list[Judged], field: str) -> None:
    assert share(judged, field) >= 0.92, [one.told for one in judged if not one.right[field]]


def test_the_whole_verdict_is_right_in_85_of_100_cases(judged: list[Judged]) -> None:
    assert sum(one.all_right for one in judged) >= 0.85 * len(judged), [one.told for one in judged if not one.all_right]


def test_no_healthy_node_would_be_excluded(judged: list[Judged]) -> None:
    for one in judged:
        if one.said["advice"] == "restart_excluding_nodes":
            guilty = {name for text in one.case.truth["culprit_nodes"] for name in expand(text)}
            assert set(one.said["culprit_nodes"]) <= guilty, one.told


def test_no_recovery_is_advised_where_none_is_needed(judged: list[Judged]) -> None:
    calm = [one for one in judged if one.case.truth["advice"] == "no_action"]
    assert all(one.said["advice"] == "no_action" and one.said["kind"] == "none" for one in calm), [one.told for one in calm]


def test_verdicts_hold_without_the_rows_that_only_their_own_case_taught(apart: list[Judged]) -> None:
    assert sum(share(apart, field) for field in FIELDS) / len(FIELDS) >= 0.85, [one.told for one in apart if not one.all_right]


def test_without_its_own_rows_a_case_still_excludes_no_healthy_node(apart: list[Judged]) -> None:
    for one in apart:
        if one.said["advice"] == "restart_excluding_nodes":
            guilty = {name for text in one.case.truth["culprit_nodes"] for name in expand(text)}
            assert set(one.said["culprit_nodes"]) <= guilty, one.told


def test_every_line_that_is_quoted_stands_there(judged: list[Judged]) -> None:
    for one in judged:
        for quoted in one.said["evidence"]:
            if quoted["line"] is not None and quoted["role"] == "root" and quoted["signature"]:
                with (one.case.folder / quoted["file"]).open(encoding="utf-8", errors="replace", newline="\n") as log:
                    line = next(text for number, text in enumerate(log, 1) if number == quoted["line"])
                assert quoted["excerpt"][:12].strip()[:6] in line.replace("\t", " "), (one.case.name, quoted)
