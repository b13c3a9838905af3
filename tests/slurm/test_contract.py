"""Real Slurm keeps the contract of all schedulers."""

from pathlib import Path

import pytest

from adapters.schedulers.slurm import SlurmScheduler
from tests.adapters.schedulers.contract import SchedulerContract
from tests.slurm.steered import SlurmSite, numbers
from tests.testbed.cluster import Cluster


class TestSlurm(SchedulerContract):
    @pytest.fixture
    def site(self, cluster: Cluster, scheduler: SlurmScheduler) -> SlurmSite:
        return SlurmSite(cluster, scheduler)

    @pytest.fixture
    def folder(self, cluster: Cluster) -> Path:
        """All nodes see it, and the owner of the jobs may write there."""
        return cluster.folder(f"steering-{next(numbers)}")
