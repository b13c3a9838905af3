"""Nodes taken away from everybody, and given back: look first, act at most once, read back, leave others' drains alone."""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from temporalio import activity
from temporalio.client import Client

from activities.acting import LOOK_EVERY_S, refuse_while_paused
from activities.asks import DrainAsk, Drained, ReadmitAsk, Readmitted
from activities.judging import permanent_is_final
from activities.pulse import pulse
from activities.rows import row
from rerail import drains
from rerail.errors import NoSuchJob, OutcomeUnknown, Permanent, Refused, Transient
from rerail.ports import Audit, Scheduler
from rerail.records import AuditRow, Isolation, Job, JobState, Node, NodeState, RowKind

SHOWS_WITHIN_S = 10.0
"""How long a fresh read may take to show an effect on a node, before it is tried again (and looked at first)."""


@dataclass(frozen=True)
class Nodes:
    """Activities of the act role that change nodes for everybody."""

    schedulers: Mapping[str, Scheduler]
    audit: Audit
    client: Client

    # Draining

    @activity.defn
    async def drain(self, ask: DrainAsk) -> Drained:
        """Drain each node, unless somebody else's reason stands there. What can't be drained is told, not raised."""
        done, left = list[Node](), list[str]()
        async with pulse():
            for name in ask.nodes:
                await refuse_while_paused(self.client, ask.attempt.job.cluster)
                try:
                    done.append(await asyncio.to_thread(self.drain_one, ask, name))
                except Permanent as error:
                    left.append(f"{name} is not drained: {error}")
        return Drained(nodes=tuple(done), left=tuple(left))

    def drain_one(self, ask: DrainAsk, name: str) -> Node:
        """The node as our drain left it."""
        scheduler = self.schedulers[ask.attempt.job.cluster]
        reason = drains.reason_of(ask.incident, ask.cause)

        def is_ours(node: Node) -> bool:
            return node.state is NodeState.DRAINED and node.reason == reason

        def take(node: Node) -> None:
            if node.state is NodeState.DRAINED:
                raise Refused(f"it is drained already, by {drains.by(node)}: {node.reason}")
            scheduler.drain(name, reason)

        node, acted = self.bring_about(scheduler, name, is_ours, take)
        self.keep(ask, f"drain-{name}", RowKind.ACTION, f"drain of {name}: {reason}", {"found_done": not acted})
        self.keep(ask, f"drain-{name}-read-back", RowKind.READ_BACK, f"after drain {name} is {node.state}", dumped(node))
        return node

    def bring_about(
        self, scheduler: Scheduler, name: str, done: Callable[[Node], bool], act: Callable[[Node], None]
    ) -> tuple[Node, bool]:
        """Look until it shows, acting once at the most: the node as read, and whether we acted in this try."""
        acted, until = False, time.monotonic() + SHOWS_WITHIN_S
        while True:
            node = scheduler.node(name)
            if done(node):
                return node, acted
            if not acted:
                acted = True
                try:
                    act(node)
                except OutcomeUnknown:
                    activity.logger.warning("the outcome of a change of node %s is unknown: looking", name)
            elif time.monotonic() > until:
                raise Transient(f"{name} does not show the change in a fresh read yet: it is {node.state}")
            else:
                time.sleep(LOOK_EVERY_S)

    def keep(self, ask: DrainAsk, step: str, kind: RowKind, text: str, body: dict[str, Any]) -> None:
        self.audit.append(row(ask.run, step, kind, ask.attempt, text, body=body))

    # Giving back

    @activity.defn
    async def readmit(self, ask: ReadmitAsk) -> Readmitted:
        """End our drain of the node, where it is still ours, and take it off the lists of the jobs that wait."""
        with permanent_is_final():
            async with pulse():
                return await asyncio.to_thread(self.give_back, ask)

    def give_back(self, ask: ReadmitAsk) -> Readmitted:
        scheduler = self.schedulers[ask.cluster]
        drained = next((one.drained for one in ask.isolations if one.drained), None)
        said = [self.resume_one(ask, scheduler, drained)] if drained else []
        for one in ask.isolations:
            if one.excluded:
                said.append(self.allow_again(ask, scheduler, one))
        return Readmitted(said=tuple(s for s in said if s))

    def resume_one(self, ask: ReadmitAsk, scheduler: Scheduler, drained: Node) -> str:
        """What became of the drain. A person's own drain or resume has ended our claim; a busy node is left alone."""
        node = scheduler.node(ask.node)
        foreign = drains.touched(node, drained)
        if foreign:
            return f"{foreign}; rerail leaves that as it is"
        if node.busy:
            raise Refused(f"{ask.node} is drained and still runs somebody's job: ask again once it is free")
        _, acted = self.bring_about(
            scheduler, ask.node, lambda n: n.state is not NodeState.DRAINED, lambda _: scheduler.resume(ask.node, drained=drained)
        )
        text = f"resume of {ask.node}, drained by rerail for {drained.reason.removeprefix(drains.PREFIX)}"
        self.note(ask, "resume", RowKind.ACTION, text, {"found_done": not acted})
        return f"{ask.node} takes jobs again"

    def allow_again(self, ask: ReadmitAsk, scheduler: Scheduler, one: Isolation) -> str:
        """Take the node off the list of the job that it was isolated for; whatever else stands there is its owner's."""
        try:
            job = scheduler.job(one.job)
        except NoSuchJob:
            return ""
        if ask.node not in job.excluded_nodes or job.restarts < one.restarts or job.state.ended:
            return ""
        if job.state is not JobState.PENDING:
            return f"job {one.job} is {job.state}: its list keeps {ask.node} as long as it is"
        scheduler.exclude(one.job, sorted({*job.excluded_nodes} - {ask.node}))
        self.allowed(scheduler.job(one.job), ask.node)
        self.note(ask, f"allow-{one.job}", RowKind.ACTION, f"job {one.job} may use {ask.node} again", {})
        return f"job {one.job} may use it again"

    @staticmethod
    def allowed(job: Job, node: str) -> None:
        if job.state is JobState.PENDING and node in job.excluded_nodes:
            raise Transient(f"the list of job {job.job_id} does not show the change in a fresh read yet")

    def note(self, ask: ReadmitAsk, step: str, kind: RowKind, text: str, body: dict[str, Any]) -> None:
        key = f"{ask.key}/{step}"
        made = AuditRow(key=key, at=datetime.now(UTC), kind=kind, cluster=ask.cluster, actor=ask.by, text=text, body=body)
        self.audit.append(made)


def dumped(node: Node) -> dict[str, Any]:
    return node.model_dump(mode="json")
