"""RemediateJob: one anomaly's life until closed. Gather, attribute, propose, ask, isolate, restart or stop, verify."""

import asyncio
from datetime import datetime, timedelta
from types import NoneType
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ApplicationError, FailureError

with workflow.unsafe.imports_passed_through():
    from activities.asks import CloseAsk, ExamineAsk, Examined, ProposeAsk, Proposed, RemediateInput
    from rerail import names
    from rerail.records import (
        Anomaly,
        FaultClass,
        Incident,
        Kind,
        NoticeKind,
        Outcome,
        Plan,
        Recovery,
        Result,
        Stage,
        Verb,
        Verdict,
    )
    from rerail.requests import DECISION_FORM, Refusal, only, read_decision, read_record
    from workflows.annotating import Annotating
    from workflows.chronicle import Chronicle
    from workflows.endings import cause_of, not_approved, without_action
    from workflows.execution import Execution, brief
    from workflows.hearing import Hearing
    from workflows.profiles import JUDGE, RECORD
    from workflows.sentence import say

REVISIONS_MAX = 5
"""How often newer sightings may change the plan before a decision; after that they only join."""

REMEMBERED_CHARS = 240
"""Of a verdict's sentence in the job's recovery history, which is carried on and on."""

SIGNAL_FORM = 'Only if no worker answers `decide`: {"reason": "why", "by": "your name"}'


