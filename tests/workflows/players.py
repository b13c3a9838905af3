"""Players: activities by the names that the workflows say, whose answers each test scripts; and what they play on."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from temporalio import activity
from temporalio.client import Client, WorkflowHandle
from temporalio.exceptions import ApplicationError

from activities.asks import (
    AnnotateAsk,
    Annotated,
    CloseAsk,
    DrainAsk,
    Drained,
    Effect,
    EffectAsk,
    ExamineAsk,
    Examined,
    FindAsk,
    FollowAsk,
    NoteAsk,
    Opened,
    Place,
    ProposeAsk,
    Proposed,
    ReadmitAsk,
    Readmitted,
    RecheckAsk,
    Rechecked,
    RecordAsk,
    RemediateInput,
    RequestAsk,
    SurveyAsk,
    Told,
    Verified,
    VerifyAsk,
)
from activities.pulse import pulse
from activities.search import cluster_attributes, incident_attributes
from rerail import drains, names
from rerail.records import (
    Advice,
    Anomaly,
    Attempt,
    FaultClass,
    Grant,
    GrantAsk,
    GuardState,
    Incident,
    JobKey,
    JobState,
    Kind,
    Node,
    NodeState,
    Notice,
    Plan,
    Recovery,
    Result,
    Stage,
    Step,
    StepKind,
    Verdict,
)

AT = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
WITHIN_S = 20.0
"""A condition that doesn't come about within this fails the test."""

CLUSTER = "alpha"
JOB = JobKey(cluster=CLUSTER, job_id="41001", submitted_at=AT)
ATTEMPT = Attempt(job=JOB, number=1, restarts=0, submitted_at=AT, started_at=AT)
WATCHER = names.watch_job_id(JOB)

CONTROL: dict[str, type] = {
    "open_incident": RemediateInput,
    "ask_guard": GrantAsk,
    "request_remediation": RequestAsk,
    "record_decision": RecordAsk,
    "close": CloseAsk,
    "note": NoteAsk,
    "tell": Notice,
}
DETECT: dict[str, type] = {
    "examine": ExamineAsk,
    "propose": ProposeAsk,
    "recheck": RecheckAsk,
    "verify": VerifyAsk,
    "survey": SurveyAsk,
    "follow": FollowAsk,
    "find_job": FindAsk,
}
EFFECTS = ("requeue", "exclude", "take_back", "start", "stop")
ACT: dict[str, type] = {
    **dict.fromkeys(EFFECTS, EffectAsk),
    "drain": DrainAsk,
    "readmit": ReadmitAsk,
    "annotate": AnnotateAsk,
}

ELSEWHERE = Plan(
    id="p1",
    rule="restart-elsewhere",
    steps=(Step(kind=StepKind.EXCLUDE, nodes=("gpu-02",), why="an Xid"), Step(kind=StepKind.RESTART, why="from its checkpoint")),
    reasons=("gpu-02 fell off the bus",),
    nodes_needed=4,
    nodes_eligible=5,
)
IN_PLACE = Plan(
    id="p2", rule="restart", steps=(Step(kind=StepKind.RESTART, why="from its checkpoint"),), reasons=("nobody to blame",)
)
STOP = Plan(id="p3", rule="would-fail-again", steps=(Step(kind=StepKind.STOP, why="a bug"),), reasons=("it would fail again",))
TELL = Plan(id="p4", rule="report-straggler", steps=(Step(kind=StepKind.TELL, why="slow"),), ask=False, reasons=("slow, told",))
REFUSAL = Plan(id="p5", rule="cannot-requeue", ask=False, refusal="the job is no batch job")

Answer = Callable[[Any], Any]


def anomaly(number: int = 1, kind: Kind = Kind.CRASH, attempt: Attempt = ATTEMPT, **more: Any) -> Anomaly:
    return Anomaly(id=f"{attempt}#{number}", attempt=attempt, kind=kind, detector="exited", seen_at=AT, why="rank 2 died", **more)


