"""Tests on a real Slurm: one cluster of six nodes a worker, all of them in one worker under `--dist loadgroup`."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from adapters.schedulers.slurm import InCluster, Ran, SlurmScheduler
from rerail.ports import Right
from rerail.records import Job
from tests import debian
from tests.testbed import packages, slots
from tests.testbed.cluster import Cluster
from tests.testbed.processes import wait_until
from tests.testbed.settings import OPERATOR, OWNER

HERE = Path(__file__).parent
PATIENCE_S = 180.0
"""Seconds: torch alone needs a minute to start where two cores are shared by many."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.slurm)
            item.add_marker(pytest.mark.xdist_group("slurm"))


def require(wanted: Sequence[str]) -> None:
    """Skip, by name and with the command that changes it, where Debian's packages can't be had; on CI that is a failure."""
    if why := packages.ensure(wanted):
        debian.skip(why)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Six idle nodes."""
    require((*packages.SLURM, *packages.TORCH))
    with slots.running(nodes=6) as cluster:
        yield cluster


@pytest.fixture
def scheduler(cluster: Cluster) -> SlurmScheduler:
    """The adapter on it, with the rights of root."""
    return SlurmScheduler("testbed", InCluster(str(cluster.slurm_conf)))


class AsOperator:
    """The same way in, as the operator, who has rights over others' jobs only where there is accounting."""

    def __init__(self, inner: InCluster) -> None:
        self._inner = inner

    def rights(self) -> frozenset[Right]:
        return self._inner.rights()

    def run(self, argv: Sequence[str], deadline_s: float) -> Ran:
        return self._inner.run(["setpriv", f"--reuid={OPERATOR}", f"--regid={OPERATOR}", "--clear-groups", *argv], deadline_s)


Until = Callable[[str, Callable[[Job], bool]], Job]


@pytest.fixture
def until(scheduler: SlurmScheduler) -> Until:
    """until(job_id, condition): the job as soon as the condition holds for it."""

    def wait(job_id: str, condition: Callable[[Job], bool]) -> Job:
        seen: list[Job] = []

        def holds() -> bool:
            seen[:] = [scheduler.job(job_id)]
            return condition(seen[0])

        wait_until(holds, PATIENCE_S, f"job {job_id}")
        return seen[0]

    return wait


@pytest.fixture
def sleeper(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """sleeper(*options, seconds=600, exit_code=0): submit a batch job that does nothing; its job id."""
    script = cluster.shared / "sleeper.sh"
    script.write_text('#!/bin/sh\nsleep "$1"\nexit "$2"\n')
    script.chmod(0o755)

    def submit(*options: str, seconds: float = 600, exit_code: int = 0) -> str:
        return cluster.sbatch(*options, str(script), str(seconds), str(exit_code))

    return submit


@pytest.fixture(autouse=True)
def nothing_left(cluster: Cluster) -> Iterator[None]:
    """Each test finds an empty queue and healthy nodes."""
    yield
    cluster.run(["scancel", f"--user={OWNER}"])
    wait_until(lambda: not cluster.run(["squeue", "--noheader"]), PATIENCE_S, "an empty queue")
    for node in cluster.run(["sinfo", "--noheader", "--Node", "--states=drain", "--format=%N"]).split():
        cluster.run(["scontrol", "update", f"nodename={node}", "state=resume"])
