"""Isolating: what a restart leaves behind on nodes. The drain that was approved by itself, and word of all of it to the guard."""

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

from activities.asks import DrainAsk, Drained
from rerail import names
from rerail.records import Isolated, Node, Plan, StepKind
from workflows.chronicle import Chronicle
from workflows.endings import cause_of
from workflows.profiles import EFFECT
from workflows.sentence import say


class Isolating:
    """Comes last: nobody's restart waits for it, and its failure is a note."""

    def __init__(self, chronicle: Chronicle) -> None:
        self.chronicle = chronicle

    async def finish(self, plan: Plan, excluded: tuple[str, ...]) -> None:
        """Tell the guard what was excluded, then drain where that was approved, and tell it that, too."""
        if excluded:
            await self.tell_guard(excluded)
        drained = await self.drain(plan)
        if drained:
            await self.tell_guard(excluded, drained)

    async def drain(self, plan: Plan) -> tuple[Node, ...]:
        """The nodes as our drain left them; none without an approval that names the drain."""
        nodes = tuple(node for step in plan.steps if step.kind is StepKind.DRAIN for node in step.nodes)
        decided = self.chronicle.incident.decided
        if not nodes:
            return ()
        if decided is None or not decided.decision.drain:
            self.chronicle.remark(f"{', '.join(nodes)} is not drained: the decision did not say so")
            return ()
        verdict = self.chronicle.incident.verdict
        cause = verdict.cause if verdict else ""
        incident = self.chronicle.incident.id
        ask = DrainAsk(run=self.chronicle.run, attempt=self.chronicle.attempt, incident=incident, nodes=nodes, cause=cause)
        summary = f"drain {', '.join(nodes)}"
        try:
            queue = names.act_queue(self.chronicle.cluster)
            done = await say("drain", ask, Drained, queue=queue, summary=summary, profile=EFFECT)
        except ActivityError as error:
            self.chronicle.remark(f"{', '.join(nodes)} is not drained: {cause_of(error)}")
            return ()
        for sentence in done.left:
            self.chronicle.remark(sentence)
        return done.nodes

    async def tell_guard(self, excluded: tuple[str, ...], drained: tuple[Node, ...] = ()) -> None:
        """So that a readmission takes back what we did, and no more."""
        chronicle = self.chronicle
        done = Isolated(
            incident=chronicle.incident.id,
            run=chronicle.run,
            job=chronicle.job_id,
            restarts=chronicle.attempt.restarts + 1,
            excluded=excluded,
            drained=drained,
        )
        guard = workflow.get_external_workflow_handle(names.guard_cluster_id(chronicle.cluster))
        try:
            await guard.signal(names.ISOLATED, done)
        except ApplicationError as error:
            chronicle.remark(f"the guard could not be told what was isolated: {error}")
