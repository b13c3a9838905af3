"""While an epilog still cleans up, 22.05 says COMPLETING and nothing else; what the job has come to is known all the same."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from adapters.schedulers.slurm import InCluster, SlurmScheduler
from rerail.records import Job, JobState
from tests.testbed import slots
from tests.testbed.cluster import Cluster
from tests.testbed.processes import wait_until


@pytest.fixture
def slow_epilog(cluster: Cluster, tmp_path: Path) -> Iterator[tuple[Cluster, Path]]:
    """A second cluster beside the session's, whose epilog waits for a file."""
    go, epilog = tmp_path / "go", tmp_path / "epilog.sh"
    epilog.write_text(f"#!/bin/sh\nwhile [ ! -e {go} ]; do sleep 0.05; done\n")
    epilog.chmod(0o755)
    with slots.running(nodes=2, extra=f"Epilog={epilog}") as other:
        yield other, go
        go.touch()


def test_what_a_completing_job_has_come_to_is_known(slow_epilog: tuple[Cluster, Path]) -> None:
    cluster, go = slow_epilog
    scheduler = SlurmScheduler("other", InCluster(str(cluster.slurm_conf)))

    def seen(job_id: str, condition: Callable[[Job], bool]) -> Job:
        wait_until(lambda: condition(scheduler.job(job_id)), 30, f"job {job_id}")
        return scheduler.job(job_id)

    failing = cluster.sbatch("--wrap=exit 7")
    again, limited = cluster.sbatch("--wrap=sleep 300"), cluster.sbatch("--time=5", "--wrap=sleep 300")
    failed = seen(failing, lambda job: job.completing)
    assert (failed.state, failed.exit_code, len(failed.nodes)) == (JobState.FAILED, 7, 1)
    for job_id in (again, limited):
        first = seen(job_id, lambda job: job.state is JobState.RUNNING)
        scheduler.requeue(job_id, running=True)
        waiting = scheduler.job(job_id)
        assert (waiting.state, waiting.completing, waiting.restarts) == (JobState.PENDING, True, 1)
        scheduler.exclude(job_id, first.nodes)
        assert scheduler.job(job_id).excluded_nodes == first.nodes
    go.touch()
    for job_id in (again, limited):
        assert seen(job_id, lambda job: not job.completing).begins_at is not None
    assert not scheduler.job(failing).completing
