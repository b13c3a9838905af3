"""One look at a cluster is shared, a nudge makes the next one immediate, and neither makes them many."""

import asyncio
from dataclasses import dataclass, field

import pytest

from activities import view as views
from activities.view import ClusterView
from rerail.errors import Unreadable
from tests.activities.paper import PaperScheduler, failed_job

JOB = failed_job()


@dataclass
class Clock:
    """Time that passes when told to, on which `until` sleeps instead of on the real one."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Looker:
    """A view over a scheduler on paper, and a clock."""

    interval_s: float = 1.0
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.scheduler = PaperScheduler({JOB.job_id: JOB})
        self.view = ClusterView(self.scheduler, self.interval_s, self.clock)

    async def through(self, seconds: float, *, nudge_every_s: float = 0.0, step_s: float = 0.05) -> int:
        """Let time pass, looking all the while; reads that it took."""
        before = self.view.reads
        for step in range(1, round(seconds / step_s) + 1):
            self.clock.now += step_s
            if nudge_every_s and step % round(nudge_every_s / step_s) == 0:
                self.view.nudge()
            await self.view.reading()
        return self.view.reads - before


async def test_a_thousand_looks_in_an_interval_are_one_read() -> None:
    looker = Looker()
    await asyncio.gather(*(looker.view.job(JOB.job_id) for _ in range(1000)))
    assert looker.view.reads == 1


@pytest.mark.parametrize(("interval_s", "reads"), [(1.0, 60), (5.0, 12)])
async def test_without_events_there_is_one_read_an_interval(interval_s: float, reads: int) -> None:
    assert await Looker(interval_s).through(60) == pytest.approx(reads, abs=3)


@pytest.mark.parametrize("interval_s", [1.0, 5.0])
async def test_an_event_is_looked_at_at_once(interval_s: float) -> None:
    looker = Looker(interval_s)
    await looker.through(60)
    await looker.through(0.3)
    looker.view.nudge()
    assert await looker.through(views.GATHER_S * 2) == 1


@pytest.mark.parametrize("interval_s", [1.0, 5.0])
@pytest.mark.parametrize("nudge_every_s", [0.05, 0.3, 1.0])
async def test_a_storm_of_events_makes_one_read_a_second(interval_s: float, nudge_every_s: float) -> None:
    reads = await Looker(interval_s).through(120, nudge_every_s=nudge_every_s)
    assert 100 <= reads <= 120 + views.PURSE_MAX


@pytest.mark.parametrize("every_s", [1.5, 2.0, 5.0])
async def test_events_that_are_not_too_many_are_each_looked_at_at_once(every_s: float) -> None:
    """The reads that are merely due leave one for them."""
    looker = Looker()
    await looker.through(60)
    began = looker.view.reads
    for _ in range(40):
        await looker.through(every_s - 2 * views.GATHER_S)
        before = looker.view.reads
        looker.view.nudge()
        await looker.through(2 * views.GATHER_S)
        assert looker.view.reads == before + 1
    assert looker.view.reads - began <= 40 * every_s + views.PURSE_MAX


async def test_an_event_that_has_time_is_looked_at_with_the_next_read_that_is_due() -> None:
    looker = Looker()
    await looker.through(60)
    reads = 0
    for _ in range(100):
        looker.view.nudge(within_s=1.0)
        reads += await looker.through(0.3)
    assert reads <= 31


async def test_an_event_during_a_read_is_not_taken_for_seen() -> None:
    looker = Looker()
    await looker.through(10)
    looker.clock.now += 1
    looker.scheduler.before = lambda _: looker.view.nudge()  # while the scheduler answers
    await looker.view.reading()
    looker.scheduler.before = lambda _: None
    assert await looker.through(0.2) == 1


async def test_those_who_wait_are_woken_by_an_event() -> None:
    view = ClusterView(PaperScheduler({}), interval_s=600)
    await view.reading()
    waiting = [asyncio.create_task(view.pause(600)) for _ in range(100)]
    await asyncio.sleep(0)
    view.nudge()
    await asyncio.wait_for(asyncio.gather(*waiting), 5)
    await asyncio.gather(*(view.reading() for _ in waiting))
    assert view.reads == 2


async def test_a_pause_ends_when_a_read_is_due_or_its_time_is_over() -> None:
    view = ClusterView(PaperScheduler({}), interval_s=0.2)
    await view.reading()
    await asyncio.wait_for(view.pause(600), 5)
    assert view.due_in_s() <= 0
    await view.reading()
    await asyncio.wait_for(view.pause(0.01), 5)
    assert view.due_in_s() > 0


async def test_unreadable_is_kept_like_a_reading_and_never_is_empty() -> None:
    looker = Looker()

    def fail(_: str) -> None:
        raise Unreadable("slurmctld does not answer")

    looker.scheduler.before = fail
    for _ in range(3):
        with pytest.raises(Unreadable):
            await looker.view.job(JOB.job_id)
    assert looker.view.reads == 1


async def test_a_scheduler_that_answers_slowly_is_left_alone_as_long() -> None:
    looker = Looker()
    slow_s = 3.0

    def take_long(_: str) -> None:
        looker.clock.now += slow_s

    looker.scheduler.before = take_long
    await looker.view.reading()
    looker.view.nudge()
    assert looker.view.due_in_s() == pytest.approx(slow_s)


async def test_a_read_that_is_cancelled_was_none() -> None:
    looker = Looker()

    def cancelled(_: str) -> None:
        raise asyncio.CancelledError

    looker.scheduler.before = cancelled
    with pytest.raises(asyncio.CancelledError):
        await looker.view.reading()
    looker.scheduler.before = lambda _: None
    looker.clock.now += 1
    assert await looker.view.job(JOB.job_id) == JOB
