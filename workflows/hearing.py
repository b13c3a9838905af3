"""Hearing: a person is asked. The first decision wins, whichever way it comes; what can't be taken is refused with a sentence."""

from datetime import datetime, timedelta
from typing import Any

from temporalio import workflow

from activities.asks import RecordAsk
from rerail import names
from rerail.records import Anomaly, Decision, Kind, NoticeKind, Plan, Recorded, Stage, StepKind, Verb
from rerail.requests import Refusal, only, read_decision
from workflows.chronicle import Chronicle
from workflows.profiles import RECORD
from workflows.sentence import say

CANCELLED = Decision(verdict=Verb.REJECT, reason="cancellation requested", by="whoever cancelled the workflow")


class Hearing:
    """Decisions on one incident's plan. `cancelled` and `stale` end the waiting as well as a decision does."""

    def __init__(self, chronicle: Chronicle) -> None:
        self.chronicle = chronicle
        self.cancelled = False
        self.stale = False
        """True when a newer sighting has changed the picture that the plan was made for."""
        self.moved = False
        """True when the job's next attempt has shown up, whoever brought it."""
        self.overtaken = ""
        """Why there is nothing left to decide."""
        self.reminded = False

    @property
    def decided(self) -> Recorded | None:
        return self.chronicle.incident.decided

    # Waiting

    async def hear(self, plan: Plan, deadline: datetime, remind_s: float) -> None:
        """Until decided, cancelled, expired, or overtaken by a newer sighting; a reminder before the end."""
        chronicle = self.chronicle
        since = chronicle.incident.waiting_since or workflow.now()
        chronicle.keep(waiting_since=since, expires_at=deadline)
        chronicle.move_to(Stage.AWAITING_APPROVAL)
        if not self.answered():
            chronicle.tell(NoticeKind.WAITING, f"job {chronicle.job_id} waits for your decision", " ".join(plan.reasons))
        if not await self.answered_before(since + timedelta(seconds=remind_s), "reminder"):
            self.remind(deadline)
            await self.answered_before(deadline, "approval deadline")
        if self.stale:
            chronicle.move_to(Stage.DIAGNOSING)
        elif self.cancelled and not self.decided:
            self.take(CANCELLED, "cancel")

    def remind(self, deadline: datetime) -> None:
        """Once an incident, however often its plan changes."""
        if not self.reminded:
            title = f"job {self.chronicle.job_id} still waits for your decision"
            self.chronicle.tell(NoticeKind.REMINDER, title, f"The proposal expires at {deadline:%H:%M:%S} UTC.")
        self.reminded = True

    async def answered_before(self, end: datetime, name: str) -> bool:
        left = end - workflow.now()
        if left <= timedelta(0):
            return self.answered()
        try:
            await workflow.wait_condition(self.answered, timeout=left, timeout_summary=name)
        except TimeoutError:
            return False
        return True

    def answered(self) -> bool:
        return self.decided is not None or self.cancelled or self.stale or self.moved

    # Taking

    def take_signal(self, messages: tuple[Any, ...], verb: Verb) -> None:
        """A signal can't be refused to its sender, so what is wrong with it is shown."""
        try:
            decision = read_decision(only(messages), verb)
            self.check(decision)
        except Refusal as error:
            self.chronicle.remark(f"a signal {verb} had no effect: {error}")
        else:
            self.take(decision, "signal")

    def check(self, decision: Decision) -> None:
        """Refusal with a sentence when a decision can't be taken now."""
        stage, plan = self.chronicle.incident.stage, self.chronicle.incident.plan
        if self.decided:
            taken = self.decided.decision
            raise Refusal(f"decided already: {taken.verdict} by {taken.by}; nothing changes")
        if self.stale:
            raise Refusal("a newer sighting changes the picture: read the new proposal, it comes in a moment")
        if stage is not Stage.AWAITING_APPROVAL or plan is None or self.cancelled:
            raise Refusal(f"nothing waits for a decision here: the incident is {stage.replace('_', ' ')}")
        if decision.plan and decision.plan != plan.id:
            raise Refusal(f"the plan is {plan.id} now, not {decision.plan}: read the new proposal first")
        if decision.drain and not plan.has(StepKind.DRAIN):
            raise Refusal("the plan has no drain to be approved: leave drain out")

    def take(self, decision: Decision, way: str) -> None:
        self.chronicle.mark("decided")
        self.chronicle.keep(decided=Recorded(decision=decision, way=way, at=workflow.now()))

    def take_policy(self, plan: Plan) -> None:
        """In autonomous mode the policy's word counts, unless a person has cancelled."""
        reason = f"rule {plan.rule}, in autonomous mode"
        policy = Decision(verdict=Verb.APPROVE, reason=reason, by="policy", plan=plan.id)
        self.take(*((CANCELLED, "cancel") if self.cancelled else (policy, "policy")))

    async def record(self) -> None:
        """Keep the decision, with the identity that Temporal recorded for it."""
        chronicle = self.chronicle
        if self.decided is None:
            return
        ask = RecordAsk(
            run=chronicle.run,
            attempt=chronicle.named,
            recorded=self.decided,
            plan=chronicle.plan.id,
        )
        summary = self.decided.decision.verdict
        recorded = await say("record_decision", ask, Recorded, queue=names.CONTROL_QUEUE, summary=summary, profile=RECORD)
        chronicle.keep(decided=recorded)

    # Joining

    def join(self, anomaly: Anomaly) -> bool:
        """Take in another sighting. True when it joined; False when it is the very one that opened the incident."""
        incident = self.chronicle.incident
        known = (incident.anomaly, *incident.joined)
        if any(a.id == anomaly.id for a in known):
            return anomaly.id != incident.anomaly.id
        if self.decided is None and anomaly.kind not in {Kind.NONE, *(a.kind for a in known)}:
            self.stale = True
        self.chronicle.keep(joined=(*incident.joined, anomaly))
        self.chronicle.remark(f"another sighting joined: {anomaly.kind} by {anomaly.detector}: {anomaly.why}")
        return True
