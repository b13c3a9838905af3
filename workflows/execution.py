"""Execution: an approved plan is carried out on facts that still hold, and only training past the failed step is a recovery."""

import contextlib
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ActivityError

from activities.acting import FORGOTTEN, PAUSED, TOO_LATE
from activities.asks import Effect, EffectAsk, Examined, RecheckAsk, Rechecked, Verified, VerifyAsk
from rerail import names
from rerail.records import Anomaly, Grant, GrantAsk, NoticeKind, Outcome, Plan, Result, Stage, Step, StepKind
from workflows.chronicle import Chronicle
from workflows.endings import called_off, cause_of, restart_failed, type_of
from workflows.isolating import Isolating
from workflows.profiles import ASK, EFFECT, JUDGE, WATCH
from workflows.sentence import begin, say

VERIFY_FOR = timedelta(minutes=30)
"""How long a restarted job may run without being seen past the failed step: loading and compiling take 20 min at scale."""

REQUEUES_MAX = 3
"""How often a requeue is sent to a scheduler whose controller forgets it: each time its fail-over would have to lose it again."""

ASK_AGAIN_AFTER = timedelta(minutes=10)
"""A pause is asked about again after this, in case the guard's word was lost."""


class Execution:
    """Carries out one plan."""

    def __init__(self, chronicle: Chronicle, cancelled: Callable[[], bool], earlier: tuple[str, ...] = ()) -> None:
        self.chronicle = chronicle
        self.cancelled = cancelled
        self.detect_queue = names.detect_queue(chronicle.cluster)
        self.act_queue = names.act_queue(chronicle.cluster)
        self.resumed = False
        self.earlier = earlier
        """The nodes that earlier incidents kept the job away from, oldest first."""
        self.excluded: tuple[str, ...] = ()
        """What the job was kept away from."""

    async def recheck(self, plan: Plan) -> Rechecked:
        """Read the facts again, right before acting."""
        chronicle = self.chronicle
        ask = RecheckAsk(run=chronicle.run, attempt=chronicle.attempt, plan=bare(plan), anomaly=brief(chronicle.incident.anomaly))
        try:
            summary = "do the facts still hold?"
            return await say("recheck", ask, Rechecked, queue=self.detect_queue, summary=summary, profile=JUDGE)
        except ActivityError as error:
            return Rechecked(void=cause_of(error))

    async def carry_out(self, plan: Plan, facts: Rechecked) -> Outcome | None:
        """The outcome, or None when the job was restarted and has to be verified. After a pause the facts are read again."""
        while not self.cancelled():
            try:
                return await self.do_first(plan, facts)
            except ActivityError as error:
                if type_of(error) != PAUSED:
                    return self.chronicle.outcome(*restart_failed(error, TOO_LATE))
                await self.sit_out(cause_of(error), lambda: self.resumed or self.cancelled())
                facts = await self.recheck(plan)
        return self.chronicle.outcome(*called_off(self.chronicle.incident.decided))

    async def do_first(self, plan: Plan, facts: Rechecked) -> Outcome | None:
        """Up to the plan's first effect everything may still be called off; what follows it is seen through."""
        outcome = self.chronicle.outcome
        if facts.void:
            return outcome(Result.VOIDED, f"nothing was done: {facts.void}")
        if plan.has(StepKind.STOP):
            await self.effect("stop")
            self.chronicle.mark("accepted")
            return outcome(Result.STOPPED, "; ".join(plan.reasons))
        refusal = await self.ask_guard(plan, facts) if plan.excluded else ""
        if refusal:
            return outcome(Result.REFUSED, f"nothing was done: {refusal}")
        if plan.has(StepKind.RESTART):
            await self.effect("requeue", lifts=plan.lifts)
            self.chronicle.mark("accepted")
        await self.see_through(plan)
        self.excluded = tuple(node for node in self.excluded if node not in facts.listed)
        await Isolating(self.chronicle).finish(plan, self.excluded)
        return None

    async def ask_guard(self, plan: Plan, facts: Rechecked) -> str:
        """Why the guard refuses the isolation; empty when it is granted."""
        ask = GrantAsk(
            cluster=self.chronicle.cluster,
            incident=self.chronicle.incident.id,
            nodes=plan.excluded,
            nodes_needed=facts.nodes_needed,
            nodes_eligible=facts.nodes_eligible,
            job=self.chronicle.job_id,
            run=self.chronicle.run,
        )
        summary = ", ".join(plan.excluded)
        grant = await say("ask_guard", ask, Grant, queue=names.CONTROL_QUEUE, summary=summary, profile=ASK)
        return "" if grant.granted else f"the guard refuses the isolation: {grant.reason}"

    async def see_through(self, plan: Plan) -> None:
        """The job waits by a begin time: were we to die now, or be paused for long, the scheduler would start it by itself."""
        for again in range(REQUEUES_MAX):
            try:
                await self.follow_up(plan, again=again > 0)
            except ActivityError as error:
                if type_of(error) == FORGOTTEN:
                    self.chronicle.remark(f"{cause_of(error)}: its controller came back with an older state")
                    continue
                self.chronicle.remark(f"after the requeue: {cause_of(error)}; the scheduler starts the job by itself")
            return

    async def follow_up(self, plan: Plan, *, again: bool) -> None:
        """What belongs to the attempt that waits."""
        if again and plan.has(StepKind.RESTART):
            await self.unpaused("requeue", lifts=plan.lifts)
        if plan.excluded or self.earlier:
            await self.unpaused("exclude", nodes=plan.excluded, ours=self.earlier)
            self.excluded = plan.excluded
        if plan.has(StepKind.RESTART):  # what the scheduler requeued by itself starts when the scheduler wants it to
            await self.unpaused("start")

    async def effect(self, name: str, **more: Any) -> Effect:
        """One effect; ActivityError of the type PAUSED while somebody has paused the cluster."""
        chronicle = self.chronicle
        ask = EffectAsk(run=chronicle.run, attempt=chronicle.attempt, **more)
        summary = f"{name} {chronicle.job_id} {', '.join(ask.nodes)}".strip()
        return await say(name, ask, Effect, queue=self.act_queue, summary=summary, profile=EFFECT)

    async def unpaused(self, name: str, **more: Any) -> Effect:
        """One effect, once nobody pauses the cluster any more."""
        while True:
            try:
                return await self.effect(name, **more)
            except ActivityError as error:
                if type_of(error) != PAUSED:
                    raise
                await self.sit_out(cause_of(error), lambda: self.resumed)

    async def sit_out(self, why: str, over: Callable[[], bool]) -> None:
        """Wait for the end of a pause."""
        self.resumed = False
        self.chronicle.remark(f"acting waits: {why}")
        self.chronicle.move_to(Stage.PAUSED)
        guard = workflow.get_external_workflow_handle(names.guard_cluster_id(self.chronicle.cluster))
        await guard.signal(names.AWAIT_RESUME, self.chronicle.incident.id)
        with contextlib.suppress(TimeoutError):
            again = "ask about the pause again"
            await workflow.wait_condition(over, timeout=ASK_AGAIN_AFTER, timeout_summary=again)
        self.chronicle.move_to(Stage.ACTING)

    async def verify(self, plan: Plan, examined: Examined) -> Outcome:
        """Watch until training is past the failed step, or a person ends the watching."""
        chronicle, ours = self.chronicle, tuple(dict.fromkeys([*self.earlier, *self.excluded]))
        chronicle.move_to(Stage.VERIFYING)
        ask = VerifyAsk(
            run=chronicle.run,
            attempt=chronicle.attempt,
            places=examined.places,
            last_step=examined.last_step,
            checkpoint_step=examined.checkpoint_step,
            banned=plan.excluded,
            give_up_s=VERIFY_FOR.total_seconds(),
        )
        while (verified := await self.watch(ask)) and verified.waits:
            self.tell_that_it_waits(verified)
            taken = ours[:1] if verified.unfit else ()
            ours = ours[1:] if taken else ours
            banned = tuple(n for n in ask.banned if n not in taken)
            told = "" if taken else verified.why  # with a node given back it may still be unfit: look anew
            ask = ask.model_copy(update={"told": told, "places": verified.places, "banned": banned})
            await self.take_back(taken)
        if verified is None:
            return chronicle.outcome(
                Result.FAILED, "it was restarted, but a person ended the watching before it was proved to train"
            )
        return self.verified(verified)

    async def watch(self, ask: VerifyAsk) -> Verified | None:
        """What was seen; None when a person ended the watching."""
        watching = begin("verify", ask, Verified, queue=self.detect_queue, summary="past the failed step?", profile=WATCH)
        await workflow.wait_condition(lambda: watching.done() or self.cancelled())
        if watching.done():
            return watching.result()
        watching.cancel()
        return None

    def tell_that_it_waits(self, verified: Verified) -> None:
        self.chronicle.remark(f"restarted, and {verified.why}")
        self.chronicle.tell(NoticeKind.WAITING, f"job {self.chronicle.job_id} was restarted and does not start", verified.why)

    async def take_back(self, nodes: tuple[str, ...]) -> None:
        """The oldest exclusion of ours is the weakest: it goes first, so that the job can start at all."""
        if not nodes:
            return
        said = f"{', '.join(nodes)}: taken off the job's exclusion list, as it could not start without; please look at it"
        try:
            await self.unpaused("take_back", nodes=nodes)
        except ActivityError as error:
            said = f"{', '.join(nodes)} could not be taken off the job's exclusion list: {cause_of(error)}"
        self.chronicle.remark(said)
        self.chronicle.tell(NoticeKind.WAITING, f"job {self.chronicle.job_id}: an exclusion was taken back", said)

    def verified(self, verified: Verified) -> Outcome:
        for mark, at in (("running", verified.running_at), ("past", verified.past_at)):
            if at:
                self.chronicle.mark(mark, at)
        return self.chronicle.outcome(
            Result.RECOVERED if verified.moving else Result.FAILED,
            verified.why,
            resumed_step=verified.resumed_step,
            passed_step=verified.passed_step,
            nodes=verified.nodes,
        )


def bare(plan: Plan) -> Plan:
    """What is to be done, without the words for people."""
    steps = tuple(Step(kind=step.kind, nodes=step.nodes) for step in plan.steps)
    return plan.model_copy(update={"reasons": (), "again": "", "steps": steps})


def brief(anomaly: Anomaly) -> Anomaly:
    """Without what was examined already: histories are kept for long, in a database."""
    done = {"why", "symptom_at", "ranks", "begins"}
    return Anomaly.model_validate(anomaly.model_dump(exclude=done, exclude_unset=True))
