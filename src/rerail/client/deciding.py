"""Deciding: a person's yes or no, bound to the plan that was shown, handed to the incident once."""

from rerail import names
from rerail.client.answer import Answer
from rerail.client.line import Ended, Line, NoWorker
from rerail.client.lookup import Lookup, unknown
from rerail.client.past import ending, ending_without_worker, plan_on_record
from rerail.errors import NotFound, Refused, Unreachable
from rerail.records import Decision, Stage, Verb

UNSENT = "Nothing was sent; `--signal` (fallback=True) leaves the decision with Temporal until a worker returns"
UNTAKEN = (
    "The decision is not taken yet: Temporal may still hand it over when a worker returns, but may lose it; "
    "`--signal` (fallback=True) leaves it there safely"
)


class Desk:
    """Where decisions are handed in."""

    def __init__(self, line: Line, lookup: Lookup) -> None:
        self.line = line
        self.lookup = lookup

    async def decide(self, incident: str, decision: Decision, *, fallback: bool) -> Answer:
        """Taken, or refused with a sentence. With `fallback` it is left as a signal when no worker answers."""
        sent = False
        try:
            if (decision.verdict is Verb.APPROVE and not decision.plan) or fallback:
                decision = await self.bound(decision, incident)
            sent = True
            text = await self.line.update(incident, names.DECIDE, decision, str)
        except NoWorker as silence:
            if not fallback:
                raise NoWorker(f"{silence}. {UNTAKEN if sent else UNSENT}") from None
            return await self.leave_signal(decision, incident)
        except Ended:
            raise await self.ended(incident) from None
        except NotFound as error:
            raise unknown(incident) from error
        except Refused as error:
            raise Refused(f"{error}; `rerail explain {incident}` shows how it stands") from None
        return Answer(incident=incident, verdict=decision.verdict, plan=decision.plan, way="update", text=text)

    async def bound(self, decision: Decision, incident: str) -> Decision:
        """An approval bound to the plan that is proposed now; asking for it also shows that a worker lives."""
        state = await self.lookup.ask(incident)
        if state.stage is Stage.CLOSED:
            raise Ended(ending(state))
        if decision.plan or decision.verdict is Verb.REJECT:
            return decision
        if state.plan is None:
            raise Refused(f"nothing is proposed yet: the incident is {state.stage.replace('_', ' ')}")
        return decision.model_copy(update={"plan": state.plan.id})

    async def leave_signal(self, decision: Decision, incident: str) -> Answer:
        """Left with Temporal until a worker returns. An approval is bound to the plan on record."""
        verb = decision.verdict
        if verb is Verb.APPROVE and not decision.plan:
            plan = await self.line.call(lambda: plan_on_record(self.line.client, incident))
            if plan is None:
                raise Refused(f"{incident} proposes nothing yet, and no worker answers; try again once one does")
            decision = decision.model_copy(update={"plan": plan.id})
        try:
            await self.line.signal(incident, names.APPROVE if verb is Verb.APPROVE else names.REJECT, decision)
        except Ended:
            raise await self.ended(incident) from None
        text = (
            f"no worker answers, so Temporal keeps the {verb} of {decision.by} as a signal; a worker takes it when one returns, "
            f"unless somebody else decides first: `rerail explain {incident}` shows then what came of it"
        )
        return Answer(incident=incident, verdict=verb, plan=decision.plan, way="signal", text=text)

    async def ended(self, incident: str) -> Refused:
        """The sentence for a message to a closed incident; its worker knows more than the record alone."""
        try:
            how = ending(await self.lookup.ask(incident))
        except Unreachable:
            how = await self.line.call(lambda: ending_without_worker(self.line.client, incident))
        return Refused(f"{how}; nothing was changed")
