"""Who sent an attempt back to the queue, told by its log's last words and by its nodes."""

from datetime import UTC, datetime

import pytest

from policies.requeues import LAST_WORDS, Said, comes_back, requeued_by
from rerail.records import Attempt, Job, JobKey, JobState, Node, NodeState, Requeuer

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
ATTEMPT = Attempt(job=JobKey(cluster="alpha", job_id="7", submitted_at=NOW), number=1, restarts=1)
BACK = Job(cluster="alpha", job_id="7", state=JobState.PENDING, restarts=2)
UP = (Node(name="a", state=NodeState.UP), Node(name="b", state=NodeState.UP))
DOWN = (Node(name="a", state=NodeState.UP), Node(name="b", state=NodeState.DOWN, reason="not responding"))


def by(nodes: tuple[Node, ...] = UP, log: str = "", ran_on: tuple[str, ...] = ("a", "b"), job: Job = BACK) -> Requeuer | None:
    return requeued_by(job, ATTEMPT, ran_on, nodes, log)


@pytest.mark.parametrize("said", LAST_WORDS, ids=lambda said: said.by)
def test_slurms_last_words_in_the_log_tell(said: Said) -> None:
    assert by(log=f"step=4\n{said.example}\n") is said.by


def test_a_batch_host_that_lost_its_power_leaves_no_last_words_but_is_down() -> None:
    assert by(DOWN) is Requeuer.NODE_FAILURE
    assert by(DOWN, ran_on=("a",)) is Requeuer.SOMEBODY  # another node's failure is none of this job


def test_the_last_words_count_and_not_those_of_an_earlier_attempt_in_the_same_log() -> None:
    assert by(log="DUE TO NODE FAILURE\nstep=1\nCANCELLED AT 12:00 DUE TO JOB REQUEUE ***\n") is Requeuer.SOMEBODY


def test_a_preempted_job_whose_node_goes_down_later_was_preempted() -> None:
    assert by(DOWN, log="CANCELLED AT 12:00 DUE TO PREEMPTION ***") is Requeuer.PREEMPTION


def test_maintenance_is_no_failure() -> None:
    rebooting = (Node(name="a", state=NodeState.DOWN, reason="rebooting"), UP[1])
    assert by(rebooting, log="DUE TO NODE FAILURE") is Requeuer.MAINTENANCE


def test_silence_with_all_nodes_up_is_somebodys_requeue() -> None:
    assert by() is Requeuer.SOMEBODY


def test_what_was_not_requeued_was_requeued_by_nobody() -> None:
    assert by(DOWN, job=BACK.model_copy(update={"restarts": 1, "state": JobState.NODE_FAIL})) is None


def test_a_job_comes_back_as_the_one_attempt_after_this_one() -> None:
    assert comes_back(BACK, ATTEMPT)
    assert not comes_back(BACK.model_copy(update={"restarts": 3}), ATTEMPT)
    assert not comes_back(BACK.model_copy(update={"state": JobState.CANCELLED}), ATTEMPT)
