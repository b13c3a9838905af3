"""Tails: reading a job's logs on and on, whole lines at a time, from durable places."""

import asyncio
import os
import re
import time
from collections.abc import AsyncIterator

from activities.asks import Place
from policies.wishes import wishes
from rerail.ports import Folders, Logs
from rerail.records import Job

AJR_LOG = r"(?s:.){{0,200}}_{job}_date_\d\d-\d\d-\d\d_time_\d\d-\d\d-\d\d\.log"
"""`NAME_JOB_date_YY-MM-DD_time_HH-MM-SS.log`: the step's own output, `srun --output=%x_%j_$DATETIME.log`."""

WHEN_CHARS = len("YY-MM-DD_time_HH-MM-SS.log")

LOOK_THROUGH_S = 5.0
"""How often a folder is looked through for logs that scripts have named themselves."""

CHUNK = 1 << 20
"""Bytes of a log read at once; what is longer comes in the next round at once."""


def paths(job: Job) -> dict[str, str]:
    """The job's logs by their short names: `out`, and `err` where standard error goes elsewhere."""
    found = {"out": job.output}
    if job.error_output != job.output:
        found["err"] = job.error_output
    return {name: path for name, path in found.items() if path}


def all_paths(logs: Logs, job: Job) -> dict[str, str]:
    """The same, and `ajr`: the newest log that a script written for AJR has named itself, beside the batch script's own."""
    found = paths(job)
    if not (wishes(job.comment).ajr and isinstance(logs, Folders)):
        return found
    pattern = AJR_LOG.format(job=re.escape(job.job_id))
    folders = dict.fromkeys(folder for folder in (os.path.dirname(job.output), job.folder) if folder)
    named = [path for folder in folders for path in logs.find(folder, pattern) if path not in found.values()]
    return {**found, "ajr": max(named, key=when)} if named else found


def when(path: str) -> str:
    """The date and time at the end of such a name."""
    return path[-WHEN_CHARS:]


class Tails:
    """Where each log has been read to. A log that was truncated or replaced is read again from its beginning."""

    def __init__(self, logs: Logs, places: dict[str, Place]) -> None:
        self.logs = logs
        self.places = dict(places)
        self._paths: dict[str, str] = {}
        self._looked = float("-inf")

    async def paths(self, job: Job) -> dict[str, str]:
        """The job's logs; its folder is looked through for more now and then only."""
        if time.monotonic() - self._looked >= LOOK_THROUGH_S or not paths(job).items() <= self._paths.items():
            self._paths = await asyncio.to_thread(all_paths, self.logs, job)
            self._looked = time.monotonic()
        return self._paths

    async def gained(self, job: Job) -> AsyncIterator[bytes]:
        """Whole lines that the job's logs have gained, in pieces of bounded size."""
        for name, path in (await self.paths(job)).items():
            more = True
            while more:
                lines, more = await asyncio.to_thread(self.next_lines, name, path)
                if lines:
                    yield lines

    async def skip_to_end(self, job: Job) -> None:
        """Let what the logs have gained be somebody else's: the attempt's own part begins at their ends."""
        for name, path in (await self.paths(job)).items():
            await asyncio.to_thread(self.skip, name, path)

    def next_lines(self, name: str, path: str) -> tuple[bytes, bool]:
        """The next whole lines, and whether there may be more of them."""
        place = self.places.get(name, Place())
        chunk = self.logs.read(path, place.offset, CHUNK, place.fingerprint)
        cut = chunk.data.rfind(b"\n") + 1
        if cut == 0 and len(chunk.data) >= CHUNK:
            cut = len(chunk.data)  # a line longer than a chunk: judge it in pieces rather than never
        if cut or chunk.replaced:
            self.move(name, path, chunk.start + cut, 0 if chunk.replaced else place.begin)
        return chunk.data[:cut], cut > 0 and chunk.end < chunk.size

    def skip(self, name: str, path: str) -> None:
        place = self.places.get(name, Place())
        chunk = self.logs.read(path, place.offset, 0, place.fingerprint)
        if chunk.size != place.offset or chunk.replaced:
            self.move(name, path, chunk.size, chunk.size)

    def move(self, name: str, path: str, offset: int, begin: int) -> None:
        self.places[name] = Place(offset=offset, fingerprint=self.logs.fingerprint_at(path, offset), begin=begin)
