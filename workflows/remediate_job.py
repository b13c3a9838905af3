"""RemediateJob: one anomaly's life until closed. Gather, attribute, propose, ask, isolate, restart or stop, verify."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from activities.acting import PAUSED, TOO_LATE
    from activities.asks import (
        CloseAsk,
        Effect,
        EffectAsk,
        Examined,
        ExamineAsk,
        Proposed,
        ProposeAsk,
        RecheckAsk,
        RecordAsk,
        RemediateInput,
        Verified,
        VerifyAsk,
    )
    from activities.search import CLASS, NODES, STAGE
    from rerail import names
    from rerail.records import (
        Anomaly,
        Decision,
        Facts,
        Grant,
        GrantAsk,
        Incident,
        Notice,
        NoticeKind,
        Outcome,
        Plan,
        Recorded,
        Recovery,
        Result,
        Stage,
        StepKind,
        Verb,
    )
    from rerail.requests import DECISION_FORM, read_decision
    from workflows.endings import cause_of, not_approved, restart_failed, type_of, without_action
    from workflows.pages import incident_page
    from workflows.profiles import ASK, EFFECT, JUDGE, RECORD, TELL, WATCH

REVISIONS_MAX = 5
"""How often a newer kind of sighting may change the plan before a decision."""

NOTES_MAX = 10

VERIFY_FOR = timedelta(minutes=30)
"""How long a restarted job may run without being seen past the failed step: loading and compiling take up to 20 min at scale."""

ASK_AGAIN_AFTER = timedelta(minutes=10)
"""A pause is asked about again after this, in case the guard's word was lost."""