@workflow.defn(name=names.REMEDIATE_JOB)
class RemediateJob:
    """The story of one incident."""

    @workflow.init
    def __init__(self, ask: RemediateInput) -> None:
        self.history = ask.history
        self.chronicle = Chronicle(ask)
        self.hearing = Hearing(self.chronicle)
        self.annotating = Annotating(self.chronicle)
        self.annotates = False
        """Whether the verdict is to stand in the job's comment."""
        earlier = dict.fromkeys(node for recovery in ask.history for node in recovery.excluded)
        self.execution = Execution(self.chronicle, lambda: self.hearing.cancelled, tuple(earlier))
        self.examined: Examined | None = None
        self.revision = 0
        self.owner = ""
        """Who restarted the job while we asked."""

    @workflow.run
    async def run(self, ask: RemediateInput) -> Outcome:
        story = asyncio.create_task(self.story())  # apart, so that a cancellation never cuts off the record of how it ended
        while True:
            try:
                return await asyncio.shield(story)
            except asyncio.CancelledError:
                if story.cancelled():
                    raise
                self.hearing.cancelled = True  # a rejection while a person is asked, later the end of the watching

    async def story(self) -> Outcome:
        try:
            outcome = await self.remediate()
        except FailureError as error:
            outcome = self.chronicle.outcome(Result.FAILED, cause_of(error))
        return await self.close(outcome)

    async def remediate(self) -> Outcome:
        chronicle, hearing, execution = self.chronicle, self.hearing, self.execution
        plan = await self.settle_on_a_plan()
        ending = without_action(plan)
        if ending:
            return chronicle.outcome(*ending)
        if hearing.overtaken and hearing.decided is None:
            return chronicle.outcome(Result.VOIDED, f"nothing was done: {hearing.overtaken}")
        if hearing.decided is None or hearing.decided.decision.verdict is Verb.REJECT:
            await hearing.record()
            return chronicle.outcome(*not_approved(hearing.decided))
        chronicle.move_to(Stage.ACTING)
        _, facts = await asyncio.gather(hearing.record(), execution.recheck(plan))
        self.owner = facts.owner if facts.void else ""
        outcome = await execution.carry_out(plan, facts)
        assert self.examined
        return outcome or await execution.verify(plan, self.examined)

    async def settle_on_a_plan(self) -> Plan:
        """Diagnose and ask, again when a newer sighting changed the picture before anyone decided."""
        deadline: datetime | None = None
        while True:
            proposed = await self.diagnose()
            if proposed.plan.ask and not without_action(proposed.plan):
                deadline = deadline or workflow.now() + timedelta(seconds=proposed.expires_s)
                await self.hear_of(proposed, deadline)
            if self.hearing.stale:
                continue
            if not (proposed.plan.ask or without_action(proposed.plan)):
                self.hearing.take_policy(proposed.plan)
            return proposed.plan

    async def hear_of(self, proposed: Proposed, deadline: datetime) -> None:
        """Ask; when the job moves on meanwhile, look whether there is still something to decide."""
        while True:
            await self.hearing.hear(proposed.plan, deadline, proposed.remind_s)
            if not self.hearing.moved or self.hearing.decided:
                return
            self.hearing.moved = False
            facts = await self.execution.recheck(proposed.plan)
            self.hearing.overtaken, self.owner = facts.void, facts.owner
            if facts.void:
                return

    async def diagnose(self) -> Proposed:
        """Evidence, verdict, plan."""
        self.revision, self.hearing.stale = self.revision + 1, False
        chronicle, incident = self.chronicle, self.chronicle.incident
        queue = names.detect_queue(chronicle.cluster)
        common: dict[str, Any] = {"run": self.chronicle.run, "anomaly": newest(incident), "revision": self.revision}
        examine = ExamineAsk(**common)
        self.examined = await say("examine", examine, Examined, queue=queue, summary="gather evidence, attribute", profile=JUDGE)
        self.chronicle.mark("verdict")
        verdict = concluded(self.examined.verdict)
        told = common | {"anomaly": brief(common["anomaly"])}
        ask = ProposeAsk(**told, verdict=verdict, history=self.history, bundle=self.examined.bundle)
        proposed = await say("propose", ask, Proposed, queue=queue, summary="verdict to plan", profile=JUDGE)
        self.chronicle.mark("plan")
        anomaly = incident.anomaly.model_copy(
            update={"last_step": self.examined.last_step, "checkpoint_step": self.examined.checkpoint_step}
        )
        self.chronicle.keep(anomaly=anomaly, verdict=self.examined.verdict, plan=proposed.plan, bundle=self.examined.bundle)
        for note in proposed.notes:
            chronicle.remark_once(note)
        self.annotates = proposed.comment
        if self.annotates:
            await self.annotating.write()
        return proposed

    async def close(self, outcome: Outcome) -> Outcome:
        """Keep, show and tell how it ended, and let the job's watcher remember it."""
        chronicle = self.chronicle
        if self.examined:
            outcome = outcome.model_copy(update={"checkpoint_step": self.examined.checkpoint_step})
        chronicle.keep(outcome=outcome)
        chronicle.move_to(Stage.CLOSED)
        chronicle.tell(NoticeKind.DONE, f"job {chronicle.job_id}: {outcome.result}", outcome.why)
        ask = CloseAsk(run=chronicle.run, attempt=chronicle.named, outcome=outcome)
        kept = say("close", ask, NoneType, queue=names.CONTROL_QUEUE, summary=outcome.result, profile=RECORD)
        await asyncio.gather(kept, self.let_watcher_remember(outcome))
        if self.annotates:
            await self.annotating.write()
        await self.annotating.finish()
        await chronicle.wait_for_telling()
        await workflow.wait_condition(workflow.all_handlers_finished)
        return outcome

    async def let_watcher_remember(self, outcome: Outcome) -> None:
        """The job's recovery history is the ground for its budgets."""
        incident, verdict = self.chronicle.incident, self.chronicle.incident.verdict
        recovery = Recovery(
            attempt=incident.anomaly.attempt.number,
            kind=verdict.kind if verdict else incident.anomaly.kind,
            fault=verdict.fault if verdict else FaultClass.UNKNOWN,
            cause=verdict.cause if verdict else "",
            nodes=verdict.culprit_nodes if verdict else (),
            step=incident.anomaly.last_step,
            result=outcome.result,
            restarted="accepted" in self.chronicle.marks and outcome.result is not Result.STOPPED,
            at=workflow.now(),
            run=self.chronicle.run,
            excluded=self.execution.excluded,
            owner=self.owner,
            **self.remembered(),
        )
        await self.tell_watcher(recovery)

    def remembered(self) -> dict[str, str]:
        """What an engineer asks about later: who had it restarted, why, and where the attempt's log is kept."""
        incident = self.chronicle.incident
        decision = incident.decided.decision if incident.decided else None
        return {
            "by": decision.by if decision else "",
            "reason": decision.reason if decision else "",
            "why": incident.verdict.why[:REMEMBERED_CHARS] if incident.verdict else "",
            "bundle": incident.bundle,
        }

    async def tell_watcher(self, recovery: Recovery) -> None:
        incident = self.chronicle.incident
        watcher = workflow.get_external_workflow_handle(names.watch_job_id(incident.anomaly.attempt.job))
        try:
            await watcher.signal(names.CLOSED, recovery)
        except ApplicationError as error:
            workflow.logger.info("the job's watcher has ended: %s", error)

    # Messages. A handler takes any number of arguments: one that Python can't call would wedge the workflow for good.

    @workflow.update(name=names.DECIDE, description=f"Decide: {DECISION_FORM}")
    def decide(self, *messages: Any) -> str:
        """Taken; whatever is wrong with a message was refused by the validator."""
        decision = read_decision(only(messages))
        self.hearing.take(decision, "update")
        return f"{decision.verdict} by {decision.by} is taken"

    @decide.validator
    def check_decide(self, *messages: Any) -> None:
        self.hearing.check(read_decision(only(messages)))

    @workflow.signal(name=names.APPROVE, description=SIGNAL_FORM)
    def approve(self, *messages: Any) -> None:
        self.hearing.take_signal(messages, Verb.APPROVE)

    @workflow.signal(name=names.REJECT, description=SIGNAL_FORM)
    def reject(self, *messages: Any) -> None:
        self.hearing.take_signal(messages, Verb.REJECT)

    @workflow.update(name=names.REPORT_ANOMALY, description="Sent by detectors: something is wrong with this attempt")
    def report_anomaly(self, *anomalies: Any) -> bool:
        """True when it joined this incident; False when it is the one that opened it."""
        joined = self.hearing.join(read_record(Anomaly, anomalies))
        self.hearing.stale = self.hearing.stale and self.revision < REVISIONS_MAX
        return joined

    @report_anomaly.validator
    def check_anomaly(self, *anomalies: Any) -> None:
        """What is seen when the story is over is another incident's: its detector tries again until this one is closed."""
        if self.chronicle.incident.outcome:
            raise Refusal("this incident is being closed; report it again for the next one")
        read_record(Anomaly, anomalies)

    @workflow.signal(name=names.MOVED_ON, description="Sent by the job's watcher: the next attempt is there")
    def move_on(self, *_: Any) -> None:
        self.hearing.moved = True

    @workflow.signal(name=names.RESUMED, description="Sent by the guard at the end of a pause")
    def end_of_pause(self, *_: Any) -> None:
        self.execution.resumed = True

    @workflow.query(name=names.INCIDENT, description="The incident so far")
    def read_incident(self) -> Incident:
        return self.chronicle.incident


def concluded(verdict: Verdict) -> Verdict:
    """What a plan rests on: the conclusion, and which signatures stand behind it; their lines are in the history already."""
    signs = tuple(e.model_copy(update={"text": ""}) for e in verdict.evidence if e.signature)
    return verdict.model_copy(update={"evidence": signs})


def newest(incident: Incident) -> Anomaly:
    """The last sighting, with what the first one knew of the training's steps. A person's request is no new symptom."""
    latest = next((a for a in reversed(incident.joined) if a.kind is not Kind.NONE), incident.anomaly)
    known = {"last_step": incident.anomaly.last_step, "checkpoint_step": incident.anomaly.checkpoint_step}
    return latest.model_copy(update={k: v for k, v in known.items() if getattr(latest, k) is None})
