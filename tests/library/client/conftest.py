"""A real Temporal server, the real workflows, and a cluster that is nothing but the answers of these activities."""

import asyncio
import shutil
import sysconfig
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar

import pytest
from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from activities.asks import (
    Effect,
    EffectAsk,
    ExamineAsk,
    Examined,
    FindAsk,
    FollowAsk,
    Followed,
    Place,
    ProposeAsk,
    Proposed,
    RecheckAsk,
    Rechecked,
    Survey,
    SurveyAsk,
    Verified,
    VerifyAsk,
    WatchClusterInput,
)
from activities.messaging import Messaging
from activities.recording import Recording
from activities.search import ALL, cluster_attributes
from rerail import names
from rerail.client import DATA_CONVERTER, Rerail
from rerail.records import (
    Attempt,
    AuditRow,
    FaultClass,
    GuardState,
    Incident,
    JobKey,
    JobState,
    Kind,
    Plan,
    Stage,
    Step,
    StepKind,
    Verdict,
)
from workflows.guard_cluster import GuardCluster
from workflows.remediate_job import RemediateJob
from workflows.watch_cluster import WatchCluster
from workflows.watch_job import WatchJob

T = TypeVar("T")
Sentence = Callable[..., Any]
WITHIN_S = 20.0
"""A condition that does not come about within this fails the test."""


class Ledger:
    """The audit trail of a test."""

    def __init__(self) -> None:
        self.kept: dict[str, AuditRow] = {}

    def append(self, row: AuditRow) -> bool:
        new = row.key not in self.kept
        self.kept.setdefault(row.key, row)
        return new

    def rows(self, after: int = 0, limit: int = 1000, incident: str = "", cluster: str = "") -> Iterator[tuple[int, AuditRow]]:
        return iter(list(enumerate(self.kept.values(), 1))[after : after + limit])


@dataclass
class Scene:
    """One cluster of one test: what its activities answer, and the workers that run the story."""

    client: Client
    cluster: str
    known: set[str] = field(default_factory=lambda: {"41001"})
    plan: str = "0a1b2c3d"
    expires_s: float = 600.0
    why: str = "rank 2 was killed"
    moving: bool = True
    ledger: Ledger = field(default_factory=Ledger)
    done: list[str] = field(default_factory=list)
    stack: AsyncExitStack | None = None

    def attempt(self, job_id: str = "41001") -> Attempt:
        key = JobKey(cluster=self.cluster, job_id=job_id, submitted_at=datetime(2026, 12, 1, tzinfo=UTC))
        return Attempt(job=key, number=1, nodes=("n1", "n2"))

    # What the workers run

    @activity.defn
    async def survey(self, ask: SurveyAsk) -> Survey:
        await beat()
        return Survey()

    @activity.defn
    async def find_job(self, ask: FindAsk) -> Attempt:
        if ask.job_id not in self.known:
            raise ApplicationError(f"{self.cluster} knows no job {ask.job_id}", type="NoSuchJob", non_retryable=True)
        return self.attempt(ask.job_id)

    @activity.defn
    async def follow(self, ask: FollowAsk) -> Followed:
        await beat()
        raise AssertionError("never comes back by itself")

    @activity.defn
    async def examine(self, ask: ExamineAsk) -> Examined:
        verdict = Verdict(
            kind=Kind.CRASH, fault=FaultClass.HARDWARE, cause="gpu_lost", culprit_nodes=("n2",), confidence=0.9, why=self.why
        )
        return Examined(verdict=verdict, bundle="/state/bundles/1", place=Place(), last_step=70, checkpoint_step=60)

    @activity.defn
    async def propose(self, ask: ProposeAsk) -> Proposed:
        steps = (
            Step(kind=StepKind.EXCLUDE, nodes=("n2",), why="it lost its GPU"),
            Step(kind=StepKind.RESTART, why="from step 60"),
        )
        plan = Plan(id=self.plan, rule="hardware", steps=steps, reasons=("a GPU was lost",), nodes_needed=2, nodes_eligible=5)
        return Proposed(plan=plan, expires_s=self.expires_s, remind_s=self.expires_s / 2)

    @activity.defn
    async def recheck(self, ask: RecheckAsk) -> Rechecked:
        return Rechecked(nodes_needed=2, nodes_eligible=6)

    @activity.defn
    async def requeue(self, ask: EffectAsk) -> Effect:
        return self.effect("requeue", ask)

    @activity.defn
    async def exclude(self, ask: EffectAsk) -> Effect:
        return self.effect("exclude", ask)

    @activity.defn
    async def start(self, ask: EffectAsk) -> Effect:
        return self.effect("start", ask)

    @activity.defn
    async def stop(self, ask: EffectAsk) -> Effect:
        return self.effect("stop", ask)

    def effect(self, name: str, ask: EffectAsk) -> Effect:
        self.done.append(name)
        return Effect(state=JobState.PENDING, at=datetime.now(UTC))

    @activity.defn
    async def verify(self, ask: VerifyAsk) -> Verified:
        return Verified(moving=self.moving, why="training is past step 70", nodes=("n1", "n3"), passed_step=71, resumed_step=60)

    # Bringing it up and down

    async def up(self, *, control: bool = True, detect: bool = True) -> None:
        """The workers of all roles; a process has one worker a queue, so a second cluster leaves `control` to the first."""
        act: list[Sentence] = [self.requeue, self.exclude, self.start, self.stop]
        reading: list[Sentence] = [self.survey, self.find_job, self.follow, self.examine, self.propose, self.recheck, self.verify]
        self.stack = AsyncExitStack()
        if control:
            await self.stack.enter_async_context(self.control(self.stack.enter_context(ThreadPoolExecutor(4))))
        queues = ((names.detect_queue(self.cluster), reading if detect else []), (names.act_queue(self.cluster), act))
        for queue, sentences in queues:
            if not sentences:
                continue
            await self.stack.enter_async_context(Worker(self.client, task_queue=queue, activities=sentences))

    def control(self, threads: ThreadPoolExecutor) -> Worker:
        recording = Recording(self.ledger, (), self.client)
        messaging = Messaging(self.client)
        sentences: list[Sentence] = [recording.record_decision, recording.close, recording.note, recording.tell]
        sentences += [messaging.open_incident, messaging.ask_guard, messaging.request_remediation]
        stories = [WatchCluster, WatchJob, RemediateJob, GuardCluster]
        return Worker(
            self.client, task_queue=names.CONTROL_QUEUE, workflows=stories, activities=sentences, activity_executor=threads
        )

    async def down(self) -> None:
        """No worker any more; nothing of what they did is lost."""
        if self.stack:
            await self.stack.aclose()
            self.stack = None

    async def begin(self) -> None:
        """The cluster's long-lived workflows, as the control role starts them."""
        common: dict[str, Any] = {"task_queue": names.CONTROL_QUEUE, "search_attributes": cluster_attributes(self.cluster)}
        watch, guard = WatchClusterInput(cluster=self.cluster), GuardState(cluster=self.cluster)
        await self.client.start_workflow(names.WATCH_CLUSTER, watch, id=names.watch_cluster_id(self.cluster), **common)
        await self.client.start_workflow(names.GUARD_CLUSTER, guard, id=names.guard_cluster_id(self.cluster), **common)

    async def end(self) -> None:
        """Nothing of this cluster lives on to disturb the next test."""
        await self.down()
        query = f'{names.SA_CLUSTER} = "{self.cluster}" AND ExecutionStatus = "Running"'
        async for one in self.client.list_workflows(query):
            await self.client.get_workflow_handle(one.id).terminate("the test is over")

    async def waiting(self, rerail: Rerail, job_id: str = "41001") -> Incident:
        """An incident of that job that waits for a person."""
        incident_id = await rerail.remediate(self.cluster, job_id, by="tess", reason="it hangs")

        async def waits() -> Incident | None:
            incident = await rerail.incident(incident_id)
            return incident if incident.stage is Stage.AWAITING_APPROVAL else None

        return await until(waits)


