"""A dead controller is "unknown", never "all jobs gone", and says so in bounded time."""

import time
from collections.abc import Callable, Iterator

import pytest

from adapters.schedulers.slurm import InCluster, SlurmScheduler
from rerail.errors import Misconfigured, Transient, Unreadable
from rerail.records import JobState
from tests.slurm.conftest import Until
from tests.testbed.cluster import Cluster
from tests.testbed.processes import wait_until


@pytest.fixture
def dead_controller(cluster: Cluster, sleeper: Callable[..., str], until: Until) -> Iterator[str]:
    """slurmctld is dead while a job runs; its id. It comes back afterwards."""
    job_id = sleeper()
    until(job_id, lambda job: job.state is JobState.RUNNING)
    running_since = time.time()
    wait_until(lambda: cluster.state_saved_since(running_since), 30, "saved state")
    cluster.kill_controller()
    yield job_id
    if not cluster.controller_answers():
        cluster.start_controller()
        wait_until(cluster.controller_answers, 30, "slurmctld")


def test_reads_are_unreadable_and_effects_transient_until_it_is_back(
    cluster: Cluster, scheduler: SlurmScheduler, dead_controller: str, until: Until
) -> None:
    began = time.monotonic()
    for read in (scheduler.read, scheduler.nodes, lambda: scheduler.job(dead_controller)):
        with pytest.raises(Unreadable):
            read()
    with pytest.raises(Transient):
        scheduler.requeue(dead_controller, running=True)
    assert time.monotonic() - began < 20
    cluster.start_controller()
    wait_until(cluster.controller_answers, 30, "slurmctld")
    job = until(dead_controller, lambda job: job.state is JobState.RUNNING)
    assert job.restarts == 0  # nothing was done to it


def test_a_wrong_configuration_is_a_persons_business(cluster: Cluster) -> None:
    scheduler = SlurmScheduler("testbed", InCluster(str(cluster.shared / "nowhere.conf")))
    with pytest.raises(Misconfigured):
        scheduler.read()
