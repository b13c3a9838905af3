"""What the injector does to a job is what it says."""

import re
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from adapters.schedulers.local import LocalScheduler, Settings
from demo import train
from demo.faults import INJECT, Fault, bug_options, inject_hang, inject_throttled, slowed
from rerail.records import Job, JobState, Rank

DEADLINE_S = 60.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalScheduler]:
    settings = Settings(bad_exit_grace_s=2, kill_wait_s=1, idle_exit_s=20)
    made = LocalScheduler.create(tmp_path / "cluster", "lab", ["n0", "n1", "n2"], settings=settings)
    yield made
    made.shut_down()


def submit(cluster: LocalScheduler, *options: str) -> str:
    folder = cluster.folder.parent
    command = [sys.executable, train.__file__, "--dir", str(folder / "ckpt"), "--ckpt-every", "2", "--step-s", "0.05"]
    return cluster.submit([*command, *options], nodes=2, folder=folder, exclude=["n0"])


def text(job: Job) -> str:
    return Path(job.output).read_text() if Path(job.output).exists() else ""


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def training(cluster: LocalScheduler, job_id: str) -> Job:
    until(lambda: "step=2 " in text(cluster.job(job_id)))
    return cluster.job(job_id)


def ended(cluster: LocalScheduler, job_id: str) -> Job:
    until(lambda: cluster.job(job_id).state.ended)
    return cluster.job(job_id)


@pytest.mark.parametrize("fault", [Fault.CRASH, Fault.KILLED])
def test_a_killed_rank_fails_the_job_and_only_a_crash_is_in_the_kernel_log(cluster: LocalScheduler, fault: Fault) -> None:
    job = training(cluster, submit(cluster))
    before = datetime.now(UTC)
    hit = INJECT[fault](cluster, job.job_id, 1)
    assert (hit.rank, hit.node, hit.job_id) == (1, job.nodes[1], job.job_id)
    assert before <= hit.at <= datetime.now(UTC)
    after = ended(cluster, job.job_id)
    assert (after.state, after.exit_signal) == (JobState.FAILED, 9)
    assert "rank 1: killed by signal 9" in text(after)
    assert "Connection closed by peer [rank 1]" in text(after)
    logs = {node: cluster.kernel_log(node) for node in ("n0", "n1", "n2")}
    written = [node for node, path in logs.items() if path.exists()]
    assert written == ([hit.node] if fault is Fault.CRASH else [])
    if written:
        assert re.match(r"\[\d{4}-\d\d-\d\dT[\d:.]+\+00:00\] NVRM: Xid \(PCI:[^)]+\): 79, ", logs[hit.node].read_text())


def test_a_hanging_rank_leaves_the_job_running_and_silent(cluster: LocalScheduler) -> None:
    job = training(cluster, submit(cluster))
    hit = inject_hang(cluster, job.job_id, 1)
    until(lambda: _rank(cluster, job, 1).state == "T")
    until(lambda: re.search(r"0: .*step=", text(job)))
    quiet: list[str] = []

    def silent() -> bool:
        quiet.append(text(job))
        return len(quiet) > 20 and len(set(quiet[-20:])) == 1

    until(silent)
    assert cluster.job(job.job_id).state is JobState.RUNNING
    assert hit.pid == _rank(cluster, job, 1).pid


def test_a_bug_fails_every_attempt_at_its_step(cluster: LocalScheduler) -> None:
    job_id = submit(cluster, *bug_options(5, 1))
    for restart in range(2):
        job = ended(cluster, job_id)
        assert (job.state, job.exit_code, job.restarts) == (JobState.FAILED, 1, restart)
        assert "1: ValueError: batch of shape" in text(job)
        assert "step=4 " in text(job) if restart == 0 else "resumed from" in text(job)
        assert "step=5 " not in text(job)
        if restart == 0:
            cluster.requeue(job_id, running=False)
            cluster.start_now(job_id)
            until(lambda: cluster.job(job_id).state.ended and cluster.job(job_id).restarts == 1)


def test_a_slowed_node_slows_its_rank_and_nobody_is_left_stopped(cluster: LocalScheduler) -> None:
    job = training(cluster, submit(cluster))
    hit = inject_throttled(cluster, job.job_id, 1)
    with slowed(cluster, job.job_id, hit.node):
        seen = len(re.findall(r"1: .*compute_s=", text(job)))
        until(lambda: len(re.findall(r"1: .*compute_s=", text(job))) > seen + 20)
        times = {r: [float(t) for t in re.findall(rf"{r}: .*compute_s=(\S+)", text(job))[-20:]] for r in (0, 1)}
        assert sum(times[1]) > 1.3 * sum(times[0])
    assert (hit.rank, hit.node) == (1, job.nodes[1])
    assert "throttled" in cluster.kernel_log(hit.node).read_text()
    until(lambda: _rank(cluster, job, 1).state != "T")
    assert cluster.job(job.job_id).state is JobState.RUNNING


def test_a_fault_without_a_living_rank_says_so(cluster: LocalScheduler) -> None:
    job = training(cluster, submit(cluster))
    with pytest.raises(LookupError, match="no living rank 7"):
        inject_hang(cluster, job.job_id, 7)


def _rank(cluster: LocalScheduler, job: Job, number: int) -> Rank:
    return next(r for r in cluster.ranks(cluster.job(job.job_id)) if r.rank == number)