async def beat() -> None:
    """As long as the test lasts."""
    while True:
        activity.heartbeat()
        await asyncio.sleep(1)


async def until(ask: Callable[[], Awaitable[T | None]], within_s: float = WITHIN_S) -> T:
    """The first answer that is not None; fails when there is none in time."""
    async with asyncio.timeout(within_s):
        while (answer := await ask()) is None:
            await asyncio.sleep(0.05)
        return answer


def temporal() -> str:
    """The dev server's program."""
    found = shutil.which("temporal", path=sysconfig.get_path("scripts")) or shutil.which("temporal")
    if not found:
        pytest.skip("no `temporal` here: make setup brings it")
    return found


async def dev_server(**settings: Any) -> WorkflowEnvironment:
    """A server; tried again, since a busy machine may need longer than the SDK's fixed 5 s."""

    async def tried() -> WorkflowEnvironment | None:
        try:
            return await WorkflowEnvironment.start_local(
                dev_server_existing_path=temporal(), data_converter=DATA_CONVERTER, **settings
            )
        except RuntimeError:
            return None

    return await until(tried, within_s=60)


@pytest.fixture(scope="session")
async def server() -> AsyncIterator[WorkflowEnvironment]:
    async with await dev_server(search_attributes=list(ALL)) as env:
        yield env


@pytest.fixture
async def scene(server: WorkflowEnvironment) -> AsyncIterator[Scene]:
    """A cluster with workers and long-lived workflows."""
    made = Scene(server.client, f"c-{uuid.uuid4().hex[:8]}")
    try:
        await made.up()
        await made.begin()
        yield made
        await made.end()
    finally:
        await made.down()


@pytest.fixture
async def other(server: WorkflowEnvironment, scene: Scene) -> AsyncIterator[Scene]:
    """A second cluster, served by the control workers of the first."""
    made = Scene(server.client, f"d-{uuid.uuid4().hex[:8]}")
    try:
        await made.up(control=False)
        await made.begin()
        yield made
        await made.end()
    finally:
        await made.down()


@pytest.fixture
async def rerail(server: WorkflowEnvironment, scene: Scene) -> Rerail:
    return await Rerail.connect(server.client.service_client.config.target_host)
