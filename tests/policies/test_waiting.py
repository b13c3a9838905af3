"""Why a restarted job does not start is told where it is more than a full cluster."""

import pytest

from policies.waiting import WAITS, Wait, row, told, unfit
from rerail.records import Job, JobState


def job(reason: str, state: JobState = JobState.PENDING, **more: object) -> Job:
    return Job.model_validate({"cluster": "alpha", "job_id": "7", "state": state, "reason": reason, **more})


@pytest.mark.parametrize("wait", WAITS, ids=lambda wait: wait.example)
def test_each_reason_is_told_with_slurms_own_word(wait: Wait) -> None:
    assert row(job(wait.example)) == wait
    assert told(job(wait.example)) == f"it waits ({wait.example}): {wait.why}"
    assert unfit(job(wait.example)) == wait.unfit


@pytest.mark.parametrize("reason", ["", "None", "Priority", "Resources", "BeginTime"])
def test_a_full_cluster_is_nothing_to_tell(reason: str) -> None:
    assert told(job(reason)) == ""


def test_an_unknown_reason_is_told_as_it_is_and_bounded() -> None:
    assert told(job("BurstBufferStageIn")) == "it waits (BurstBufferStageIn)"
    assert len(told(job("x" * 5000))) < 200


def test_what_runs_or_is_cleaned_up_waits_for_nothing() -> None:
    assert told(job("BadConstraints", JobState.RUNNING)) == ""
    assert not unfit(job("BadConstraints", JobState.RUNNING))
    assert told(job("JobHeldUser", flags=("completing",))) == ""
