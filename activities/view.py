"""One shared look at a cluster: one read an interval whatever the number of jobs, and one at once when something happens.

A nudge says that something happened, never what; it only makes the next read earlier. Reads are paid from a purse that fills by
one each interval (each second, where the interval is longer) and holds two. A read that is merely due takes from a full purse
only, so that one is left for an event; a nudged read takes the last one. On the long run that is one read a second at the most,
however many events come: those that come while a read is under way, or while the purse is empty, share the next one.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from policies import dependants
from rerail.errors import RerailError
from rerail.ports import Scheduler
from rerail.records import Job, Reading

PURSE_MAX = 2.0
"""Reads that can be saved up: the one that is due, and one for an event."""

NUDGED_EACH_S = 1.0
"""Seconds in which one read for an event is earned: slurmctld is asked once a second at the most."""

SHORTEST_PAUSE_S = 0.01
"""Nobody looks more often than this, whatever the clock does."""

REST_MAX_S = 5.0
"""A scheduler that took long is left alone for as long as it took, but no longer than this: it may be back."""

GATHER_S = 0.05
"""A nudged read waits this long: the tasks of an array, or the jobs of a node that died, end one after the other."""


@dataclass
class ClusterView:
    """All activities of a process that look at a cluster look through this, on one event loop."""

    scheduler: Scheduler
    interval_s: float = 1.0
    clock: Callable[[], float] = time.monotonic
    reads: int = 0
    """Cluster-wide reads so far."""
    _reading: Reading | None = None
    _jobs: dict[str, Job] = field(default_factory=dict)
    _freed: dependants.Index = field(default_factory=dict)
    _error: RerailError | None = None
    _begun_at: float = float("-inf")
    """When the last read began: nothing that came later is sure to be in it."""
    _wanted_at: float | None = None
    """When the earliest nudge that no read has served wants to be."""
    _rested_at: float = float("-inf")
    """Until then a scheduler that answers slowly is left alone."""
    _purse: float = PURSE_MAX
    _filled_at: float = float("-inf")
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _nudge: asyncio.Event = field(default_factory=asyncio.Event)
    """Of the next read; each read begins with a new one."""

    async def reading(self) -> Reading:
        """The newest reading: at most one interval old, and read after the last nudge as soon as the purse allowed. Raises what
        the scheduler raised: unreadable is unknown, never empty."""
        async with self._lock:
            if self.due_in_s() <= 0:
                await self._refresh()
        if self._error is not None:
            raise self._error
        assert self._reading is not None
        return self._reading

    def dependants(self, job: Job) -> tuple[str, ...]:
        """The jobs that a failure of this one would set free, as last read."""
        return dependants.of(job, self._freed)

    async def job(self, job_id: str) -> Job | None:
        """The job as last read; None when the scheduler no longer knows it."""
        await self.reading()
        return self._jobs.get(job_id)

    def nudge(self, within_s: float = 0.0) -> None:
        """Something happened: those who wait in `pause` look within that time, or as soon as the purse allows. To be called on
        the event loop."""
        wanted_at = self.clock() + max(within_s, GATHER_S)
        self._wanted_at = wanted_at if self._wanted_at is None else min(self._wanted_at, wanted_at)
        self._nudge.set()

    async def pause(self, most_s: float) -> None:
        """What a look waits before the next one: until a read is due or nudged, `most_s` seconds at the most."""
        until = self.clock() + most_s
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(SHORTEST_PAUSE_S, min(most_s, self.due_in_s()))):
                await self._nudge.wait()
        await asyncio.sleep(max(0.0, min(self.due_in_s(), until - self.clock())))

    def due_in_s(self) -> float:
        """Seconds until the next read may begin; none or less when it is due."""
        now = self.clock()
        saved, earned_each_s = self._saved(now), self._earned_each_s
        due = max(self._begun_at + self.interval_s - now, (PURSE_MAX - saved) * earned_each_s)
        if self._wanted_at is not None:
            due = min(due, max(self._wanted_at - now, (1.0 - saved) * earned_each_s))
        return max(due, self._rested_at - now)

    @property
    def _earned_each_s(self) -> float:
        return min(self.interval_s, NUDGED_EACH_S)

    def _saved(self, now: float) -> float:
        """Reads in the purse."""
        return min(PURSE_MAX, self._purse + (now - self._filled_at) / self._earned_each_s)

    async def _refresh(self) -> None:
        begun = self._begun_at = self.clock()
        self._purse, self._filled_at = self._saved(begun) - 1.0, begun
        self._wanted_at, self._nudge = None, asyncio.Event()
        self.reads += 1
        try:
            self._reading, self._error = await asyncio.to_thread(self.scheduler.read), None
            self._jobs = {job.job_id: job for job in self._reading.jobs}
            self._freed = dependants.index(self._reading.jobs)
        except RerailError as error:
            self._error = error
        except BaseException:  # whoever read for all was cancelled: nothing was read
            self._begun_at = float("-inf")
            raise
        now = self.clock()
        self._rested_at = now + min(now - begun, REST_MAX_S)