def examined(_: ExamineAsk) -> Examined:
    verdict = Verdict(
        kind=Kind.CRASH,
        fault=FaultClass.HARDWARE,
        cause="gpu_fell_off_the_bus",
        culprit_nodes=("gpu-02",),
        advice=Advice.RESTART_EXCLUDING_NODES,
        confidence=0.9,
        why="Xid 79 on gpu-02",
    )
    return Examined(
        verdict=verdict, bundle="/state/bundles/1", places={"out": Place(offset=900)}, last_step=42, checkpoint_step=40
    )


def proposes(plan: Plan, expires_s: float = 1800, remind_s: float = 1200) -> Answer:
    return lambda _: Proposed(plan=plan, expires_s=expires_s, remind_s=remind_s)


def effect(_: EffectAsk) -> Effect:
    return Effect(state=JobState.PENDING, at=AT)


def drained(name: str) -> Node:
    """The node as our drain left it."""
    return Node(
        name=name, state=NodeState.DRAINED, reason=drains.reason_of("remediate-job/1", "x"), reason_by="rerail", reason_at=AT
    )


def verified(_: VerifyAsk) -> Verified:
    return Verified(moving=True, why="past it", nodes=("gpu-01",), running_at=AT, past_at=AT, resumed_step=40, passed_step=43)


async def stays(_: Any) -> None:
    """An activity that goes on and on."""
    async with pulse():
        await asyncio.Event().wait()


def fails(why: str, kind: str = "Refused") -> Answer:
    """For good, with a sentence."""

    def answer(_: Any) -> None:
        raise ApplicationError(why, type=kind, non_retryable=True)

    return answer


def in_turn(*answers: Any) -> Answer:
    """One answer after the other; the last one stays. Callables are asked."""
    left = list(answers)

    def answer(ask: Any) -> Any:
        now = left.pop(0) if len(left) > 1 else left[0]
        return now(ask) if callable(now) else now

    return answer


def held(gate: asyncio.Event, then: Answer) -> Answer:
    """The answer waits for the gate."""

    async def answer(ask: Any) -> Any:
        async with pulse():
            await gate.wait()
        return then(ask)

    return answer


@dataclass
class Players:
    """The story of a crash that is recovered elsewhere, unless a test scripts another."""

    heard: list[tuple[str, Any]] = field(default_factory=list)
    """Each try of each activity, in order."""
    answers: dict[str, Answer] = field(
        default_factory=lambda: {
            "open_incident": lambda ask: Opened(incident=names.remediate_job_id(ask.anomaly.attempt)),
            "ask_guard": lambda ask: Grant(incident=ask.incident, granted=True),
            "request_remediation": lambda ask: names.remediate_job_id(ask.attempt),
            "record_decision": lambda ask: ask.recorded.model_copy(update={"identity": "seen-by-temporal"}),
            "close": lambda _: None,
            "note": lambda _: None,
            "tell": lambda _: Told(),
            "examine": examined,
            "propose": proposes(ELSEWHERE),
            "recheck": lambda _: Rechecked(nodes_needed=4, nodes_eligible=6),
            "verify": verified,
            "survey": stays,
            "follow": stays,
            "find_job": lambda _: ATTEMPT,
            **dict.fromkeys(EFFECTS, effect),
            "drain": lambda ask: Drained(nodes=tuple(drained(name) for name in ask.nodes)),
            "readmit": lambda ask: Readmitted(said=(f"{ask.node} takes jobs again",)),
            "annotate": lambda _: Annotated(),
        }
    )

    def activities(self, asks: dict[str, type]) -> list[Callable[..., Any]]:
        return [self.activity(name, kind) for name, kind in asks.items()]

    def activity(self, name: str, kind: type) -> Callable[..., Any]:
        async def play(ask: Any) -> Any:
            self.heard.append((name, ask))
            answer = self.answers[name](ask)
            return await answer if inspect.isawaitable(answer) else answer

        play.__annotations__ = {"ask": kind}
        return activity.defn(name=name)(play)

    def asked(self, name: str) -> list[Any]:
        """What an activity was asked, in order."""
        return [ask for said, ask in self.heard if said == name]

    @property
    def acted(self) -> list[str]:
        """The effects that were tried, in order."""
        return [name for name, _ in self.heard if name in EFFECTS or name == "drain"]

    @property
    def told(self) -> list[str]:
        return [str(notice.kind) for notice in self.asked("tell")]


