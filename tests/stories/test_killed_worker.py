"""The service is killed with SIGKILL before, during and after every step: the story goes on, and nothing is done twice."""

import asyncio
from collections import Counter

import pytest

from adapters.audit.store import AuditStore
from rerail.records import AuditRow, Result
from tests.mortal import Mortal, approved_to_the_end, incidents, watched
from tests.stage import Stage
from workers.settings import load

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

ROWS = {"detected": 1, "verdict": 1, "plan": 1, "decision": 1, "action": 3, "read_back": 3, "outcome": 1}
"""A crash that was recovered on other nodes: requeue, exclude, start."""


@pytest.mark.parametrize("story", STORIES)
async def test_a_service_killed_at_every_step_restarts_the_job_once_and_tells_each_step_once(stage: Stage, story: str) -> None:
    mortal = Mortal(stage.settings, STORIES[story])
    try:
        job_id = await asyncio.to_thread(stage.train)
        await mortal.until(lambda: watched(stage.client), "watcher of the job")
        hit = stage.crash(job_id, rank=2)
        incident = await mortal.until(lambda: approved_to_the_end(stage.client), "end of the incident")
        await mortal.until(mortal.dead_enough, "last death")
    finally:
        mortal.end()
    assert mortal.deaths == len(STORIES[story])
    assert incident.outcome is not None
    assert incident.outcome.result is Result.RECOVERED, incident.outcome.why
    job = stage.job(job_id)
    assert job.restarts == 1
    assert hit.node not in job.nodes
    rows = audit(stage)
    assert Counter(str(row.kind) for row in rows) == ROWS
    assert len({row.key for row in rows}) == len(rows)
    assert len(await incidents(stage.client)) == 1


def audit(stage: Stage) -> list[AuditRow]:
    return [row for _, row in AuditStore(load(stage.settings).audit_url()).rows()]
