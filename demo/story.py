"""The story: a job trains, a fault meets it, rerail notices, says why, proposes, a person answers, and training goes on."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from temporalio.client import Client, WorkflowHandle
from temporalio.service import RPCError

from adapters.schedulers.local import LocalScheduler
from demo import links
from demo.faults import Hit, Scene
from demo.job import RANKS, SAVED_EVERY, Training
from demo.lifeline import Ready
from demo.news import news
from demo.places import CLUSTER, NODES, Places, shown
from demo.teller import Teller
from demo.terminal import Gone, Terminal
from demo.timeline import by_pace, differences, timeline
from rerail import names
from rerail.client import Rerail, connect
from rerail.client.rerail import login
from rerail.errors import Refused, Transient
from rerail.records import Incident, JobState, Plan, Result, Stage, Verb

T = TypeVar("T")

LOOK_S = 0.2
"""How often the story looks: an eye blink, and nothing to a server on the same machine."""
SERVICE_S = 60.0
"""Connecting and starting the workers takes 2 s; a loaded machine may need many times that."""
TRAIN_S = 120.0
"""The steps up to the fault take 6 s."""
NOTICE_S = 90.0
"""On top of the floor for hangs: far beyond any aim, so that the story ends with a sentence and not never."""
AGAIN_S = 20.0
"""How long after a failed recovery the next incident is waited for."""


class Astray(Exception):
    """The story can't go on; the message says why."""


@dataclass(frozen=True)
class Choice:
    """What the person who started the story chose."""

    rank: int
    step: int
    yes: bool = False
    floor_s: float = 30.0