@workflow.defn(name=names.REMEDIATE_JOB)
class RemediateJob:
    """The story of one incident. The first decision wins, whichever way it comes."""

    @workflow.init
    def __init__(self, ask: RemediateInput) -> None:
        info = workflow.info()
        self.ask = ask
        self.key = f"{info.workflow_id}/{info.first_execution_run_id}"
        self.incident = Incident(id=info.workflow_id, stage=Stage.DIAGNOSING, anomaly=ask.anomaly)
        self.marks: dict[str, datetime] = {"detected": ask.anomaly.seen_at}
        self.examined: Examined | None = None
        self.proposed: Proposed | None = None
        self.revision = 0
        self.stale = False
        self.cancelled = False
        self.resumed = False
        self.telling: list[workflow.ActivityHandle[Any]] = []

    @workflow.run
    async def run(self, ask: RemediateInput) -> Outcome:
        story = asyncio.create_task(self.story())
        while not story.done():
            try:
                await asyncio.shield(story)
            except asyncio.CancelledError:
                if story.cancelled():
                    raise
                self.cancelled = True  # "Request Cancellation": a rejection while a person is asked, else the end of the watching
            except ActivityError as error:
                return await self.close(self.outcome(Result.FAILED, cause_of(error)))
        return await self.close(story.result())

    async def story(self) -> Outcome:
        self.tell(NoticeKind.OPENED, f"{self.ask.anomaly.kind} of job {self.ask.anomaly.attempt.job.job_id}", self.ask.anomaly.why)
        plan = await self.settle_on_a_plan()
        ending = without_action(plan)
        if ending:
            return self.outcome(*ending)
        await self.record_decision()
        decided = self.incident.decided
        if decided is None or decided.decision.verdict is Verb.REJECT:
            return self.outcome(*not_approved(decided))
        self.move_to(Stage.ACTING)
        return await self.act(plan)

    async def settle_on_a_plan(self) -> Plan:
        """Diagnose and ask, again when a newer kind of sighting changed the picture before anyone decided."""
        deadline: datetime | None = None
        while True:
            plan = await self.diagnose()
            if not plan.ask or plan.refusal:
                self.decide_by_policy(plan)
                return plan
            assert self.proposed
            deadline = deadline or workflow.now() + timedelta(seconds=self.proposed.expires_s)
            await self.wait_for_a_person(plan, deadline)
            if not self.stale:
                return plan

    async def diagnose(self) -> Plan:
        """Evidence, verdict, plan."""
        self.stale, self.revision = False, self.revision + 1
        anomaly = self.newest_anomaly()
        common: dict[str, Any] = {"incident": self.incident.id, "key": self.key, "anomaly": anomaly, "revision": self.revision}
        queue = names.detect_queue(anomaly.attempt.job.cluster)
        examined: Examined = await workflow.execute_activity(
            "examine", ExamineAsk(**common), result_type=Examined, task_queue=queue, summary="gather evidence, attribute", **JUDGE
        )
        self.marks["verdict"] = workflow.now()
        ask = ProposeAsk(**common, verdict=examined.verdict, history=self.ask.history)
        proposed: Proposed = await workflow.execute_activity(
            "propose", ask, result_type=Proposed, task_queue=queue, summary="verdict to plan", **JUDGE
        )
        self.marks["plan"] = workflow.now()
        self.examined, self.proposed = examined, proposed
        self.keep(verdict=examined.verdict, plan=proposed.plan, bundle=examined.bundle)
        return proposed.plan

    def newest_anomaly(self) -> Anomaly:
        """The last sighting that told something new; what the first one knew of steps is kept."""
        return self.incident.joined[-1] if self.incident.joined and self.revision > 1 else self.ask.anomaly

    # Asking

    async def wait_for_a_person(self, plan: Plan, deadline: datetime) -> None:
        """Until decided, cancelled, expired, or until a newer sighting changes the picture; a reminder before the end."""
        assert self.proposed
        since = self.incident.waiting_since or workflow.now()
        self.keep(waiting_since=since, expires_at=deadline)
        self.move_to(Stage.AWAITING_APPROVAL)
        self.tell(NoticeKind.WAITING, f"job {self.job_id} waits for your decision", " ".join(plan.reasons))
        remind_at = since + timedelta(seconds=self.proposed.remind_s)
        if not await self.decided_before(remind_at, "reminder"):
            self.tell(NoticeKind.REMINDER, f"job {self.job_id} still waits for your decision", f"It expires at {deadline:%H:%M:%S} UTC.")
            await self.decided_before(deadline, "approval deadline")
        if self.stale:
            self.move_to(Stage.DIAGNOSING)

    async def decided_before(self, end: datetime, name: str) -> bool:
        left = end - workflow.now()
        if left <= timedelta(0):
            return self.answered()
        try:
            await workflow.wait_condition(self.answered, timeout=left, timeout_summary=name)
        except TimeoutError:
            return False
        return True

    def answered(self) -> bool:
        return self.incident.decided is not None or self.cancelled or self.stale

    def decide_by_policy(self, plan: Plan) -> None:
        if plan.ask or plan.refusal or without_action(plan):
            return
        decision = Decision(verdict=Verb.APPROVE, reason=f"rule {plan.rule} in autonomous mode", by="policy", plan=plan.id)
        self.take(decision, "policy")

    async def record_decision(self) -> None:
        """Keep the decision, or that there was none, with the identity that Temporal recorded."""
        if self.cancelled and self.incident.decided is None:
            decision = Decision(verdict=Verb.REJECT, reason="cancellation requested", by="whoever cancelled the workflow")
            self.take(decision, "cancel")
        decided, plan = self.incident.decided, self.incident.plan
        if decided is None or plan is None:
            return
        ask = RecordAsk(
            incident=self.incident.id, key=self.key, attempt=self.ask.anomaly.attempt, recorded=decided, plan=plan.id
        )
        recorded = await workflow.execute_activity(
            "record_decision", ask, result_type=Recorded, task_queue=names.CONTROL_QUEUE, summary=str(decided.decision.verdict), **RECORD
        )
        self.keep(decided=recorded)

    @workflow.update(name=names.DECIDE, description=f"Decide: {DECISION_FORM}")
    def decide(self, message: Any) -> str:
        decision = read_decision(message)
        self.take(decision, "update")
        return f"{decision.verdict} by {decision.by} is taken"

    @decide.validator
    def check_decide(self, message: Any) -> None:
        self.check(read_decision(message))

    @workflow.signal(name=names.APPROVE, description='If no worker answers `decide`: {"reason": "why", "by": "your name"}')
    def approve(self, message: Any) -> None:
        self.take_signal(message, Verb.APPROVE)

    @workflow.signal(name=names.REJECT, description='If no worker answers `decide`: {"reason": "why", "by": "your name"}')
    def reject(self, message: Any) -> None:
        self.take_signal(message, Verb.REJECT)

    def take_signal(self, message: Any, verb: Verb) -> None:
        """A signal can't be refused to its sender, so what is wrong with it is shown."""
        try:
            decision = read_decision(message, verb)
            self.check(decision)
        except ValueError as error:
            self.remark(f"a signal {verb} had no effect: {error}")
        else:
            self.take(decision, "signal")

    def check(self, decision: Decision) -> None:
        """ValueError with a sentence when a decision can't be taken now."""
        taken, plan = self.incident.decided, self.incident.plan
        if taken:
            raise ValueError(f"decided already: {taken.decision.verdict} by {taken.decision.by}; nothing changes")
        if self.incident.stage is not Stage.AWAITING_APPROVAL or plan is None or self.cancelled:
            raise ValueError(f"nothing waits for a decision here: the incident is {self.incident.stage.replace('_', ' ')}")
        if decision.plan and decision.plan != plan.id:
            raise ValueError(f"the plan is {plan.id} now, not {decision.plan}: read the new proposal first")

    def take(self, decision: Decision, way: str) -> None:
        self.marks["decided"] = workflow.now()
        self.keep(decided=Recorded(decision=decision, way=way, at=workflow.now()))

    # Joining

    @workflow.update(name=names.REPORT_ANOMALY, description="Sent by detectors: a sighting of something wrong with this attempt")
    def report_anomaly(self, anomaly: Anomaly) -> bool:
        """True when it joined this incident; False when it is the one that opened it."""
        known = (self.ask.anomaly, *self.incident.joined)
        if any(a.id == anomaly.id for a in known):
            return anomaly.id != self.ask.anomaly.id
        news = all(a.kind is not anomaly.kind for a in known)
        self.stale = self.stale or (news and self.incident.decided is None and self.revision < REVISIONS_MAX)
        self.keep(joined=(*self.incident.joined, anomaly)[-NOTES_MAX:])
        self.remark(f"another sighting joined: {anomaly.kind} by {anomaly.detector}: {anomaly.why}")
        return True

    # Acting

    async def act(self, plan: Plan) -> Outcome:
        """Carry out an approved plan on facts that still hold."""
        attempt = self.ask.anomaly.attempt
        ask = RecheckAsk(incident=self.incident.id, key=self.key, attempt=attempt, plan=plan)
        queue = names.detect_queue(attempt.job.cluster)
        facts = await workflow.execute_activity(
            "recheck", ask, result_type=Facts, task_queue=queue, summary="do the facts still hold?", **JUDGE
        )
        if facts.void:
            return self.outcome(Result.VOIDED, f"nothing was done: {facts.void}")
        if plan.has(StepKind.STOP):
            await self.effect("stop", running=not facts.job.state.ended)
            self.marks["accepted"] = workflow.now()
            return self.outcome(Result.STOPPED, " ".join(plan.reasons))
        refusal = await self.ask_guard(plan, facts) if plan.excluded else ""
        if refusal:
            return self.outcome(Result.REFUSED, f"nothing was done: {refusal}")
        try:
            await self.restart(plan, facts)
        except ActivityError as error:
            return self.outcome(*restart_failed(error, TOO_LATE))
        return await self.verify(plan)

    async def ask_guard(self, plan: Plan, facts: Facts) -> str:
        """Why the guard refuses the isolation; empty when it is granted."""
        ask = GrantAsk(
            cluster=facts.job.cluster,
            incident=self.incident.id,
            nodes=plan.excluded,
            nodes_needed=facts.job.nodes_needed,
            nodes_eligible=len({*facts.eligible_nodes, *plan.excluded}),
            job=self.job_id,
        )
        grant = await workflow.execute_activity(
            "ask_guard", ask, result_type=Grant, task_queue=names.CONTROL_QUEUE, summary=", ".join(plan.excluded), **ASK
        )
        return "" if grant.granted else f"the guard refuses the isolation: {grant.reason}"

    async def restart(self, plan: Plan, facts: Facts) -> None:
        """Back to the queue, waiting by a begin time: were we to die now, the scheduler would start it by itself."""
        await self.effect("requeue", running=not facts.job.state.ended)
        try:
            if plan.excluded:
                await self.effect("exclude", nodes=plan.excluded)
            await self.effect("start")
        except ActivityError as error:
            self.remark(f"after the requeue: {cause_of(error)}; the scheduler starts the job by itself")
        self.marks["accepted"] = workflow.now()

    async def effect(self, name: str, *, running: bool = False, nodes: tuple[str, ...] = ()) -> Effect:
        """One effect, once nobody has paused the cluster."""
        attempt = self.ask.anomaly.attempt
        ask = EffectAsk(incident=self.incident.id, key=self.key, attempt=attempt, running=running, nodes=nodes)
        queue = names.act_queue(attempt.job.cluster)
        while True:
            try:
                summary = f"{name} {self.job_id} {', '.join(nodes)}".strip()
                effect: Effect = await workflow.execute_activity(
                    name, ask, result_type=Effect, task_queue=queue, summary=summary, **EFFECT
                )
                return effect
            except ActivityError as error:
                if type_of(error) != PAUSED:
                    raise
                await self.sit_out(cause_of(error))

    async def sit_out(self, why: str) -> None:
        """Wait for the end of a pause."""
        self.resumed = False
        self.remark(f"acting waits: {why}")
        self.move_to(Stage.PAUSED)
        guard = workflow.get_external_workflow_handle(names.guard_cluster_id(self.ask.anomaly.attempt.job.cluster))
        await guard.signal(names.AWAIT_RESUME, self.incident.id)
        try:
            await workflow.wait_condition(lambda: self.resumed, timeout=ASK_AGAIN_AFTER, timeout_summary="ask about the pause again")
        except TimeoutError:
            pass
        self.move_to(Stage.ACTING)

    @workflow.signal(name=names.RESUMED, description="Sent by the guard at the end of a pause")
    def end_of_pause(self) -> None:
        self.resumed = True

    # Verifying

    async def verify(self, plan: Plan) -> Outcome:
        """Only training past the failed step is a recovery."""
        assert self.examined
        self.move_to(Stage.VERIFYING)
        attempt = self.ask.anomaly.attempt
        ask = VerifyAsk(
            incident=self.incident.id,
            key=self.key,
            attempt=attempt,
            place=self.examined.place,
            last_step=self.examined.last_step,
            checkpoint_step=self.examined.checkpoint_step,
            banned=plan.excluded,
            give_up_s=VERIFY_FOR.total_seconds(),
        )
        watching = workflow.start_activity(
            "verify", ask, result_type=Verified, task_queue=names.detect_queue(attempt.job.cluster), summary="past the failed step?", **WATCH
        )
        await workflow.wait_condition(lambda: watching.done() or self.cancelled)
        if not watching.done():
            watching.cancel()
            return self.outcome(Result.FAILED, "it was restarted, but a person ended the watching before it was past the failed step")
        verified = watching.result()
        return self.verified(verified)

    def verified(self, verified: Verified) -> Outcome:
        for mark, at in (("running", verified.running_at), ("past", verified.past_at)):
            if at:
                self.marks[mark] = at
        result = Result.RECOVERED if verified.moving else Result.FAILED
        return self.outcome(result, verified.why).model_copy(
            update={
                "resumed_step": verified.resumed_step,
                "passed_step": verified.passed_step,
                "nodes": verified.nodes,
            }
        )

    # Closing

    async def close(self, outcome: Outcome) -> Outcome:
        """Keep, show and tell how it ended, and let the job's watcher remember it."""
        self.keep(outcome=outcome)
        self.move_to(Stage.CLOSED)
        self.tell(NoticeKind.DONE, f"job {self.job_id}: {outcome.result}", outcome.why)
        attempt = self.ask.anomaly.attempt
        ask = CloseAsk(incident=self.incident.id, key=self.key, attempt=attempt, outcome=outcome)
        await workflow.execute_activity("close", ask, task_queue=names.CONTROL_QUEUE, summary=str(outcome.result), **RECORD)
        await self.let_watcher_remember(outcome)
        await self.wait_for_telling()
        await workflow.wait_condition(workflow.all_handlers_finished)
        return outcome

    async def let_watcher_remember(self, outcome: Outcome) -> None:
        verdict, anomaly = self.incident.verdict, self.ask.anomaly
        recovery = Recovery(
            attempt=anomaly.attempt.number,
            kind=anomaly.kind,
            fault=verdict.fault if verdict else "unknown",
            cause=verdict.cause if verdict else "",
            nodes=verdict.culprit_nodes if verdict else (),
            step=outcome.failed_step,
            result=outcome.result,
            restarted="accepted" in self.marks and outcome.result is not Result.STOPPED,
            at=workflow.now(),
        )
        watcher = workflow.get_external_workflow_handle(names.watch_job_id(anomaly.attempt.job))
        try:
            await watcher.signal(names.CLOSED, recovery)
        except ApplicationError as error:
            workflow.logger.info("the job's watcher has ended: %s", error)

    async def wait_for_telling(self) -> None:
        """Notices under way get a minute; a dead channel holds up nobody's closing."""
        try:
            await workflow.wait_condition(lambda: all(t.done() for t in self.telling), timeout=timedelta(minutes=1))
        except TimeoutError:
            workflow.logger.warning("a notice could not be told in time")

    def outcome(self, result: Result, why: str) -> Outcome:
        examined = self.examined
        return Outcome(
            result=result,
            why=why,
            marks=dict(self.marks),
            failed_step=examined.last_step if examined else self.ask.anomaly.last_step,
            checkpoint_step=examined.checkpoint_step if examined else None,
        )

    # Showing

    @workflow.query(name=names.INCIDENT, description="The incident so far")
    def read_incident(self) -> Incident:
        return self.incident

    @property
    def job_id(self) -> str:
        return self.ask.anomaly.attempt.job.job_id

    def tell(self, kind: NoticeKind, title: str, text: str) -> None:
        """Tell people, without waiting for it."""
        if not self.ask.tells:
            return
        job = self.ask.anomaly.attempt.job
        notice = Notice(
            key=f"{self.key}/{kind}-{self.revision}",
            kind=kind,
            cluster=job.cluster,
            job_id=job.job_id,
            incident=self.incident.id,
            title=title,
            text=text[:500],
            at=workflow.now(),
        )
        self.telling.append(
            workflow.start_activity("tell", notice, task_queue=names.CONTROL_QUEUE, summary=str(kind), **TELL)
        )

    def remark(self, note: str) -> None:
        self.keep(notes=(*self.incident.notes, note[:300])[-NOTES_MAX:])

    def move_to(self, stage: Stage) -> None:
        """The next stage: in the page, and in the search attributes that filter the list."""
        self.keep(stage=stage)
        updates = [STAGE.value_set(stage.value)]
        verdict = self.incident.verdict
        if stage is Stage.AWAITING_APPROVAL and verdict:
            updates += [CLASS.value_set(verdict.fault.value), NODES.value_set(list(verdict.culprit_nodes))]
        workflow.upsert_search_attributes(updates)

    def keep(self, **changes: Any) -> None:
        self.incident = self.incident.model_copy(update=changes)
        workflow.set_current_details(incident_page(self.incident))
