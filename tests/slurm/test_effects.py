"""Effects on a real Slurm: done to the one job that is meant, or refused with a sentence."""

from collections.abc import Callable

import pytest

from adapters.schedulers.slurm import InCluster, SlurmScheduler
from rerail.errors import Misconfigured, NoSuchJob, Refused
from rerail.records import JobState
from tests.slurm.conftest import AsOperator, Until
from tests.testbed.cluster import Cluster

Sleeper = Callable[..., str]


def test_a_running_job_is_excluded_while_it_is_still_being_requeued(
    scheduler: SlurmScheduler, until: Until, sleeper: Sleeper
) -> None:
    job_id = sleeper("-N2")
    first = until(job_id, lambda job: job.state is JobState.RUNNING)
    scheduler.requeue(job_id, running=True)
    scheduler.exclude(job_id, first.nodes)
    waiting = until(job_id, lambda job: job.state is JobState.PENDING and not job.completing)
    assert (waiting.held, waiting.excluded_nodes) == (False, first.nodes)
    assert waiting.begins_at is not None
    assert waiting.submitted_at is not None
    assert waiting.begins_at > waiting.submitted_at
    scheduler.start_now(job_id)
    again = until(job_id, lambda job: job.state is JobState.RUNNING)
    assert not set(again.nodes) & set(first.nodes)
    assert again.restarts == 1


def test_an_empty_list_takes_the_exclusion_back(scheduler: SlurmScheduler, sleeper: Sleeper) -> None:
    job_id = sleeper("--hold", "--exclude=node1")
    scheduler.exclude(job_id, ["node2", "node3"])
    assert scheduler.job(job_id).excluded_nodes == ("node2", "node3")
    scheduler.exclude(job_id, [])
    assert scheduler.job(job_id).excluded_nodes == ()


def test_start_now_takes_the_begin_time_away(scheduler: SlurmScheduler, until: Until, sleeper: Sleeper) -> None:
    job_id = sleeper("--begin=now+1hour")
    scheduler.start_now(job_id)
    until(job_id, lambda job: job.state is JobState.RUNNING)
    scheduler.start_now(job_id)  # there is nothing left to take away


def test_a_job_that_ended_well_is_not_run_again_when_it_was_believed_to_run(
    scheduler: SlurmScheduler, until: Until, sleeper: Sleeper
) -> None:
    job_id = sleeper(seconds=0)
    ended = until(job_id, lambda job: job.state is JobState.COMPLETED)
    scheduler.requeue(job_id, running=True)
    assert scheduler.job(job_id) == ended


def test_a_cancelled_job_ends_and_may_be_cancelled_again(scheduler: SlurmScheduler, until: Until, sleeper: Sleeper) -> None:
    job_id = sleeper()
    until(job_id, lambda job: job.state is JobState.RUNNING)
    scheduler.cancel(job_id)
    until(job_id, lambda job: job.state is JobState.CANCELLED)
    scheduler.cancel(job_id)


def test_one_task_of_an_array_is_requeued_and_its_sisters_go_on(
    scheduler: SlurmScheduler, until: Until, sleeper: Sleeper
) -> None:
    array = sleeper("--array=1-2")
    for task in (1, 2):
        until(f"{array}_{task}", lambda job: job.state is JobState.RUNNING)
    with pytest.raises(Refused, match="name"):
        scheduler.requeue(array, running=True)
    with pytest.raises(Refused, match="name"):
        scheduler.cancel(array)
    scheduler.requeue(f"{array}_1", running=True)
    until(f"{array}_1", lambda job: job.restarts == 1)
    assert scheduler.job(f"{array}_2").restarts == 0
    assert scheduler.job(f"{array}_2").state is JobState.RUNNING


def test_a_component_of_a_heterogeneous_job_is_refused(scheduler: SlurmScheduler, until: Until, sleeper: Sleeper) -> None:
    leader = sleeper("-N1", ":", "-N1")
    until(leader, lambda job: job.state is JobState.RUNNING)
    with pytest.raises(Refused, match=f"name its leader: {leader}"):
        scheduler.requeue(f"{leader}+1", running=True)


def test_a_job_whose_owner_wants_no_requeue_is_left_alone(scheduler: SlurmScheduler, until: Until, sleeper: Sleeper) -> None:
    job_id = sleeper("--no-requeue")
    until(job_id, lambda job: job.state is JobState.RUNNING)
    with pytest.raises(Refused, match="must not be requeued"):
        scheduler.requeue(job_id, running=True)


def test_wrong_wishes_are_refused_with_a_sentence(scheduler: SlurmScheduler, until: Until, sleeper: Sleeper) -> None:
    running, held = sleeper(), sleeper("--hold")
    until(running, lambda job: job.state is JobState.RUNNING)
    with pytest.raises(Refused, match="it started meanwhile"):
        scheduler.exclude(running, ["node1"])
    with pytest.raises(Refused, match="none of this cluster"):
        scheduler.exclude(held, ["elsewhere7"])
    with pytest.raises(NoSuchJob):
        scheduler.cancel("999999")
    with pytest.raises(NoSuchJob):
        scheduler.requeue("999999", running=False)


def test_missing_rights_are_named(cluster: Cluster, until: Until, sleeper: Sleeper) -> None:
    scheduler = SlurmScheduler("testbed", AsOperator(InCluster(str(cluster.slurm_conf))))
    job_id = sleeper()
    until(job_id, lambda job: job.state is JobState.RUNNING)
    with pytest.raises(Misconfigured, match="AdminLevel=Operator"):
        scheduler.requeue(job_id, running=True)
    with pytest.raises(Misconfigured, match="AdminLevel=Operator"):
        scheduler.cancel(job_id)
    assert scheduler.job(job_id).state is JobState.RUNNING
