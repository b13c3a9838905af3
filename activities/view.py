"""One shared look at a cluster: one read an interval, whatever the number of jobs that are followed."""

import asyncio
import time
from dataclasses import dataclass, field

from rerail.errors import RerailError
from rerail.ports import Scheduler
from rerail.records import Job, Reading


@dataclass
class ClusterView:
    """All activities of a process that look at a cluster look through this."""

    scheduler: Scheduler
    interval_s: float = 1.0
    _reading: Reading | None = None
    _jobs: dict[str, Job] = field(default_factory=dict)
    _error: RerailError | None = None
    _read_at: float = float("-inf")
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def reading(self) -> Reading:
        """The newest reading, at most one interval old. Raises what the scheduler raised: unreadable is unknown, never empty."""
        async with self._lock:
            if time.monotonic() - self._read_at >= self.interval_s:
                await self._refresh()
        if self._error is not None:
            raise self._error
        assert self._reading is not None
        return self._reading

    async def job(self, job_id: str) -> Job | None:
        """The job as last read; None when the scheduler no longer knows it."""
        await self.reading()
        return self._jobs.get(job_id)

    async def _refresh(self) -> None:
        try:
            self._reading = await asyncio.to_thread(self.scheduler.read)
            self._jobs = {job.job_id: job for job in self._reading.jobs}
            self._error = None
        except RerailError as error:
            self._error = error
        self._read_at = time.monotonic()
