"""Jobs that were to run after this one never run beside its restart."""

from typing import Any

import pytest

from policies.dependants import MOST, hindrance, index, of
from rerail.records import Job, JobState


def job(job_id: str = "12", **more: Any) -> Job:
    return Job(**({"cluster": "alpha", "job_id": job_id, "state": JobState.FAILED} | more))


def waiting(dependency: str, job_id: str = "20", **more: Any) -> Job:
    return job(job_id, **({"state": JobState.PENDING, "dependency": dependency} | more))


@pytest.mark.parametrize(
    ("dependency", "freed"),
    [
        ("afternotok:12(unfulfilled)", True),
        ("afterany:12", True),
        ("afterok:9,afterany:11:12(unfulfilled)", True),
        ("afterany:8?afternotok:12", True),
        ("afterok:12(unfulfilled)", False),
        ("after:12+5", False),
        ("afterany:121", False),
        ("afterany:12_3", False),
        ("singleton(unfulfilled)", False),
        ("", False),
        ("afterany:" + "9" * 10_000 + ":12", True),
    ],
)
def test_a_failure_frees_those_that_wait_for_any_end_or_for_a_failure(dependency: str, freed: bool) -> None:
    assert of(job(), index((waiting(dependency),))) == (("20",) if freed else ())


@pytest.mark.parametrize("dependency", ["afterany:12_*(unfulfilled)", "afternotok:12_3(unfulfilled)", "afterany:12"])
def test_a_task_of_an_array_frees_those_that_wait_for_it_or_for_the_array(dependency: str) -> None:
    known = index((waiting(dependency),))
    assert of(job("12_3", array_job_id="12", array_task_id="3"), known) == ("20",)


def test_few_are_remembered() -> None:
    assert len(of(job(), index([waiting("afterany:12", str(n)) for n in range(100, 200)]))) == MOST


def test_one_that_has_started_is_in_the_way_whatever_it_waited_for() -> None:
    said = hindrance(job(), (job("20", state=JobState.RUNNING),))
    assert said == "job 20 was to run after this one had failed, and has started: restarted, both would run"
    assert "has run already" in hindrance(job(), (job("20", state=JobState.COMPLETED),))


def test_one_that_would_start_at_any_moment_is_in_the_way_until_somebody_holds_or_cancels_it() -> None:
    other = waiting("")
    assert "`scontrol hold 20` or `scancel 20` first" in hindrance(job(), (other,))
    assert hindrance(job(), (other.model_copy(update={"held": True}),)) == ""
    assert hindrance(job(), (other.model_copy(update={"state": JobState.CANCELLED}),)) == ""


def test_a_job_that_still_runs_frees_nobody_when_it_is_requeued() -> None:
    assert hindrance(job(state=JobState.RUNNING), (waiting("afterany:12"),)) == ""
