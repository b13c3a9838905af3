"""On a real slurmctld: a hook's word makes the next look immediate; a rerail that is down or hangs changes nothing for Slurm."""

import asyncio
import contextlib
import shutil
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from activities.view import ClusterView
from adapters.schedulers.slurm import InCluster, SlurmScheduler
from rerail.records import JobState
from tests.slurm.conftest import PATIENCE_S
from tests.stage import ROOT
from tests.testbed import slots
from tests.testbed.cluster import Cluster
from tests.testbed.processes import wait_until
from workers.intake import intake
from workers.settings import IntakeSettings

NEVER_S = 600.0
"""An interval so long that whatever is seen was seen because of an event."""


@dataclass(frozen=True)
class Hooked:
    """A cluster with our hooks, and where they send to."""

    cluster: Cluster
    socket: Path

    @property
    def scheduler(self) -> SlurmScheduler:
        return SlurmScheduler("testbed", InCluster(str(self.cluster.slurm_conf)))


@pytest.fixture(scope="module")
def hooked() -> Iterator[Hooked]:
    """The folder lies where SlurmUser can read: pytest's own is root's alone."""
    folder = Path(tempfile.mkdtemp(prefix="hooks-", dir=slots.HOME))
    folder.chmod(0o755)
    hooks = folder / "hooks"
    shutil.copytree(ROOT / "deploy" / "slurm" / "hooks", hooks)
    (hooks / "hook.conf").write_text(f"SOCKET={folder}/in.sock\n")
    extra = f"EpilogSlurmctld={hooks}/epilog-slurmctld\nPrologSlurmctld={hooks}/prolog-slurmctld"
    with slots.running(nodes=2, extra=extra) as cluster:
        yield Hooked(cluster, folder / "in.sock")
    shutil.rmtree(folder)


@pytest.fixture
async def view(hooked: Hooked) -> AsyncIterator[ClusterView]:
    """A view that an open intake nudges, and that looks by itself hardly ever."""
    view = ClusterView(hooked.scheduler, interval_s=NEVER_S)
    async with intake(IntakeSettings(socket=hooked.socket, group="slurm"), {"testbed": view.nudge}):
        await view.reading()
        yield view


async def seen(view: ClusterView, job_id: str, state: JobState) -> None:
    """Until a look shows it; looks only when nudged."""
    async with asyncio.timeout(PATIENCE_S):
        while (job := await view.job(job_id)) is None or job.state is not state:
            await view.pause(NEVER_S)


async def test_start_and_end_of_a_job_are_seen_by_events_alone(hooked: Hooked, view: ClusterView) -> None:
    job_id = await asyncio.to_thread(hooked.cluster.sbatch, "--wrap=sleep 3; exit 7")
    await seen(view, job_id, JobState.RUNNING)
    await seen(view, job_id, JobState.FAILED)
    assert view.reads <= 4  # the first one, start, end, and one that a second event of the same second may make


async def test_many_ends_at_once_share_a_look(hooked: Hooked, view: ClusterView) -> None:
    array = await asyncio.to_thread(hooked.cluster.sbatch, "--array=1-12", "--wrap=sleep 2; exit 7")
    began, before = time.monotonic(), view.reads
    for task in range(1, 13):
        await seen(view, f"{array}_{task}", JobState.FAILED)
    assert view.reads - before <= time.monotonic() - began + 2  # one a second, and the purse


def run_one(hooked: Hooked) -> float:
    """Seconds from submission to the end of a job that does nothing."""
    began = time.monotonic()
    job_id = hooked.cluster.sbatch("--wrap=exit 0")
    wait_until(lambda: hooked.scheduler.job(job_id).state is JobState.COMPLETED, PATIENCE_S, f"end of job {job_id}")
    return time.monotonic() - began


def test_jobs_come_and_go_while_rerail_is_down(hooked: Hooked) -> None:
    assert not hooked.socket.exists()
    assert run_one(hooked) < PATIENCE_S


def test_jobs_come_and_go_while_rerail_hangs(hooked: Hooked) -> None:
    """Its socket is there, full, and nobody reads it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as deaf, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as filler:
        deaf.bind(str(hooked.socket))
        hooked.socket.chmod(0o777)
        filler.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                filler.sendto(b"x", str(hooked.socket))
        try:
            assert run_one(hooked) < PATIENCE_S
        finally:
            hooked.socket.unlink()
    log = (hooked.cluster.settings.log / "slurmctld.log").read_text(errors="replace")
    errors = [line for line in log.splitlines() if "error" in line.lower()]
    assert [line for line in errors if "prolog" in line.lower() or "epilog" in line.lower() or "script" in line.lower()] == []
