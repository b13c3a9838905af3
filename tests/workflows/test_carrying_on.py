"""Workflows that live for ever begin anew when their history grows long: all state is carried, and no message is lost.

On a dev server that suggests it after a few events, since nothing but the server does.
"""

import asyncio
import shutil
import sysconfig
from collections.abc import AsyncIterator
from typing import Any

import pytest
from temporalio.client import WorkflowHandle
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from activities.asks import FollowAsk, Followed, Opened, Place, Seen, Survey, WatchClusterInput, WatchJobInput
from activities.search import ALL, cluster_attributes, job_attributes
from rerail import names
from rerail.records import (
    Attempt,
    ClusterState,
    FaultClass,
    GrantAsk,
    GuardState,
    JobKey,
    JobWatch,
    Kind,
    Recovery,
    Result,
)
from tests.temporal import dev_server
from tests.workflows.players import ACT, AT, ATTEMPT, CLUSTER, CONTROL, DETECT, JOB, Players, Theatre, until
from workers.assembly import WORKFLOWS

TEMPORAL = shutil.which("temporal", path=sysconfig.get_path("scripts"))
EVENTS = 40
"""After this many events the server suggests to begin anew; in production after some thousand."""


@pytest.fixture
async def server() -> AsyncIterator[WorkflowEnvironment]:
    env = await dev_server(
        search_attributes=list(ALL),
        dev_server_extra_args=["--dynamic-config-value", f"limit.historyCount.suggestContinueAsNew={EVENTS}"],
    )
    yield env
    await env.shutdown()


@pytest.fixture
async def theatre(server: WorkflowEnvironment) -> AsyncIterator[Theatre]:
    client, players = server.client, Players()
    control = Worker(
        client,
        task_queue=names.CONTROL_QUEUE,
        workflows=WORKFLOWS,
        activities=players.activities(CONTROL),
        workflow_failure_exception_types=[Exception],
    )
    detect = Worker(client, task_queue=names.detect_queue(CLUSTER), activities=players.activities(DETECT))
    act = Worker(client, task_queue=names.act_queue(CLUSTER), activities=players.activities(ACT))
    async with control, detect, act:
        yield Theatre(client, players)


async def runs(theatre: Theatre, workflow_id: str) -> int:
    """How often the workflow has begun."""
    query = f"WorkflowId = '{workflow_id}'"
    return len([found async for found in theatre.client.list_workflows(query)])


async def begun_anew(theatre: Theatre, handle: WorkflowHandle[Any, Any], times: int) -> None:
    async def enough() -> bool:
        return await runs(theatre, handle.id) > times

    await until(enough, "new run")


async def test_a_guard_carries_pause_ledger_and_who_waits(theatre: Theatre) -> None:
    guard = await theatre.guard()
    await guard.execute_update(names.PAUSE, {"by": "ada", "reason": "maintenance"})
    await guard.signal(names.AWAIT_RESUME, "remediate-job/waits")
    for number in range(30):  # sent without waiting: some arrive while it begins anew
        ask = GrantAsk(
            cluster=CLUSTER, incident=f"i{number}", run="r", nodes=(f"gpu-{number}",), nodes_needed=1, nodes_eligible=9, job="1"
        )
        await guard.execute_update(names.GRANT, ask)
    await begun_anew(theatre, guard, 1)
    state: GuardState = await guard.query(names.GUARD_STATE, result_type=GuardState)
    assert state.paused
    assert (state.paused_by, state.paused_why) == ("ada", "maintenance")
    assert state.waiting == ("remediate-job/waits",)
    assert [row.node for row in state.isolations] == [f"gpu-{n}" for n in range(30)]
    assert len(state.grants) == 30


async def test_a_cluster_watch_carries_its_jobs_and_its_blindness(theatre: Theatre) -> None:
    left = [Survey(read_at=AT, blind_since=AT, blind_why="no answer")]
    left += [Survey(read_at=AT, blind_since=AT, blind_why="no answer", appeared=(attempt_of(f"{n}"),)) for n in range(12)]
    hold = asyncio.Event()

    async def survey(_: Any) -> Survey:
        if left:
            return left.pop(0)
        await hold.wait()
        return Survey(read_at=AT)

    theatre.players.answers["survey"] = survey
    watcher = await theatre.client.start_workflow(
        names.WATCH_CLUSTER,
        WatchClusterInput(cluster=CLUSTER),
        id=names.watch_cluster_id(CLUSTER),
        task_queue=names.CONTROL_QUEUE,
        search_attributes=cluster_attributes(CLUSTER),
    )
    await begun_anew(theatre, watcher, 1)
    await until(lambda: len(theatre.players.asked("survey")) == 14, "last survey")
    state: ClusterState = await watcher.query(names.CLUSTER_STATE, result_type=ClusterState)
    assert sorted(int(a.job.job_id) for a in state.jobs) == list(range(12))
    assert (state.blind_since, state.blind_why, state.read_at) == (AT, "no answer", AT)
    assert [str(ask.kind) for ask in theatre.players.asked("note")] == ["blind"]
    await until(lambda: len(theatre.players.asked("follow")) == 12, "a watcher for each job")
    hold.set()


def attempt_of(job_id: str) -> Attempt:
    return Attempt(job=JobKey(cluster=CLUSTER, job_id=job_id, submitted_at=AT), number=1)


async def test_a_job_watch_carries_place_history_and_open_incident(theatre: Theatre) -> None:
    sights = [Followed(seen=seen, at=place(n), time=AT, why="x") for n, seen in enumerate((Seen.BLIND, Seen.SIGHTED) * 6, 1)]
    symptom = {"kind": Kind.CRASH, "detector": "exited", "why": "died"}
    sights.append(Followed.model_validate({"seen": Seen.ANOMALY, "at": place(99), "symptoms": [symptom], "time": AT}))
    hold = asyncio.Event()

    async def follow(_: Any) -> Followed:
        if not sights:
            await hold.wait()
        return sights.pop(0) if sights else Followed(seen=Seen.ENDED, at=place(99), time=AT, why="completed")

    theatre.players.answers["follow"] = follow
    theatre.players.answers["open_incident"] = lambda _: Opened(incident="remediate-job/open", run="r9")
    watcher = await theatre.client.start_workflow(
        names.WATCH_JOB,
        WatchJobInput(attempt=ATTEMPT),
        id=names.watch_job_id(JOB),
        task_queue=names.CONTROL_QUEUE,
        search_attributes=job_attributes(ATTEMPT),
    )
    for number in range(20):  # while it follows and begins anew
        await watcher.signal(names.CLOSED, recovery(f"r{number + 100}"))
    await begun_anew(theatre, watcher, 2)
    await until(lambda: len(theatre.players.asked("follow")) == 14, "last follow")
    state: JobWatch = await watcher.query(names.JOB_STATE, result_type=JobWatch)
    assert [r.run for r in state.history] == [f"r{n + 100}" for n in range(20)]
    assert state.incident == "remediate-job/open"
    assert theatre.players.asked("follow")[-1].places == {"out": Place(offset=99)}
    await watcher.signal(names.CLOSED, recovery("r9"))
    hold.set()
    assert await watcher.result() == "completed"


def place(offset: int) -> FollowAsk:
    return FollowAsk(attempt=ATTEMPT, places={"out": Place(offset=offset)})


def recovery(run: str) -> Recovery:
    return Recovery(attempt=1, kind=Kind.CRASH, fault=FaultClass.UNKNOWN, result=Result.REJECTED, at=AT, run=run)
