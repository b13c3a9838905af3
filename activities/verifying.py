"""Proof that a recovery is one: running on allowed nodes, and training past the step at which it died."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from temporalio import activity

from activities.asks import Place, Verified, VerifyAsk
from activities.evidence import Sources
from activities.judging import permanent_is_final
from activities.pulse import pulse
from activities.tail import Tails
from activities.view import ClusterView
from policies import waiting
from rerail.errors import Transient
from rerail.readers import progress
from rerail.records import Job, JobState, Record

QUEUE_PATIENCE_S = 24 * 3600.0
"""How long a restarted job may wait in the queue: a day, as a full cluster is no failure of the recovery."""


FORGOTTEN_AFTER_S = 120.0
"""How long a job may be shown as it failed, although it was restarted: then its scheduler has forgotten the restart."""

WAIT_TOLD_AFTER = timedelta(seconds=10)
"""How long a job waits for the same reason before anybody is told: reasons come and go while the scheduler makes up its mind."""


class Proof(Record):
    """What was seen so far; rides in the heartbeats."""

    places: dict[str, Place] = {}
    running_at: datetime | None = None
    nodes: tuple[str, ...] = ()
    resumed_step: int | None = None
    highest_step: int | None = None


@dataclass(frozen=True)
class Verifying:
    """Watches a restarted job until it is past the failed step, or has failed again."""

    views: Mapping[str, ClusterView]
    sources: Mapping[str, Sources]
    steps: Mapping[str, str] = field(default_factory=dict)
    """A site's own patterns of progress lines, by cluster."""

    @activity.defn
    async def verify(self, ask: VerifyAsk) -> Verified:
        """Follow the new attempt; a durable place and heartbeats make it safe to be killed anywhere."""
        cluster = ask.attempt.job.cluster
        details = activity.info().heartbeat_details
        proof = Proof.model_validate(details[0]) if details else Proof(places=ask.places)
        verifier = Verifier(ask, self.views[cluster], Tails(self.sources[cluster].logs, proof.places), proof)
        verifier.steps = self.steps.get(cluster, "")
        with permanent_is_final():
            async with pulse(lambda: verifier.proof):
                while (verified := await verifier.look()) is None:
                    await verifier.view.pause(verifier.view.interval_s / 2)
        return verified


@dataclass
class Verifier:
    """One recovery being verified."""

    ask: VerifyAsk
    view: ClusterView
    tails: Tails
    proof: Proof
    steps: str = ""
    began: datetime = field(default_factory=lambda: datetime.now(UTC))
    reason: str = ""
    """Why it waits, as last read."""
    reason_since: datetime = field(default_factory=lambda: datetime.now(UTC))

    async def look(self) -> Verified | None:
        """The answer, once there is one."""
        try:
            job = await self.view.job(self.ask.attempt.job.job_id)
            if job is None:
                return self.answer(False, "the scheduler no longer knows the job")
            if job.restarts <= self.ask.attempt.restarts:
                return self.over_time("the scheduler does not show the restart", forgotten=job.state.ended)
            if job.restarts > self.ask.attempt.restarts + 1:
                return self.answer(False, f"it was restarted once more (restart count {job.restarts})")
            await self.read(job)
        except Transient:  # unreadable is unknown: neither moving nor failed
            return None
        return self.judge(job)

    async def read(self, job: Job) -> None:
        """What the new attempt's log has gained. What is written while it waits is the end of the attempt that failed."""
        if job.state is JobState.PENDING:
            await self.tails.skip_to_end(job)
        else:
            if self.proof.running_at is None:
                self.note(running_at=job.started_at or datetime.now(UTC), nodes=job.nodes)
            async for lines in self.tails.gained(job):
                self.take(progress.summary(lines, self.steps))
        self.note(places=dict(self.tails.places))

    def take(self, story: progress.Story) -> None:
        if story.resumed_step is not None:
            self.note(resumed_step=story.resumed_step)
        if story.highest_step is not None:
            self.note(highest_step=max(story.highest_step, self.proof.highest_step or 0))

    def note(self, **seen: object) -> None:
        self.proof = self.proof.model_copy(update=seen)

    def waits(self, job: Job) -> Verified | None:
        """What keeps it in the queue, once that has been so for a while and was not told yet."""
        reason = waiting.told(job)
        if reason != self.reason:
            self.reason, self.reason_since = reason, datetime.now(UTC)
        stays = datetime.now(UTC) - self.reason_since >= WAIT_TOLD_AFTER
        if not reason or reason == self.ask.told or not stays:
            return None
        return self.answer(False, reason).model_copy(
            update={"waits": True, "unfit": waiting.unfit(job), "places": self.proof.places}
        )

    def judge(self, job: Job) -> Verified | None:
        banned = sorted(set(self.proof.nodes) & set(self.ask.banned))
        if banned:
            return self.answer(False, f"it runs on {', '.join(banned)}, which it was to be kept away from")
        if self.is_past():
            return self.answer(True, self.story())
        if job.state is JobState.PENDING and (waits := self.waits(job)):
            return waits
        if job.state is JobState.COMPLETED:
            return self.answer(True, "the job has completed")
        if job.state.ended and not job.completing:
            return self.answer(False, f"it {job.state} again before it was past the failed step")
        return self.over_time(f"it is {job.state} and was not seen past the failed step")

    def is_past(self) -> bool:
        step, failed = self.proof.highest_step, self.ask.last_step
        return step is not None and (failed is None or step > failed)

    def story(self) -> str:
        past = f"training is at step {self.proof.highest_step}, past the failed step {self.ask.last_step}"
        if self.proof.resumed_step is None:
            return past
        return f"resumed at step {self.proof.resumed_step}{self.beside_the_checkpoint()}; {past}"

    def beside_the_checkpoint(self) -> str:
        if self.ask.checkpoint_step is None:
            return ""
        if self.proof.resumed_step == self.ask.checkpoint_step:
            return ", as saved in the checkpoint"
        return f" (the last checkpoint seen was of step {self.ask.checkpoint_step})"

    def over_time(self, why: str, *, forgotten: bool = False) -> Verified | None:
        patience = QUEUE_PATIENCE_S if self.proof.running_at is None else self.ask.give_up_s
        patience = FORGOTTEN_AFTER_S if forgotten else patience
        waited = (datetime.now(UTC) - (self.proof.running_at or self.began)).total_seconds()
        return self.answer(False, f"{why} within {patience:.0f} s") if waited > patience else None

    def answer(self, moving: bool, why: str) -> Verified:
        return Verified(
            moving=moving,
            why=why,
            nodes=self.proof.nodes,
            running_at=self.proof.running_at,
            past_at=datetime.now(UTC) if moving else None,
            resumed_step=self.proof.resumed_step,
            passed_step=self.proof.highest_step if moving else None,
        )
