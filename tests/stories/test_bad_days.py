"""Bad days of the world around: Temporal, scheduler, log, audit and worker go away and come back. Nothing lost, nothing twice."""

import asyncio
import json
import shutil
import signal
import sqlite3
import subprocess
import sys
import sysconfig
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client, WorkflowHandle

from adapters.audit.store import AuditStore
from adapters.schedulers.local import LocalScheduler
from demo.service import temporal_command
from rerail import names
from rerail.client import Rerail, connect
from rerail.records import AuditRow, ClusterState, Incident, JobState, JobWatch, Result
from rerail.records import Stage as At
from tests.stage import CLUSTER, NODES, ROOT, WITHIN_S, Stage, clean_environment, end, free_port, text_of, write_settings
from workers.settings import load

TEMPORAL = shutil.which("temporal", path=sysconfig.get_path("scripts"))
SEEN = "seen"
"""What the service sees of the cluster: a link, so that the cluster can go away for the service alone."""

ONE_RECOVERY = Counter({"detected": 1, "verdict": 1, "plan": 1, "decision": 1, "action": 3, "read_back": 3, "outcome": 1})
"""The rows of a crash that was recovered on other nodes."""


@dataclass
class World:
    """Everything that may break, each part by itself."""

    folder: Path
    port: int
    ui_port: int
    running: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    # Parts

    def start_temporal(self) -> None:
        """On the same file and ports, whatever became of the last one."""
        assert TEMPORAL
        self.spawn("temporal", temporal_command(TEMPORAL, self.folder / "temporal.db", self.port, self.ui_port))

    def start_service(self) -> None:
        self.spawn("service", [sys.executable, "-m", "workers", "--settings", str(self.folder / "rerail.yaml"), "up"])

    def spawn(self, name: str, argv: list[str]) -> None:
        with (self.folder / f"{name}.log").open("ab") as out:
            process = subprocess.Popen(argv, cwd=ROOT, env=clean_environment(), stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        self.running[name] = process

    def kill(self, name: str) -> None:
        """With no time for anything."""
        process = self.running.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        for name in ("service", "temporal"):
            if name in self.running:
                end(self.running.pop(name))

    def said(self, name: str = "service") -> str:
        return text_of(self.folder / f"{name}.log")

    # What the world sees

    def show(self, cluster: str | None) -> None:
        """The cluster as the service sees it from now on; None: nothing can be read."""
        link = self.folder / SEEN
        link.unlink(missing_ok=True)
        if cluster:
            link.symlink_to(self.folder / cluster)

    @property
    def notices(self) -> list[dict[str, Any]]:
        """What the command channel was told."""
        return [json.loads(line) for line in text_of(self.folder / "notices").splitlines()]

    def rows(self, kind: str = "") -> list[AuditRow]:
        if not (self.folder / "state" / "audit.db").exists():
            return []
        kept = [row for _, row in AuditStore(load(self.folder / "rerail.yaml").audit_url()).rows()]
        return [row for row in kept if not kind or row.kind == kind]

    async def client(self) -> Client:
        """Connected, once Temporal answers."""

        async def connected() -> Client | None:
            try:
                client = await connect(address=f"127.0.0.1:{self.port}", timeout_s=2)
                await client.count_workflows()
            except Exception:  # not yet
                return None
            return client

        found: Client = await self.until(connected, "answer of Temporal")
        return found

    async def until(self, look: Callable[[], Awaitable[Any] | Any], what: str) -> Any:
        deadline = time.monotonic() + WITHIN_S
        while True:
            found = look()
            found = await found if isinstance(found, Awaitable) else found
            if found:
                return found
            assert time.monotonic() < deadline, f"no {what} within {WITHIN_S:.0f} s; the service said:\n{self.said()[-3000:]}"
            await asyncio.sleep(0.1)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """A cluster, settings and a channel; nothing runs yet."""
    world = World(tmp_path, free_port(), free_port())
    write_settings(tmp_path / "rerail.yaml", f"127.0.0.1:{world.port}", "http://127.0.0.1:1")
    told = ["/bin/sh", "-c", f'cat >> "{tmp_path}/notices"; echo >> "{tmp_path}/notices"']
    text = (tmp_path / "rerail.yaml").read_text().replace(f"./{CLUSTER}}}", f"./{SEEN}}}")
    (tmp_path / "rerail.yaml").write_text(text + f"channels:\n  - command: {{argv: {json.dumps(told)}}}\n")
    scheduler = LocalScheduler.create(tmp_path / CLUSTER, CLUSTER, NODES)
    world.show(CLUSTER)
    try:
        yield world
    finally:
        world.stop()
        scheduler.shut_down()


async def staged(world: World) -> tuple[Stage, str]:
    """Temporal and the service run, and a job trains under their eyes."""
    world.start_temporal()
    client = await world.client()
    world.start_service()
    stage = Stage(client, "", world.folder, LocalScheduler(CLUSTER, world.folder / CLUSTER))
    job_id = await asyncio.to_thread(stage.train)
    await world.until(lambda: watched(client), "watcher of the job")
    return stage, job_id


async def watched(client: Client, count: int = 1) -> list[str]:
    """The workflow ids of the jobs' watchers, once there are so many that look at their job."""
    found = [w.id async for w in client.list_workflows(f"WorkflowType = '{names.WATCH_JOB}'")]
    return found if len(found) >= count else []


async def incidents(client: Client) -> list[str]:
    return [w.id async for w in client.list_workflows(f"WorkflowType = '{names.REMEDIATE_JOB}'")]


async def incident(client: Client) -> tuple[WorkflowHandle[Any, Any], Incident] | None:
    """The one incident as it stands, where a worker answers."""
    try:
        for found in await incidents(client):
            handle = client.get_workflow_handle(found)
            async with asyncio.timeout(5):
                return handle, await handle.query(names.INCIDENT, result_type=Incident)
    except Exception:  # server or worker are away
        return None
    return None


async def at_stage(client: Client, *stages: At) -> tuple[WorkflowHandle[Any, Any], Incident] | None:
    seen = await incident(client)
    return seen if seen and seen[1].stage in stages else None


async def recovered(world: World, stage: Stage, job_id: str, bad_node: str) -> Incident:
    """The end of a story that went well: one restart, each row once."""
    _, closed = await world.until(lambda: at_stage(stage.client, At.CLOSED), "end of the incident")
    assert closed.outcome.result is Result.RECOVERED, closed.outcome.why
    await world.until(lambda: world.rows("outcome"), "row of the outcome")
    job = stage.job(job_id)
    assert job.restarts == 1
    assert bad_node not in job.nodes
    rows = [row for row in world.rows() if row.incident]
    assert Counter(str(row.kind) for row in rows) == ONE_RECOVERY
    assert len(await incidents(stage.client)) == 1
    found: Incident = closed
    return found


async def test_an_approval_by_signal_survives_the_death_of_worker_and_server(world: World) -> None:
    """The server is killed twice more: while a person is asked, and while the recovery is verified."""
    stage, job_id = await staged(world)
    hit = stage.crash(job_id, rank=2)
    await world.until(lambda: at_stage(stage.client, At.AWAITING_APPROVAL), "question")
    world.kill("temporal")
    await world.until(lambda: cannot_be_reached(stage.client), "silence of Temporal")
    world.start_temporal()
    stage = Stage(await world.client(), "", world.folder, stage.scheduler)
    handle, waiting = await world.until(lambda: at_stage(stage.client, At.AWAITING_APPROVAL), "the same question")
    assert waiting.decided is None
    world.kill("service")
    await handle.signal(names.APPROVE, {"by": "ada", "reason": "no worker answers"})
    world.kill("temporal")
    world.start_temporal()
    stage = Stage(await world.client(), "", world.folder, stage.scheduler)
    assert stage.job(job_id).restarts == 0
    world.start_service()
    await world.until(lambda: at_stage(stage.client, At.VERIFYING, At.CLOSED), "restart")
    world.kill("temporal")
    world.start_temporal()
    stage = Stage(await world.client(), "", world.folder, stage.scheduler)
    closed = await recovered(world, stage, job_id, hit.node)
    assert closed.decided is not None
    assert (closed.decided.way, closed.decided.decision.by) == ("signal", "ada")
    assert sorted(Counter(n["kind"] for n in world.notices)) == ["done", "opened", "waiting"]


async def cannot_be_reached(client: Client) -> bool:
    try:
        async with asyncio.timeout(2):
            await client.count_workflows()
    except Exception:
        return True
    return False


async def test_a_service_that_finds_no_temporal_says_so_waits_and_finds_what_broke_meanwhile(world: World) -> None:
    world.start_service()
    await world.until(lambda: "Trying again in" in world.said(), "word that Temporal is not there")
    assert "Traceback" not in world.said()
    assert f"127.0.0.1:{world.port}" in world.said()
    world.start_temporal()
    client = await world.client()
    await world.until(lambda: "ready" in world.said(), "service that goes on")
    stage = Stage(client, "", world.folder, LocalScheduler(CLUSTER, world.folder / CLUSTER))
    job_id = await asyncio.to_thread(stage.train)
    await world.until(lambda: watched(client), "watcher of the job")
    await asyncio.to_thread(end, world.running.pop("service"))
    hit = stage.crash(job_id, rank=1)
    await world.until(lambda: stage.job(job_id).state is JobState.FAILED, "end of the job")
    world.start_service()
    handle, found = await world.until(lambda: at_stage(client, At.AWAITING_APPROVAL), "question")
    assert found.verdict.culprit_nodes == (hit.node,)
    await Rerail(client).approve(handle.id, reason="the evidence is clear", by="test")
    await recovered(world, stage, job_id, hit.node)
    assert "Traceback" not in world.said()


async def test_a_cluster_that_cannot_be_read_is_announced_once_and_no_job_is_taken_for_gone(world: World) -> None:
    stage, _ = await staged(world)
    (watcher,) = await watched(stage.client)
    world.show(None)
    await world.until(lambda: world.rows("blind"), "row of being blind")
    await world.until(lambda: [n for n in world.notices if n["kind"] == "blind"], "notice")
    state = await cluster_state(stage.client)
    assert state.blind_since is not None
    assert "alpha can't be read" in world.rows("blind")[0].text
    assert [a.job for a in state.jobs], "no job is taken for gone"
    world.show(CLUSTER)
    await world.until(lambda: world.rows("sighted"), "row of the return of sight")
    await world.until(lambda: [n for n in world.notices if n["kind"] == "sighted"], "notice")
    assert len(world.rows("blind")) == len(world.rows("sighted")) == 1
    assert Counter(n["kind"] for n in world.notices) == {"blind": 1, "sighted": 1}
    assert (await cluster_state(stage.client)).blind_since is None
    assert await incidents(stage.client) == []
    description = await stage.client.get_workflow_handle(watcher).describe()
    assert description.close_time is None


async def cluster_state(client: Client) -> ClusterState:
    handle = client.get_workflow_handle(names.watch_cluster_id(CLUSTER))
    seen: ClusterState = await handle.query(names.CLUSTER_STATE, result_type=ClusterState)
    return seen


async def test_a_log_that_cannot_be_read_is_announced_once_and_is_nobodys_hang(world: World) -> None:
    stage, _ = await staged(world)
    (watcher,) = await watched(stage.client)
    away = stage.training_log.with_suffix(".away")
    stage.training_log.rename(away)
    stage.training_log.mkdir()
    (row,) = await world.until(lambda: world.rows("blind"), "row of being blind")
    assert row.text.startswith("the log of job 1 can't be read")
    state: JobWatch = await stage.client.get_workflow_handle(watcher).query(names.JOB_STATE, result_type=JobWatch)
    assert state.blind
    stage.training_log.rmdir()
    away.rename(stage.training_log)
    await world.until(lambda: world.rows("sighted"), "row of the return of sight")
    assert len(world.rows("blind")) == 1
    assert await incidents(stage.client) == []


async def test_an_audit_file_that_is_locked_for_a_while_gets_each_row_once(world: World) -> None:
    stage, job_id = await staged(world)
    hit = stage.crash(job_id, rank=3)
    handle, _ = await world.until(lambda: at_stage(stage.client, At.AWAITING_APPROVAL), "question")
    with locked(world.folder / "state" / "audit.db"):
        await Rerail(stage.client).approve(handle.id, reason="the evidence is clear", by="test")
        began = time.monotonic()
        await world.until(lambda: time.monotonic() - began > 12, "12 s: longer than one try of the store")
        assert stage.job(job_id).restarts == 0, "nothing is done before the decision is kept"
    await recovered(world, stage, job_id, hit.node)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Another program writes, and does not come to an end."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("BEGIN EXCLUSIVE")
        yield
        connection.execute("ROLLBACK")
    finally:
        connection.close()


async def test_a_job_id_that_is_given_anew_is_another_job_with_a_watcher_and_incident_of_its_own(world: World) -> None:
    stage, job_id = await staged(world)
    (first,) = await watched(stage.client)
    other = LocalScheduler.create(world.folder / "anew", CLUSTER, NODES)
    anew = world.folder / "second"
    anew.mkdir()
    second = Stage(stage.client, "", anew, other)
    try:
        assert await asyncio.to_thread(second.train) == job_id
        world.show("anew")
        await world.until(lambda: watched(stage.client, 2), "second watcher")
        gone = await stage.client.get_workflow_handle(first).result()
        assert gone == "the scheduler no longer knows the job"
        second.crash(job_id, rank=0)
        handle, found = await world.until(lambda: at_stage(stage.client, At.AWAITING_APPROVAL), "question")
        submitted = second.job(job_id).submitted_at
        assert submitted is not None
        assert found.anomaly.attempt.job.submitted_at == submitted.replace(microsecond=0)
        assert first.removeprefix("watch-job/") not in handle.id
    finally:
        other.shut_down()
