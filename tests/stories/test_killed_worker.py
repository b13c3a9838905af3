"""The service is killed with SIGKILL before, during and after every step: the story goes on, and nothing is done twice."""

import asyncio
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from adapters.audit.store import AuditStore
from rerail import names
from rerail.client import Rerail
from rerail.records import AuditRow, Incident, Result, Stage as At
from tests.stage import ROOT, Stage, clean_environment, end, text_of
from workers.settings import load

STORY_S = 150.0
"""Each death costs a heartbeat timeout, 5 or 10 s, before the next incarnation goes on."""

STORIES = {
    "watching": ["survey:before", "survey:after", "follow:before", "open_incident:before", "open_incident:after"],
    "judging": ["examine:before", "examine:after", "propose:before", "propose:after"],
    "deciding": ["record_decision:before", "record_decision:after"],
    "rechecking": ["recheck:before", "recheck:after", "ask_guard:before", "ask_guard:after"],
    "requeueing": ["requeue:before", "requeue:during", "requeue:after"],
    "excluding": ["exclude:before", "exclude:during", "exclude:after"],
    "starting": ["start:before", "start:during", "start:after"],
    "ending": ["verify:before", "verify:after", "close:before", "close:after"],
}

ROWS = Counter(
    {"detected": 1, "verdict": 1, "plan": 1, "decision": 1, "action": 3, "read_back": 3, "outcome": 1}
)
"""A crash that was recovered on other nodes: requeue, exclude, start."""


class Mortal:
    """The service, started again whenever it has died."""

    def __init__(self, stage: Stage, points: list[str]) -> None:
        self.stage = stage
        self.points = stage.folder / "points"
        self.points.write_text("\n".join(points))
        self.log = stage.folder / "workers.log"
        self.deaths = 0
        self.process = self.start()

    def start(self) -> "subprocess.Popen[bytes]":
        argv = [sys.executable, "-m", "tests.stories.doomed", str(self.stage.settings), str(self.points)]
        with self.log.open("ab") as out:
            return subprocess.Popen(argv, cwd=ROOT, env=clean_environment(), stdin=subprocess.DEVNULL, stdout=out, stderr=out)

    def look_after(self) -> None:
        code = self.process.poll()
        if code is not None:
            assert code == -9, f"it ended by itself with {code}:\n{text_of(self.log)[-3000:]}"
            self.deaths += 1
            self.process = self.start()


@pytest.mark.parametrize("story", STORIES)
async def test_a_service_killed_at_every_step_restarts_the_job_once_and_tells_each_step_once(stage: Stage, story: str) -> None:
    mortal = Mortal(stage, STORIES[story])
    try:
        job_id = await asyncio.to_thread(stage.train)
        await until(lambda: watched(stage), mortal, "watcher of the job")
        hit = stage.crash(job_id, rank=2)
        incident = await until(lambda: closed(stage), mortal, "end of the incident")
        await until(lambda: pointless(mortal), mortal, "last death")
    finally:
        end(mortal.process)
    assert mortal.deaths == len(STORIES[story])
    assert incident.outcome is not None
    assert incident.outcome.result is Result.RECOVERED, incident.outcome.why
    job = stage.job(job_id)
    assert job.restarts == 1
    assert hit.node not in job.nodes
    rows = audit(stage)
    assert Counter(str(row.kind) for row in rows) == ROWS
    assert len({row.key for row in rows}) == len(rows)
    assert await incidents(stage) == 1


async def until(look, mortal: Mortal, what: str):  # type: ignore[no-untyped-def]
    """What `look` finds, while the service dies and is started again."""
    deadline = time.monotonic() + STORY_S
    while not (found := await look()):
        assert time.monotonic() < deadline, f"no {what}; left: {mortal.points.read_text()}\n{text_of(mortal.log)[-3000:]}"
        mortal.look_after()
        await asyncio.sleep(0.1)
    return found


async def watched(stage: Stage) -> bool:
    return bool([w async for w in stage.client.list_workflows(f"WorkflowType = '{names.WATCH_JOB}'")])


async def closed(stage: Stage) -> Incident | None:
    """The incident once it is closed; on the way there it is approved."""
    async for found in stage.client.list_workflows(f"WorkflowType = '{names.REMEDIATE_JOB}'"):
        handle = stage.client.get_workflow_handle(found.id)
        try:
            async with asyncio.timeout(3):
                incident: Incident = await handle.query(names.INCIDENT, result_type=Incident)
                if incident.stage is At.AWAITING_APPROVAL and incident.decided is None:
                    await Rerail(stage.client).approve(found.id, reason="the evidence is clear", by="test")
        except Exception:  # noqa: BLE001 - the worker that should answer may just have died
            return None
        return incident if incident.outcome and found.close_time else None
    return None


async def pointless(mortal: Mortal) -> bool:
    return not mortal.points.read_text().strip()


def audit(stage: Stage) -> list[AuditRow]:
    return [row for _, row in AuditStore(load(Path(stage.settings)).audit_url()).rows()]


async def incidents(stage: Stage) -> int:
    return len([w async for w in stage.client.list_workflows(f"WorkflowType = '{names.REMEDIATE_JOB}'")])
