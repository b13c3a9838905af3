"""Real Slurm over SSH keeps the contract of all schedulers: as an operator, each key bound to the gate."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from adapters.schedulers.slurm import SlurmScheduler
from tests.adapters.schedulers.contract import SchedulerContract
from tests.slurm.conftest import require
from tests.slurm.login import Login
from tests.slurm.steered import SlurmSite, numbers
from tests.testbed import packages, slots
from tests.testbed.cluster import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Six idle nodes with accounting, which knows operators."""
    require((*packages.SLURM, *packages.ACCOUNTING))
    with slots.running(nodes=6, accounting=True) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def login(cluster: Cluster) -> Iterator[Login]:
    made = Login.start(cluster)
    yield made
    made.sshd.stop()


class TestSlurmOverSsh(SchedulerContract):
    @pytest.fixture
    def site(self, cluster: Cluster, login: Login) -> SlurmSite:
        return SlurmSite(cluster, SlurmScheduler("testbed", login.runner()))

    @pytest.fixture
    def folder(self, cluster: Cluster) -> Path:
        """All nodes see it, and the owner of the jobs may write there."""
        return cluster.folder(f"steering-{next(numbers)}")


def test_nothing_of_the_contract_was_refused_by_the_gate(login: Login) -> None:
    """It runs last; the effects of all tests before it are in the gate's log."""
    lines = login.log.read_text().splitlines()
    assert [line for line in lines if " refuses " in line] == []
