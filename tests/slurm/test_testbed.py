"""The testbed does what its verbs say: nodes lose power and boot, freeze and thaw; a login node lets the operator in by key."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from adapters.schedulers.slurm import InCluster, SlurmScheduler
from rerail.records import JobState, NodeState
from tests.slurm.conftest import AsOperator, Until, require
from tests.testbed import packages, slots
from tests.testbed.cluster import Cluster
from tests.testbed.processes import wait_until
from tests.testbed.settings import OPERATOR


def test_a_node_without_power_is_down_and_slurm_itself_requeues_its_job(
    cluster: Cluster, scheduler: SlurmScheduler, until: Until, sleeper: Callable[..., str]
) -> None:
    job_id = sleeper()
    [node] = until(job_id, lambda job: job.state is JobState.RUNNING).nodes
    cluster.kill_node(node)
    until(job_id, lambda job: job.restarts == 1 and job.state is JobState.PENDING and not job.completing)
    scheduler.start_now(job_id)
    again = until(job_id, lambda job: job.state is JobState.RUNNING)
    assert node not in again.nodes
    states = {seen.name: seen.state for seen in scheduler.nodes()}
    assert {name for name, state in states.items() if state is not NodeState.UP} == {node}
    cluster.start_node(node)
    wait_until(lambda: all(seen.state is NodeState.UP for seen in scheduler.nodes()), 60, f"{node} back")


def test_a_frozen_node_stands_still_until_it_is_thawed(cluster: Cluster) -> None:
    def states() -> set[str]:
        pids = cluster.exec("node6", ["pgrep", "slurmd"]).split()
        return {cluster.exec("node6", ["ps", "-o", "state=", "-p", pid]).strip() for pid in pids}

    cluster.freeze_node("node6")
    assert states() == {"T"}
    cluster.thaw_node("node6")
    assert "T" not in states()


def test_a_kernel_log_line_stands_in_the_log_of_its_node_alone(cluster: Cluster) -> None:
    logs = {node: Path(cluster.kernel_log_template.format(node=node)) for node in cluster.settings.node_names}
    before = {node: log.read_text() for node, log in logs.items()}
    cluster.kernel_line("node4", "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.")
    said = {node: log.read_text().removeprefix(before[node]) for node, log in logs.items()}
    assert " node4 kernel: NVRM: Xid" in said.pop("node4")
    assert not any(said.values())


@pytest.fixture
def with_accounting(cluster: Cluster) -> Iterator[Cluster]:
    """A second cluster beside the session's, with slurmdbd and a login node."""
    require(packages.ACCOUNTING)
    with slots.running(nodes=1, accounting=True, login=True) as other:
        yield other


def test_with_accounting_the_operator_acts_on_jobs_of_others_and_enters_by_key(with_accounting: Cluster) -> None:
    cluster = with_accounting
    scheduler = SlurmScheduler("other", AsOperator(InCluster(str(cluster.slurm_conf))))
    job_id = cluster.sbatch("--wrap=sleep 300")
    wait_until(lambda: scheduler.job(job_id).state is JobState.RUNNING, 60, "running job")
    scheduler.requeue(job_id, running=True)
    assert scheduler.job(job_id).restarts == 1
    scheduler.cancel(job_id)

    etc = cluster.settings.etc
    options = [f"-oUserKnownHostsFile={etc}/known_hosts", "-oStrictHostKeyChecking=yes", "-oBatchMode=yes"]
    ssh = ["ssh", "-i", f"{etc}/id_operator", f"-p{cluster.settings.ssh_port}", *options, f"{OPERATOR}@127.0.0.1"]
    said = subprocess.run([*ssh, "hostname; scontrol ping"], capture_output=True, text=True, timeout=30, check=True).stdout
    assert said.startswith("login\n")
    assert "is UP" in said
