"""Nodes of a real Slurm: drained with a reason that names us, given back only as we left them; and who may not."""

from collections.abc import Callable, Iterator

import pytest

from adapters.schedulers.slurm import InCluster, SlurmScheduler
from rerail import drains
from rerail.errors import Misconfigured, Refused
from rerail.records import JobState, NodeState
from tests.slurm.conftest import AsOperator, Until, require
from tests.testbed import packages, slots
from tests.testbed.cluster import Cluster
from tests.testbed.processes import wait_until

REASON = drains.reason_of("remediate-job/testbed/7/1796083200/1", "gpu_fell_off_bus")

Sleeper = Callable[..., str]


@pytest.fixture(scope="module")
def accounted() -> Iterator[Cluster]:
    """A cluster where the operator has rights over others' jobs."""
    require((*packages.SLURM, *packages.ACCOUNTING))
    with slots.running(nodes=2, accounting=True) as cluster:
        yield cluster


@pytest.fixture
def operator(accounted: Cluster) -> SlurmScheduler:
    """AdminLevel=Operator."""
    return SlurmScheduler("testbed", AsOperator(InCluster(str(accounted.slurm_conf))))


def by_hand(cluster: Cluster, node: str, state: str, reason: str = "") -> None:
    said = [f"reason={reason}"] if reason else []
    cluster.run(["scontrol", "update", f"nodename={node}", f"state={state}", *said])


def test_the_reason_that_people_see_names_the_incident(cluster: Cluster, scheduler: SlurmScheduler) -> None:
    scheduler.drain("node2", REASON)
    assert REASON in cluster.run(["sinfo", "--noheader", "--list-reasons", "--format=%200E %N"])
    assert scheduler.node("node2").reason_by == "root"


@pytest.mark.parametrize("reason", ["NHC: check_hw_ib", "slurm-operator: cordoned", "[node_problem] ecc", "maintenance, ask bob"])
def test_a_foreign_drain_before_ours_is_never_replaced(cluster: Cluster, scheduler: SlurmScheduler, reason: str) -> None:
    by_hand(cluster, "node2", "drain", reason)
    before = scheduler.node("node2")
    with pytest.raises(Refused, match="it stays"):
        scheduler.drain("node2", REASON)
    assert scheduler.node("node2") == before


def test_a_foreign_drain_after_ours_is_never_resumed(cluster: Cluster, scheduler: SlurmScheduler) -> None:
    scheduler.drain("node2", REASON)
    ours = scheduler.node("node2")
    by_hand(cluster, "node2", "drain", "NHC: check_hw_ib")
    with pytest.raises(Refused, match="drained anew by root: NHC: check_hw_ib"):
        scheduler.resume("node2", drained=ours)
    assert scheduler.node("node2").state is NodeState.DRAINED


def test_a_drain_that_somebody_ended_and_made_anew_in_our_words_is_theirs(cluster: Cluster, scheduler: SlurmScheduler) -> None:
    scheduler.drain("node2", REASON)
    ours = scheduler.node("node2")
    wait_until(lambda: renewed(cluster, scheduler) != ours.reason_at, 10, "a later second")
    with pytest.raises(Refused, match="drained anew by root"):
        scheduler.resume("node2", drained=ours)


def renewed(cluster: Cluster, scheduler: SlurmScheduler) -> object:
    """The time of a drain by hand. (Slurm keeps the time of a reason that is only written once more, word for word.)"""
    by_hand(cluster, "node2", "resume")
    by_hand(cluster, "node2", "drain", REASON)
    return scheduler.node("node2").reason_at


def test_what_somebody_resumed_needs_no_resume_of_ours(cluster: Cluster, scheduler: SlurmScheduler) -> None:
    scheduler.drain("node2", REASON)
    ours = scheduler.node("node2")
    by_hand(cluster, "node2", "resume")
    scheduler.resume("node2", drained=ours)
    assert scheduler.node("node2").state is not NodeState.DRAINED


def test_a_reason_that_imitates_the_writer_of_a_reason_deceives_nobody(cluster: Cluster, scheduler: SlurmScheduler) -> None:
    by_hand(cluster, "node2", "drain", f"{REASON} [nobody@1] State=IDLE")
    node = scheduler.node("node2")
    assert (node.state, node.reason_by) == (NodeState.DRAINED, "root")
    assert node.reason == f"{REASON} [nobody@1] State=IDLE"


def test_a_power_loss_is_no_reason_of_ours(cluster: Cluster, scheduler: SlurmScheduler) -> None:
    cluster.kill_node("node6")
    try:
        wait_until(lambda: scheduler.node("node6").state is NodeState.DOWN and bool(scheduler.node("node6").reason), 60, "down")
        with pytest.raises(Refused, match="Not responding"):
            scheduler.drain("node6", REASON)
    finally:
        cluster.start_node("node6")
        wait_until(lambda: scheduler.node("node6").state is NodeState.UP, 60, "up again")


def test_an_operator_may_act_on_jobs_and_not_on_nodes_and_knows_it_beforehand(
    accounted: Cluster, operator: SlurmScheduler
) -> None:
    job = accounted.sbatch("--hold", "--comment=its owner's", "--wrap=true")
    operator.annotate(job, '{"rerail_says": "x"}', instead_of="its owner's")
    assert operator.job(job).comment == '{"rerail_says": "x"}'
    with pytest.raises(Misconfigured, match="AdminLevel=Administrator"):
        operator.drain("node1", REASON)
    assert "AdminLevel=Administrator" in operator.cannot_drain()
    assert operator.node("node1").state is NodeState.UP
    by_hand(accounted, "node1", "drain", REASON)
    with pytest.raises(Misconfigured, match="AdminLevel=Administrator"):
        operator.resume("node1", drained=operator.node("node1"))
    by_hand(accounted, "node1", "resume")
    operator.cancel(job)


def test_comments_of_owners_are_read_as_they_wrote_them(scheduler: SlurmScheduler, until: Until, sleeper: Sleeper) -> None:
    script = '{"APS": {"auto_resume_mode": "requeue", "max_requeue_times": 3}}'
    job_id = sleeper(f"--comment={script}")
    assert until(job_id, lambda job: job.state is JobState.RUNNING).comment == script
    assert next(job for job in scheduler.read().jobs if job.job_id == job_id).comment == script
