"""A service that is killed at chosen points and started again, and a person who approves what it proposes meanwhile."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from temporalio.client import Client

from rerail import names
from rerail.client import Rerail
from rerail.errors import RerailError
from rerail.records import Incident
from rerail.records import Stage as At
from tests.stage import ROOT, clean_environment, end, text_of

T = TypeVar("T")

STORY_S = 180.0
"""Each death costs a heartbeat timeout, 5 or 10 s, before the next incarnation goes on."""


class Mortal:
    """The service of a settings file, started again whenever it has died; the points are those of tests/stories/doomed.py."""

    def __init__(self, settings: Path, points: list[str]) -> None:
        self.settings = settings
        self.points = settings.parent / "points"
        self.points.write_text("\n".join(points))
        self.log = settings.parent / "workers.log"
        self.deaths = 0
        self.process = self.start()

    def start(self) -> "subprocess.Popen[bytes]":
        argv = [sys.executable, "-m", "tests.stories.doomed", str(self.settings), str(self.points)]
        with self.log.open("ab") as out:
            return subprocess.Popen(argv, cwd=ROOT, env=clean_environment(), stdin=subprocess.DEVNULL, stdout=out, stderr=out)

    def look_after(self) -> None:
        code = self.process.poll()
        if code is not None:
            assert code == -9, f"it ended by itself with {code}:\n{text_of(self.log)[-3000:]}"
            self.deaths += 1
            self.process = self.start()

    def end(self) -> None:
        end(self.process)

    async def until(self, look: Callable[[], Awaitable[T | None]], what: str) -> T:
        """What `look` finds, while the service dies and is started again."""
        deadline = time.monotonic() + STORY_S
        while not (found := await look()):
            assert time.monotonic() < deadline, f"no {what}; left: {self.points.read_text()}\n{text_of(self.log)[-3000:]}"
            self.look_after()
            await asyncio.sleep(0.1)
        return found

    async def dead_enough(self) -> bool:
        """True when every point was reached."""
        return not self.points.read_text().strip()


async def watched(client: Client) -> bool:
    """True when a job has its watcher."""
    return bool([w async for w in client.list_workflows(f"WorkflowType = '{names.WATCH_JOB}'")])


async def incidents(client: Client) -> list[str]:
    """Runs of incidents, open and closed."""
    return [w.run_id async for w in client.list_workflows(f"WorkflowType = '{names.REMEDIATE_JOB}'")]


async def approved_to_the_end(client: Client) -> Incident | None:
    """The one incident once it is closed; on the way there it is approved."""
    async for found in client.list_workflows(f"WorkflowType = '{names.REMEDIATE_JOB}'"):
        person = Rerail(client, by="test", patience_s=2, answer_s=2)
        try:
            incident = await person.explain(found.id)
            assert isinstance(incident, Incident)
            if incident.stage is At.AWAITING_APPROVAL and incident.decided is None:
                await person.approve(found.id, reason="the evidence is clear")
        except RerailError:  # the worker that should answer may just have died
            return None
        return incident if incident.outcome and found.close_time else None
    return None
