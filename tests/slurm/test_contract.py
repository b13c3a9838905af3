"""Real Slurm keeps the contract of all schedulers."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest

from adapters.schedulers.slurm import SlurmScheduler
from tests.adapters.schedulers.contract import SchedulerContract
from tests.testbed.cluster import Cluster

_numbers = count()


@dataclass
class SlurmSite:
    """The testbed, where jobs are batch scripts with one task on each of their nodes."""

    cluster: Cluster
    scheduler: SlurmScheduler
    deadline_s: float = 60.0

    @property
    def nodes(self) -> Sequence[str]:
        return self.cluster.settings.node_names

    def submit(self, argv: Sequence[str], *, nodes: int = 1, requeue: bool = True, exclude: Sequence[str] = ()) -> str:
        script = self.cluster.folder(f"contract-{next(_numbers)}") / "job.sh"
        script.write_text(f"#!/bin/sh\nexec srun --kill-on-bad-exit=1 {shlex.join(argv)}\n")
        options = [f"--nodes={nodes}", "--ntasks-per-node=1", "--requeue" if requeue else "--no-requeue"]
        options += [f"--exclude={','.join(exclude)}"] if exclude else []
        return self.cluster.sbatch(*options, str(script))


class TestSlurm(SchedulerContract):
    @pytest.fixture
    def site(self, cluster: Cluster, scheduler: SlurmScheduler) -> SlurmSite:
        return SlurmSite(cluster, scheduler)

    @pytest.fixture
    def folder(self, cluster: Cluster) -> Path:
        """All nodes see it, and the owner of the jobs may write there."""
        return cluster.folder(f"steering-{next(_numbers)}")
