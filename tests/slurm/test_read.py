"""What the adapter reads of a real Slurm is what Slurm's own tools and files say."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from adapters.schedulers.slurm import SlurmScheduler
from rerail import hostlist
from rerail.errors import NoSuchJob
from rerail.records import JobState, NodeState
from tests.slurm.conftest import Until
from tests.testbed.cluster import Cluster

HOSTILE = '{"rerail": {"off": true}}\n\x1b[31m JobState=FAILED NodeList=node1 "é'


def test_an_ended_job_tells_its_exit_and_until_when_a_requeue_is_possible(
    scheduler: SlurmScheduler, until: Until, sleeper: Callable[..., str]
) -> None:
    job = until(sleeper("-N2", "--job-name=ends", seconds=0, exit_code=7), lambda job: job.state.ended and not job.completing)
    assert (job.state, job.exit_code, job.reason, job.name) == (JobState.FAILED, 7, "NonZeroExitCode", "ends")
    assert job.user == "rerailjob"
    assert len(job.nodes) == 2
    assert job.ended_at is not None
    assert job.requeue_until is not None
    assert (job.requeue_until - job.ended_at).total_seconds() == 600
    assert job in scheduler.read().jobs


def test_waiting_jobs_tell_why_and_until_when(until: Until, sleeper: Callable[..., str]) -> None:
    held = until(sleeper("--hold"), lambda job: job.reason != "")
    later = until(sleeper("--begin=now+1hour"), lambda job: job.reason != "")
    wide = until(sleeper("--nodes=9"), lambda job: job.reason != "")
    assert (held.held, held.reason) == (True, "JobHeldUser")
    assert (later.held, later.reason, later.started_at) == (False, "BeginTime", None)
    assert later.begins_at is not None
    assert later.submitted_at is not None
    assert 3590 < (later.begins_at - later.submitted_at).total_seconds() < 3610
    assert (wide.reason.startswith("Partition"), wide.nodes_needed) == (True, 9)


def test_strangers_text_is_read_as_text(until: Until, sleeper: Callable[..., str]) -> None:
    job_id = sleeper(f"--comment={HOSTILE}", "--job-name=a b=JobState;$(id)", "--exclude=node[1-2]")
    job = until(job_id, lambda job: job.state is JobState.RUNNING)
    assert (job.comment, job.name) == (HOSTILE, "a b=JobState;$(id)")
    assert job.excluded_nodes == ("node1", "node2")


@pytest.mark.parametrize("pattern", ["", "%x-%j.log", "deep/%u-%5j-%A-%a-%N-%%-%t-%n-%s-%b.out"])
def test_the_log_lies_where_the_adapter_says(cluster: Cluster, until: Until, sleeper: Callable[..., str], pattern: str) -> None:
    (cluster.shared / "deep").mkdir(exist_ok=True, mode=0o777)
    (cluster.shared / "deep").chmod(0o777)
    options = [f"--output={pattern}"] if pattern else []
    job = until(sleeper(*options, "--job-name=na me", seconds=0), lambda job: job.state.ended)
    assert Path(job.output).exists(), job.output


def test_tasks_of_an_array_and_components_are_jobs_of_their_own(
    scheduler: SlurmScheduler, sleeper: Callable[..., str], until: Until
) -> None:
    array = sleeper("--array=3-6%2", seconds=60)
    task = until(f"{array}_3", lambda job: job.state is JobState.RUNNING)
    assert scheduler.job(f"{array}_6").state is JobState.PENDING  # it has no record of its own yet
    assert (task.array_job_id, task.array_task_id) == (array, "3")
    assert Path(task.output).name == f"slurm-{array}_3.out"
    assert {job.job_id for job in scheduler.read().jobs if job.array_job_id == array} == {array, f"{array}_3", f"{array}_4"}

    leader = sleeper("-N1", ":", "-N1", seconds=60)
    until(leader, lambda job: job.state is JobState.RUNNING)
    assert scheduler.job(f"{leader}+0") == scheduler.job(leader)
    assert scheduler.job(f"{leader}+1").het_job_id == leader


def test_an_unknown_job_is_no_such_job(scheduler: SlurmScheduler) -> None:
    with pytest.raises(NoSuchJob):
        scheduler.job("999999")


def test_nodes_tell_state_and_reason(cluster: Cluster, scheduler: SlurmScheduler) -> None:
    reason = "a|b idle $(id)"
    cluster.run(["scontrol", "update", "nodename=node5", "state=drain", f"reason={reason}"])
    try:
        nodes = {node.name: node for node in scheduler.nodes()}
    finally:
        cluster.run(["scontrol", "update", "nodename=node5", "state=resume"])
    assert sorted(nodes) == [f"node{number}" for number in range(1, 7)]
    assert (nodes["node5"].state, nodes["node5"].reason) == (NodeState.DRAINED, reason)
    assert (nodes["node1"].state, nodes["node1"].reason, nodes["node1"].partitions) == (NodeState.UP, "", ("main",))


@pytest.mark.parametrize("text", ["node[1-3]", "a[08-11],b", "r[1-2]n[1-3]", "n1,n1,n2", "gpu-[001-003,007],login"])
def test_hostlists_stand_for_what_slurm_says(cluster: Cluster, text: str) -> None:
    names = tuple(cluster.run(["scontrol", "show", "hostnames", text]).split())
    assert hostlist.expand(text) == tuple(dict.fromkeys(names))
    again = cluster.run(["scontrol", "show", "hostnames", hostlist.compress(names)]).split()
    assert set(again) == set(names)


def test_slurm_agrees_on_every_job(
    cluster: Cluster, scheduler: SlurmScheduler, until: Until, sleeper: Callable[..., str]
) -> None:
    until(sleeper(seconds=60), lambda job: job.state is JobState.RUNNING)
    sleeper("--hold")
    text = cluster.run(["squeue", "--noheader", "--states=all", "--format=%i|%T"])
    theirs = dict(line.split("|") for line in text.splitlines() if re.match(r"\d+\|", line))
    ours = {job.job_id: job.state.value.upper() for job in scheduler.read().jobs}
    assert theirs.items() <= ours.items()
