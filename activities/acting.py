"""The few sentences that change something: each looks, acts only on the attempt that failed, and reads back.

An effect is exactly-once in effect: what an earlier try did is found by looking, and an unknown outcome is a reason to look.
"""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError

from activities.asks import AnnotateAsk, Annotated, Effect, EffectAsk
from activities.effects import EXCLUDE, REQUEUE, START, STOP, TAKE_BACK, EffectKind
from activities.judging import permanent_is_final
from activities.pulse import pulse
from activities.rows import row
from policies.comment import with_word
from rerail import names
from rerail.errors import OutcomeUnknown, Permanent, Refused, Transient
from rerail.ports import Audit, Scheduler
from rerail.records import GuardState, Job, JobState, RowKind

LOOK_EVERY_S = 0.1

COMMENT_TRIES = 4
"""Three writes at the most, and a look at the last one: whoever changes a comment faster than that shall keep it."""

PAUSED = "Paused"
TOO_LATE = "TooLate"
FORGOTTEN = "Forgotten"


@dataclass(frozen=True)
class Acting:
    """Activities of the act role: the only ones that change a cluster. None acts while the cluster's guard says pause."""

    schedulers: Mapping[str, Scheduler]
    audit: Audit
    client: Client

    @activity.defn
    async def requeue(self, ask: EffectAsk) -> Effect:
        """Send the failed attempt back to the queue, at most once."""
        return await self.effect(REQUEUE, ask)

    @activity.defn
    async def exclude(self, ask: EffectAsk) -> Effect:
        """Keep the job away from nodes: the union of its owner's list and ours, without those that were readmitted meanwhile."""
        returned = await self.returned(ask) if ask.ours else ()
        if not ask.nodes and not returned:
            return Effect(state=JobState.UNKNOWN, found_done=True, at=datetime.now(UTC))
        return await self.effect(EXCLUDE, ask.model_copy(update={"ours": returned}))

    async def returned(self, ask: EffectAsk) -> tuple[str, ...]:
        """Of the nodes that we kept this job away from, those that the guard's ledger no longer holds."""
        job = ask.attempt.job
        guard = self.client.get_workflow_handle(names.guard_cluster_id(job.cluster))
        state = await guard.query(names.GUARD_STATE, result_type=GuardState)
        kept = {one.node for one in state.isolations if one.job == job.job_id}
        return tuple(node for node in ask.ours if node not in kept)

    @activity.defn
    async def take_back(self, ask: EffectAsk) -> Effect:
        """Let the job have nodes again that we had kept it away from; its owner's own list stays."""
        return await self.effect(TAKE_BACK, ask)

    @activity.defn
    async def start(self, ask: EffectAsk) -> Effect:
        """Take away the begin time, once nothing of the failed attempt is left to clean up."""
        return await self.effect(START, ask)

    @activity.defn
    async def stop(self, ask: EffectAsk) -> Effect:
        """End the job for good; a job that has ended already stays ended."""
        return await self.effect(STOP, ask)

    @activity.defn
    async def annotate(self, ask: AnnotateAsk) -> Annotated:
        """Write our line into the job's comment, beside what stands there. What can't be written is told, not raised."""
        async with pulse():
            await refuse_while_paused(self.client, ask.attempt.job.cluster)
            return await asyncio.to_thread(self.write_comment, ask)

    def write_comment(self, ask: AnnotateAsk) -> Annotated:
        """Read, write only over what was read, read back; again when somebody was faster."""
        scheduler = self.schedulers[ask.attempt.job.cluster]
        why = "its owner keeps changing it"
        for _ in range(COMMENT_TRIES):
            try:
                job = scheduler.job(ask.attempt.job.job_id)
                wanted = with_word(job.comment, ask.word)
                if job.restarts < ask.attempt.restarts or job.state.ended:
                    return Annotated(why_not=f"the job is {job.state}: the scheduler takes no comment on it any more")
                if wanted is None:
                    return Annotated(why_not="there is no room left in it")
                if wanted == job.comment:
                    text = f"comment of job {job.job_id}: {ask.word}"
                    self.audit.append(row(ask.run, ask.step, RowKind.ACTION, ask.attempt, text))
                    return Annotated()
                scheduler.annotate(job.job_id, wanted, instead_of=job.comment)
            except OutcomeUnknown:  # the next look tells
                continue
            except Permanent as error:
                why = str(error)
        return Annotated(why_not=why)

    async def effect(self, kind: EffectKind, ask: EffectAsk) -> Effect:
        """Bring it about, then keep action and read-back in the audit trail, each once."""
        with permanent_is_final():
            async with pulse():
                job, acted = await self.bring_about(kind, ask)
                await asyncio.to_thread(self.keep_both, kind, ask, job, acted)
        return Effect(state=job.state, found_done=not acted, at=datetime.now(UTC))

    async def bring_about(self, kind: EffectKind, ask: EffectAsk) -> tuple[Job, bool]:
        """Look until the effect shows, acting once at the most: the job as read, and whether we acted in this try."""
        acted, until = False, time.monotonic() + kind.patience_s
        while True:
            job = await self.look(ask)
            if kind.done(ask, job):
                return job, acted
            if not acted and kind.ready(ask, job):
                await self.act(kind, ask, job)
                acted = True
            elif time.monotonic() > until and kind.after_requeue and job.restarts == ask.attempt.restarts:
                raise ApplicationError(
                    f"the scheduler has forgotten the requeue of job {job.job_id}", type=FORGOTTEN, non_retryable=True
                )
            elif time.monotonic() > until:
                raise Transient(f"{kind.name} does not show in a fresh read yet: the job is {job.state} {' '.join(job.flags)}")
            else:
                await asyncio.sleep(LOOK_EVERY_S)

    async def look(self, ask: EffectAsk) -> Job:
        return await asyncio.to_thread(self.schedulers[ask.attempt.job.cluster].job, ask.attempt.job.job_id)

    async def act(self, kind: EffectKind, ask: EffectAsk, job: Job) -> None:
        """One command, unless it is too late for it or the cluster is paused."""
        late = kind.too_late(ask, job)
        if late:
            raise ApplicationError(late, type=TOO_LATE, non_retryable=True)
        await refuse_while_paused(self.client, ask.attempt.job.cluster)
        try:
            await asyncio.to_thread(kind.act, ask, job, self.schedulers[ask.attempt.job.cluster])
        except OutcomeUnknown:
            activity.logger.warning("the outcome of %s on job %s is unknown: looking", kind.name, job.job_id)
        except Refused:
            # Somebody may have been faster than our command; then the effect shows, and the refusal meant just that.
            if not kind.done(ask, await self.look(ask)):
                raise

    def keep_both(self, kind: EffectKind, ask: EffectAsk, job: Job, acted: bool) -> None:
        self.keep(ask, kind.name, RowKind.ACTION, sentence(kind, ask), {"nodes": list(ask.nodes), "found_done": not acted})
        seen = {"state": job.state, "restarts": job.restarts, "excluded_nodes": list(job.excluded_nodes)}
        self.keep(ask, f"{kind.name}-read-back", RowKind.READ_BACK, f"after {kind.name} the job is {job.state}", seen)

    def keep(self, ask: EffectAsk, step: str, kind: RowKind, text: str, body: dict[str, Any]) -> None:
        self.audit.append(row(ask.run, step, kind, ask.attempt, text, body=body))


async def refuse_while_paused(client: Client, cluster: str) -> None:
    """ApplicationError of the type PAUSED while somebody has paused the cluster."""
    guard = client.get_workflow_handle(names.guard_cluster_id(cluster))
    state = await guard.query(names.GUARD_STATE, result_type=GuardState)
    if state.paused:
        raise ApplicationError(f"paused by {state.paused_by}: {state.paused_why}", type=PAUSED, non_retryable=True)


def sentence(kind: EffectKind, ask: EffectAsk) -> str:
    """The audit row's sentence."""
    nodes = f": {', '.join(ask.nodes)}" if ask.nodes else ""
    again = f"; readmitted: {', '.join(ask.ours)}" if ask.ours else ""
    return f"{kind.name} of job {ask.attempt.job.job_id}{nodes}{again}"
