"""Bad minutes of Slurm itself: nothing false is seen meanwhile, and what happened meanwhile is found afterwards."""

import asyncio
import os
import pwd
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from activities.asks import FollowAsk, Followed, Seen, SurveyAsk
from activities.scope import Scope
from activities.view import ClusterView
from activities.watching import Follower, compare
from adapters.logs.files import FileLogs
from adapters.schedulers.slurm import InCluster, SlurmScheduler
from rerail.identity import sight
from rerail.records import JobState, Kind
from tests.slurm.conftest import PATIENCE_S, Until
from tests.testbed import packages, slots
from tests.testbed.cluster import Cluster
from tests.testbed.processes import wait_until
from tests.testbed.settings import OPERATOR, OWNER

OUTAGE_S = 30.0
FLOOR_S = 300.0

Sleeper = Callable[..., str]


def follower(scheduler: SlurmScheduler, job_id: str) -> Follower:
    """As the detect role follows an attempt."""
    ask = FollowAsk(attempt=sight(scheduler.job(job_id), None, datetime.now(UTC)))
    return Follower(ClusterView(scheduler), FileLogs(), ask, FLOOR_S)


async def look(following: Follower, seconds: float, *, until_seen: bool) -> Followed | None:
    """What it comes back with within that time; None when nothing was to be done."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        followed = await following.look()
        if followed is not None:
            return followed
        await following.view.pause(1.0)
    assert not until_seen, f"nothing seen within {seconds:.0f} s"
    return None


@contextmanager
def frozen(cluster: Cluster) -> Iterator[None]:
    """slurmctld is there and says nothing, as behind a partition."""
    pid = cluster.processes.pid("slurmctld")
    assert pid
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextmanager
def dead(cluster: Cluster) -> Iterator[None]:
    """slurmctld has crashed and is started again, with its state."""
    cluster.kill_controller()
    try:
        yield
    finally:
        cluster.start_controller()


@contextmanager
def failed_over(cluster: Cluster) -> Iterator[None]:
    """slurmctld is gone for good, and its backup takes over after SlurmctldTimeout."""
    cluster.kill_controller()
    yield


async def nothing_false_and_nothing_lost(cluster: Cluster, outage: Callable[[Cluster], AbstractContextManager[None]]) -> None:
    """One job fails while nobody answers, one lasts."""
    scheduler = SlurmScheduler("testbed", InCluster(str(cluster.slurm_conf)))
    submitted = time.time()
    jobs = [cluster.sbatch(f"--wrap={script}") for script in ("sleep 15; exit 7", "sleep 600")]
    for job_id in jobs:
        await asyncio.to_thread(wait_until, partial(running, scheduler, job_id), PATIENCE_S, f"start of {job_id}")
    await asyncio.to_thread(wait_until, lambda: cluster.state_saved_since(submitted + 2), 30, "saved state")
    failing, lasting = (follower(scheduler, job_id) for job_id in jobs)
    before = SurveyAsk(
        cluster="testbed", known={job_id: f.at.attempt for job_id, f in zip(jobs, (failing, lasting), strict=True)}
    )
    with outage(cluster):
        meanwhile = await asyncio.gather(*(look(f, OUTAGE_S, until_seen=False) for f in (failing, lasting)))
    assert meanwhile[1] is None
    followed = meanwhile[0] or await look(failing, PATIENCE_S, until_seen=True)
    assert followed
    assert (followed.seen, [s.kind for s in followed.symptoms]) == (Seen.ANOMALY, [Kind.CRASH])
    assert await look(lasting, 3, until_seen=False) is None
    assert compare(before, await lasting.view.reading(), Scope()).gone == ()
    cluster.run(["scancel", *jobs])


def running(scheduler: SlurmScheduler, job_id: str) -> bool:
    return scheduler.job(job_id).state is JobState.RUNNING


@pytest.mark.parametrize("outage", [frozen, dead])
async def test_a_job_that_fails_while_slurmctld_is_away_is_found_afterwards_and_nothing_else_is(
    cluster: Cluster, outage: Callable[[Cluster], AbstractContextManager[None]]
) -> None:
    await nothing_false_and_nothing_lost(cluster, outage)


@pytest.fixture
def paired() -> Iterator[Cluster]:
    """A cluster with a backup controller, which stands on a machine of its own."""
    extra = "SlurmctldHost=spare(127.0.0.3)\nCommunicationParameters=NoCtldInAddrAny"
    with slots.running(nodes=2, extra=extra) as cluster:
        with (cluster.settings.etc / "hosts").open("a") as hosts:
            hosts.write("127.0.0.3 spare\n")
        cluster.processes.start_node("spare", cluster.settings.etc, ["slurmctld", "-D"], cluster.environment)
        wait_until(lambda: cluster.run(["scontrol", "ping"], check=False).count("is UP") == 2, 30, "the backup controller")
        yield cluster
        cluster.processes.stop("spare", signal.SIGKILL)


async def test_a_job_that_fails_while_slurmctld_fails_over_is_found_and_nothing_else_is(paired: Cluster) -> None:
    await nothing_false_and_nothing_lost(paired, failed_over)


@pytest.mark.parametrize("off_s", [-20, 0, 20])
async def test_a_short_failure_between_two_looks_is_found_whatever_our_clock_says(
    cluster: Cluster, until: Until, sleeper: Sleeper, off_s: int
) -> None:
    def clock() -> datetime:
        return datetime.now(UTC) + timedelta(seconds=off_s)

    scheduler = SlurmScheduler("testbed", InCluster(str(cluster.slurm_conf)), clock=clock)
    old = sleeper(seconds=0, exit_code=7)
    ended = await asyncio.to_thread(until, old, lambda job: job.state is JobState.FAILED and not job.completing)
    assert ended.ended_at
    since = ended.ended_at.timestamp()
    wait_until(lambda: time.time() > since + 3, 10, "a moment")
    first = scheduler.read()
    short = sleeper(seconds=0, exit_code=7)
    await asyncio.to_thread(until, short, lambda job: job.state is JobState.FAILED)
    survey = compare(SurveyAsk(cluster="testbed", read_at=first.read_at), scheduler.read(), Scope())
    assert [attempt.job.job_id for attempt in survey.appeared] == [short]
    assert abs((first.read_at - datetime.now(UTC)).total_seconds()) < 5


@pytest.fixture(scope="module")
def accounted() -> Iterator[Cluster]:
    """A cluster with slurmdbd."""
    if why := packages.ensure((*packages.SLURM, *packages.ACCOUNTING)):
        pytest.skip(why)
    with slots.running(nodes=3, accounting=True) as cluster:
        yield cluster


def word(cluster: Cluster, job_id: str, *, by: str = "", lost: str = "") -> None:
    """Until the scheduler tells who cancelled it, or which node it lost."""
    scheduler = SlurmScheduler("testbed", InCluster(str(cluster.slurm_conf)))

    def told() -> bool:
        job = scheduler.job(job_id)
        return (job.cancelled_by, job.failed_node) == (by, lost)

    wait_until(told, PATIENCE_S, f"word of job {job_id}: {by}{lost}")


def run(cluster: Cluster, *options: str) -> str:
    job_id = cluster.sbatch(*options, "--output=/dev/null", "--wrap=sleep 600")
    scheduler = SlurmScheduler("testbed", InCluster(str(cluster.slurm_conf)))
    wait_until(lambda: scheduler.job(job_id).state is JobState.RUNNING, PATIENCE_S, f"start of job {job_id}")
    return job_id


def test_who_cancelled_and_which_node_was_lost_are_told(accounted: Cluster) -> None:
    own, other, root = run(accounted), run(accounted), run(accounted)
    lost = run(accounted, "--no-requeue", "--nodelist=node3")
    accounted.run(["scancel", own], user=OWNER)
    accounted.run(["scancel", other], user=OPERATOR)
    accounted.run(["scancel", root])
    accounted.kill_node("node3")
    word(accounted, own, by=OWNER)
    word(accounted, other, by=str(pwd.getpwnam(OPERATOR).pw_uid))
    word(accounted, root, by="root")
    word(accounted, lost, lost="node3")
    accounted.start_node("node3")


def test_while_slurmdbd_is_down_jobs_are_read_and_what_only_it_knows_is_unknown(accounted: Cluster) -> None:
    job_id = run(accounted)
    scheduler = SlurmScheduler("testbed", InCluster(str(accounted.slurm_conf)))
    accounted.processes.stop("slurmdbd", signal.SIGKILL)
    accounted.run(["scancel", job_id], user=OWNER)
    wait_until(lambda: scheduler.job(job_id).state is JobState.CANCELLED, PATIENCE_S, "the end of the job")
    assert scheduler.job(job_id).cancelled_by == ""
    assert job_id in {job.job_id for job in scheduler.read().jobs}
    accounted.processes.start("slurmdbd", ["slurmdbd", "-D"], accounted.environment)
    wait_until(lambda: scheduler.job(job_id).cancelled_by == OWNER, PATIENCE_S, "word of slurmdbd")
