"""The story's line to its service: what it says comes along here, and when the line is cut, it ends everything."""

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from demo.places import ROOT, Places

T = TypeVar("T")


class Lost(Exception):
    """The service has ended by itself; the message is a sentence for a person."""


@dataclass(frozen=True)
class Ready:
    """Where the service is reached."""

    address: str
    ui: str


@dataclass
class Lifeline:
    """One service, from its start to the end of its last process."""

    places: Places
    floor_s: float
    left: list[str] = field(default_factory=list)
    """What it could not end, in sentences."""
    process: Process | None = None

    async def start(self) -> Ready:
        """Start it; returns once Temporal listens. Raises Lost."""
        with self.places.log("service").open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "demo.service", str(self.places.folder), str(self.floor_s)),
                stdin=PIPE,
                stdout=PIPE,
                stderr=log,
                cwd=ROOT,
                env=self.places.environment(os.environ),
                start_new_session=True,  # a Ctrl-C is for the story, which then lets the service end in its own order
            )
        news = await self.hear()
        return Ready(news["address"], news["ui"])

    async def hear(self) -> dict[str, str]:
        """What it says next. Raises Lost when it says that it is broken, or when it has ended."""
        assert self.process
        assert self.process.stdout
        line = await self.process.stdout.readline()
        news: dict[str, str] = json.loads(line) if line else {"broken": f"the service ended; see {self.places.log('service')}"}
        if "broken" in news:
            raise Lost(news["broken"])
        if "left" in news:
            self.left.append(news["left"])
        return news

    async def during(self, work: Coroutine[Any, Any, T]) -> T:
        """What the work gives, unless the service is lost before (Lost)."""
        working, losing = asyncio.create_task(work), asyncio.create_task(self.lost())
        try:
            await asyncio.wait((working, losing), return_when=asyncio.FIRST_COMPLETED)
            if losing.done():
                losing.result()
            return await working
        finally:
            for task in (working, losing):
                task.cancel()
            await asyncio.gather(working, losing, return_exceptions=True)

    async def lost(self) -> None:
        """Listen until it is lost."""
        while True:
            await self.hear()

    async def close(self) -> None:
        """Cut the line, and wait until nothing is left."""
        if self.process is None:
            return
        assert self.process.stdin
        self.process.stdin.close()
        try:
            await self.lost()
        except Lost:
            await self.process.wait()