@dataclass
class Story:
    """One telling of it."""

    scene: Scene
    choice: Choice
    places: Places
    teller: Teller
    ready: Ready
    terminal: Terminal | None = None
    told: set[str] = field(default_factory=set)
    known: set[str] = field(default_factory=set)
    """Ids of incidents."""
    lasting: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    """What of the fault goes on."""
    questioning: bool = False
    """True while a question stands in the terminal."""

    async def tell(self) -> list[str]:
        """From the first process to the timeline; what went otherwise than it has to, a sentence each."""
        self.client = await self.connected()
        self.rerail = Rerail(self.client)
        await self.watched()
        self.training = self.submitted()
        await self.trained()
        usual_s = self.training.pace_s()
        with self.lasting:
            hit = await self.struck()
            incidents = await self.all_incidents()
            wrong = differences(self.scene, hit, incidents, self.training.read())
            wrong += by_pace(self.scene.expected, usual_s, self.training.pace_s())
        self.end(hit, incidents)
        return wrong

    # Before the fault

    async def connected(self) -> Client:
        """Temporal listens already; its first namespace may need a moment more."""
        return await self.until("Temporal did not answer", SERVICE_S, self.try_to_connect)

    async def try_to_connect(self) -> Client | None:
        try:
            return await connect(self.ready.address, links.NAMESPACE, identity=f"{self.person()} in make demo", timeout_s=2.0)
        except Transient:
            return None

    async def watched(self) -> None:
        """The workers are up once one of them answers for the cluster."""
        self.teller.say(f"Temporal runs at {self.ready.address}; its Web UI:")
        self.teller.exact(links.workflows(self.ready.ui))
        await self.until("the workers did not start", SERVICE_S, self.is_watched)
        self.teller.say(f"The workers watch the cluster {CLUSTER}: {NODES[0]} to {NODES[-1]}, run by the scheduler `local`.")

    async def is_watched(self) -> bool:
        try:
            return bool(await self.rerail.clusters())
        except Transient:
            return False

    def submitted(self) -> Training:
        scheduler = LocalScheduler(CLUSTER, self.places.cluster)
        options = self.scene.options(self.choice.step, self.choice.rank)
        training = Training.submit(scheduler, self.places, options)
        self.teller.say(
            f"Job {training.job_id} is submitted: {RANKS} ranks train a small network and save every {SAVED_EVERY} steps."
        )
        self.teller.add(f"Its log: {shown(self.places.job_log)}")
        return training

    async def trained(self) -> None:
        """It has saved a checkpoint, and gone on for a while."""
        await self.until("the job did not train", TRAIN_S, self.has_trained)
        nodes = ", ".join(self.training.read().nodes)
        done = self.training.progress()
        self.teller.say(f"It trains on {nodes}: step {done.highest_step}, last checkpoint of step {done.checkpoints[-1]}.")

    async def has_trained(self) -> bool:
        done = self.training.progress()
        if done.checkpoints and (done.highest_step or 0) >= self.choice.step - 1:
            return True
        job = self.training.read()
        if job.state.ended:
            raise Astray(f"the job is {job.state} before anything was done to it; see {shown(self.places.job_log)}")
        return False

    async def struck(self) -> Hit:
        hit = await self.until("the fault did not happen", TRAIN_S, self.strike)
        told = self.scene.told.format(rank=hit.rank, node=hit.node)
        self.teller.say(f"FAULT ({hit.fault}): {told}.")
        return hit

    async def strike(self) -> Hit | None:
        scheduler, job_id = self.training.scheduler, self.training.job_id
        hit = self.scene.strike(scheduler, job_id, self.choice.rank)
        if hit:
            self.lasting.enter_context(self.scene.lasts(scheduler, job_id, hit.node))
        return hit

    # After it

    async def all_incidents(self) -> list[Incident]:
        """The incident of the fault, and the next one where a recovery failed."""
        ended: list[Incident] = []
        patience_s = NOTICE_S + self.choice.floor_s
        while not ended or (ended[-1].outcome and ended[-1].outcome.result is Result.FAILED):
            try:
                handle = await self.until("rerail noticed nothing", patience_s, self.next_incident)
            except Astray:
                if not ended:
                    raise
                break
            ended.append(await self.follow(handle))
            patience_s = AGAIN_S
        return ended

    async def next_incident(self) -> "WorkflowHandle[object, object] | None":
        """The first incident of the job that was not told yet."""
        query = f"WorkflowType='{names.REMEDIATE_JOB}' AND {names.SA_JOB}='{self.training.job_id}'"
        with contextlib.suppress(RPCError):  # a server that is busy is asked again
            async for found in self.client.list_workflows(query):
                if found.id not in self.known:
                    self.known.add(found.id)
                    self.told.clear()
                    return self.client.get_workflow_handle(found.id, run_id=found.run_id)
        return None

    async def follow(self, handle: "WorkflowHandle[object, object]") -> Incident:
        """Tell one incident to its end. Whichever answer comes first wins; a question that it makes idle is withdrawn."""
        asking: asyncio.Task[None] | None = None
        asked = ""
        try:
            while True:
                incident = await self.look(handle)
                waits = incident.stage is Stage.AWAITING_APPROVAL and incident.decided is None
                idle = not waits or (incident.plan is not None and incident.plan.id != asked)
                if asking and (asking.done() or (idle and self.questioning)):
                    if self.questioning:
                        self.teller.add("", "(The answer came another way.)")
                    await self.withdraw(asking)
                    asking = None
                self.tell_news(incident, handle)
                if waits and incident.plan and incident.plan.id != asked:
                    asked = incident.plan.id
                    self.tell_ways(incident)
                    asking = asyncio.create_task(self.answer(incident, incident.plan))
                if incident.stage is Stage.CLOSED:
                    return incident
                await asyncio.sleep(LOOK_S)
        finally:
            await self.withdraw(asking)

    async def look(self, handle: "WorkflowHandle[object, object]") -> Incident:
        """The incident as it is now; a worker that is busy is asked again."""
        return await self.until("the incident can't be read", NOTICE_S, lambda: self.try_to_look(handle.id))

    async def try_to_look(self, incident: str) -> Incident | None:
        try:
            return await self.rerail.incident(incident)
        except Transient:
            return None

    def tell_news(self, incident: Incident, handle: "WorkflowHandle[object, object]") -> None:
        for piece in news(incident):
            if piece.key in self.told:
                continue
            self.told.add(piece.key)
            self.teller.say(piece.sentence)
            self.teller.add(*piece.details)
            if piece.key == "anomaly":
                self.teller.add("The incident, with all that follows, in Temporal (press R there to refresh):")
                self.teller.exact(links.incident(self.ready.ui, incident.id, handle.run_id or ""))
        self.tell_running(incident)

    def tell_running(self, incident: Incident) -> None:
        job = self.training.read()
        if job.restarts > incident.anomaly.attempt.restarts and job.state is JobState.RUNNING and "running" not in self.told:
            self.told.add("running")
            self.teller.say(f"The job runs again, on {', '.join(job.nodes)}.")

    # Answering

    def tell_ways(self, incident: Incident) -> None:
        """How a person answers; with YES=1 nobody needs it."""
        if self.choice.yes:
            return
        self.teller.say("Nothing is done before a person approves. Answer in one of these ways:")
        self.teller.add("- In Temporal: the page of the incident (above) says exactly what to send. All that waits for a person:")
        self.teller.exact(f"  {links.waiting(self.ready.ui)}")
        self.teller.add("- In another shell, in this folder:")
        self.teller.exact(*(f"  {links.answer(verb, incident.id, self.ready.address)}" for verb in ("approve", "reject")))
        self.teller.add(
            "- Here:" if self.terminal else "- There is no terminal to ask you here; YES=1 would answer by itself. Waiting."
        )

    async def answer(self, incident: Incident, plan: Plan) -> None:
        """Answer by itself, or ask the person who sits here."""
        try:
            if self.choice.yes:
                await self.decide(incident, plan, Verb.APPROVE, "YES=1 was given", "demo")
            elif self.terminal:
                await self.ask(self.terminal, incident, plan)
        except Gone:
            self.teller.add("", "No answer from here, then: waiting for one from Temporal or `rerail`.")

    async def ask(self, terminal: Terminal, incident: Incident, plan: Plan) -> None:
        terminal.forget_typed()
        self.questioning = True
        try:
            verb, by, reason = await self.questions(terminal)
        finally:
            self.questioning = False
        await self.decide(incident, plan, verb, reason, by)

    async def questions(self, terminal: Terminal) -> tuple[Verb, str, str]:
        """Verb, name, reason."""
        said = ""
        while said not in ("a", "approve", "r", "reject"):
            said = (await terminal.ask("           Approve or reject? [a/r]")).lower()
        verb = Verb.APPROVE if said.startswith("a") else Verb.REJECT
        name = self.person()
        by = await terminal.ask_until(f"           Your name [{name}]:", name)
        return verb, by, await terminal.ask_until("           Why?")

    def person(self) -> str:
        """The login name, where the system has one."""
        return login() or "someone"

    async def decide(self, incident: Incident, plan: Plan, verb: Verb, reason: str, by: str) -> None:
        give = self.rerail.approve if verb is Verb.APPROVE else self.rerail.reject

        async def given() -> bool:
            try:
                await give(incident.id, reason=reason, by=by, plan=plan.id)
            except Transient:
                return False
            except Refused as refusal:  # somebody else was faster
                self.teller.add(f"Not taken: {refusal}")
            return True

        await self.until("the answer could not be given", SERVICE_S, given)

    async def withdraw(self, asking: "asyncio.Task[None] | None") -> None:
        """End a question; an error in it is an error of the story."""
        if asking is None:
            return
        asking.cancel()
        await asyncio.wait([asking])
        if not asking.cancelled():
            asking.result()

    # The end

    def end(self, hit: Hit, incidents: list[Incident]) -> None:
        """The timeline, and where everything is kept."""
        told = self.scene.told.format(rank=hit.rank, node=hit.node)
        self.teller.say("Timeline, in seconds since the fault:")
        self.teller.add(*(f"{moment.after_s:8.1f}  {moment.told}" for moment in timeline(hit, told, incidents)))
        last = incidents[-1]
        if last.outcome:
            self.teller.add(f"{'':10}{last.outcome.result}: {last.outcome.why}")
        if last.bundle:
            self.teller.say("The evidence was copied to:")
            self.teller.exact(last.bundle)
        self.teller.say("Every step is in the audit trail:")
        self.teller.exact(links.audit(self.places))

    async def until(self, otherwise: str, within_s: float, look: Callable[[], Awaitable[T | None]]) -> T:
        """What `look` finds, as soon as it finds something. Astray when it takes too long."""
        deadline = time.monotonic() + within_s
        while not (found := await look()):
            if time.monotonic() > deadline:
                raise Astray(f"{otherwise} within {within_s:.0f} s; the logs are in {shown(self.places.folder)}")
            await asyncio.sleep(LOOK_S)
        return found