async def until(holds: Callable[[], Awaitable[Any] | Any], what: str) -> Any:
    """What `holds` answers, once it is true."""
    deadline = time.monotonic() + WITHIN_S
    while True:
        found = holds()
        found = await found if inspect.isawaitable(found) else found
        if found:
            return found
        assert time.monotonic() < deadline, f"no {what} within {WITHIN_S:.0f} s"
        await asyncio.sleep(0.02)


@dataclass
class Theatre:
    """A server that skips time while only timers are waited for, the real workflows, and the players."""

    client: Client
    players: Players

    async def incident(
        self, sighting: Anomaly | None = None, *, tells: bool = True, history: tuple[Recovery, ...] = ()
    ) -> "Played":
        """An incident, opened as its detector does it."""
        seen = sighting or anomaly()
        handle = await self.client.start_workflow(
            names.REMEDIATE_JOB,
            RemediateInput(anomaly=seen, tells=tells, history=history),
            id=names.remediate_job_id(seen.attempt),
            task_queue=names.CONTROL_QUEUE,
            search_attributes=incident_attributes(seen.attempt),
        )
        return Played(handle)

    async def waiting(self) -> "Played":
        """An incident that waits for a decision."""
        played = await self.incident()
        await played.reaches(Stage.AWAITING_APPROVAL)
        return played

    async def guard(self) -> WorkflowHandle[Any, Any]:
        return await self.client.start_workflow(
            names.GUARD_CLUSTER,
            GuardState(cluster=CLUSTER),
            id=names.guard_cluster_id(CLUSTER),
            task_queue=names.CONTROL_QUEUE,
            search_attributes=cluster_attributes(CLUSTER),
        )


@dataclass
class Played:
    """One incident on the stage."""

    handle: WorkflowHandle[Any, Any]

    async def look(self) -> Incident:
        seen: Incident = await self.handle.query(names.INCIDENT, result_type=Incident)
        return seen

    async def reaches(self, stage: Stage) -> Incident:
        async def there() -> Incident | None:
            incident = await self.look()
            return incident if incident.stage is stage else None

        found: Incident = await until(there, f"stage {stage}")
        return found

    async def notes(self, some: str) -> str:
        """The first note with these words, once it is there."""

        async def there() -> str:
            return next((note for note in (await self.look()).notes if some in note), "")

        found: str = await until(there, f"note with {some!r}")
        return found

    async def decide(self, verdict: str, **more: Any) -> str:
        message = {"verdict": verdict, "reason": "seen it", "by": "ada", **more}
        said: str = await self.handle.execute_update(names.DECIDE, message)
        return said

    async def joins(self, sighting: Anomaly) -> bool:
        joined: bool = await self.handle.execute_update(names.REPORT_ANOMALY, sighting, id=sighting.id)
        return joined

    async def ends(self) -> Incident:
        """The incident as it stands once it is closed. Timers are skipped meanwhile."""
        await self.handle.result()
        return await self.look()

    async def ends_as(self, result: Result) -> str:
        """The sentence of its outcome, which has to be `result`."""
        incident = await self.ends()
        assert incident.outcome is not None
        assert incident.outcome.result is result, incident.outcome.why
        assert incident.stage is Stage.CLOSED
        return incident.outcome.why
