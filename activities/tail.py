"""Tails: reading a job's logs on and on, whole lines at a time, from durable places."""

import asyncio
from collections.abc import AsyncIterator

from activities.asks import Place
from rerail.ports import Logs
from rerail.records import Job

CHUNK = 1 << 20
"""Bytes of a log read at once; what is longer comes in the next round at once."""


def paths(job: Job) -> dict[str, str]:
    """The job's logs by their short names: `out`, and `err` where standard error goes elsewhere."""
    found = {"out": job.output}
    if job.error_output != job.output:
        found["err"] = job.error_output
    return {name: path for name, path in found.items() if path}


class Tails:
    """Where each log has been read to. A log that was truncated or replaced is read again from its beginning."""

    def __init__(self, logs: Logs, places: dict[str, Place]) -> None:
        self.logs = logs
        self.places = dict(places)

    async def gained(self, job: Job) -> AsyncIterator[bytes]:
        """Whole lines that the job's logs have gained, in pieces of bounded size."""
        for name, path in paths(job).items():
            more = True
            while more:
                lines, more = await asyncio.to_thread(self.next_lines, name, path)
                if lines:
                    yield lines

    async def skip_to_end(self, job: Job) -> None:
        """Let what the logs have gained be somebody else's: the attempt's own part begins at their ends."""
        for name, path in paths(job).items():
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
