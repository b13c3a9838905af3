"""A real data-parallel training loses a rank, and goes on elsewhere as if nothing had happened."""

import pytest

from adapters.schedulers.slurm import SlurmScheduler
from rerail.records import JobState
from tests.slurm.conftest import Until
from tests.testbed.cluster import Cluster
from tests.testbed.training import Training

STEPS = 30
LIKE = 1e-4
"""Sums of 32 bit numbers in another order differ by 1e-7; another batch or other weights by 1e-2."""
ARGUMENTS = f"--steps {STEPS} --checkpoint-every 10"


def test_a_killed_rank_restarts_without_its_node_and_continues_like_an_unbroken_run(
    cluster: Cluster, scheduler: SlurmScheduler, until: Until
) -> None:
    unbroken = Training.submit(cluster, "unbroken", nodes=1, ranks_per_node=4, arguments=f"{ARGUMENTS} --step-s 0")
    broken = Training.submit(cluster, "broken", nodes=4, arguments=ARGUMENTS)
    broken.wait_for_step(13)
    first = scheduler.job(broken.job_id)
    assert first.output == str(broken.log)
    assert len(first.nodes) == first.nodes_needed == 4

    lost = broken.signal(rank=2)
    failed = until(broken.job_id, lambda job: job.state.ended)
    assert failed.state is JobState.FAILED
    assert failed.exit_code  # 1 or 143: whichever task of srun ended first
    assert (failed.nodes, failed.restarts) == (first.nodes, 0)
    assert failed.requeue_until is not None
    reached = broken.step()

    scheduler.requeue(broken.job_id, running=False)
    scheduler.exclude(broken.job_id, [lost])
    waiting = until(broken.job_id, lambda job: job.state is JobState.PENDING)
    assert (waiting.excluded_nodes, waiting.restarts, waiting.held) == ((lost,), 1, False)
    scheduler.start_now(broken.job_id)
    again = until(broken.job_id, lambda job: job.state is JobState.RUNNING)
    assert lost not in again.nodes
    assert len(again.nodes) == 4

    done = until(broken.job_id, lambda job: job.state.ended)
    assert done.state is JobState.COMPLETED
    assert "resumed from ./checkpoint.pt at step 10" in broken.text()
    resumed = broken.losses()
    assert min(resumed) == 10
    assert max(resumed) == STEPS - 1 > reached
    expected = unbroken.losses()
    assert resumed == pytest.approx({step: expected[step] for step in resumed}, rel=LIKE)
    assert expected[11] != pytest.approx(expected[12], rel=LIKE)  # so that a run shifted by one step would show


def test_a_broken_batch_ends_every_attempt_at_the_same_step(cluster: Cluster, scheduler: SlurmScheduler, until: Until) -> None:
    job = Training.submit(cluster, "bug", nodes=4, arguments=f"{ARGUMENTS} --bad-batch-at 3 --step-s 0")
    failed = until(job.job_id, lambda job: job.state.ended)
    assert failed.state is JobState.FAILED
    assert job.step() == 2
    assert "IndexError: Target 10 is out of bounds." in job.text()
