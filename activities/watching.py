"""Looking at a cluster without touching it: which jobs there are, and how each of them fares."""

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.asks import FindAsk, FollowAsk, Followed, Seen, Survey, SurveyAsk
from activities.pulse import pulse
from activities.requeued import who_requeued
from activities.scope import Scope
from activities.tail import Tails
from activities.view import ClusterView
from policies.wishes import wishes
from rerail import detectors, hostlist
from rerail.detectors import Symptom
from rerail.detectors.exited import node_failed
from rerail.errors import Permanent, RerailError
from rerail.identity import advance, is_another, sight
from rerail.ports import Logs
from rerail.records import Attempt, Job, JobState, Reading, Requeuer

BLIND_AFTER = timedelta(seconds=15)
"""Unreadable for this long is announced: longer than a controller's fail-over, far shorter than a hang's threshold."""

SURVEY_FOR = timedelta(minutes=10)
"""A survey comes back at the latest after this, so that its workflow shows a fresh reading."""


@dataclass(frozen=True)
class Watching:
    """Activities of the detect role for the clusters that it can see."""

    views: Mapping[str, ClusterView]
    logs: Mapping[str, Logs]
    scopes: Mapping[str, Scope]
    hang_floor_s: Mapping[str, float]
    steps: Mapping[str, str] = field(default_factory=dict)
    """A site's own patterns of progress lines, by cluster."""

    @activity.defn
    async def survey(self, ask: SurveyAsk) -> Survey:
        """Read the cluster once an interval; come back when jobs appear, go, or the cluster can't be read."""
        async with pulse():
            return await self.look_for_change(ask)

    async def look_for_change(self, ask: SurveyAsk) -> Survey:
        view, failing_since = self.views[ask.cluster], ask.blind_since
        until = datetime.now(UTC) + SURVEY_FOR
        while True:
            try:
                reading = await view.reading()
            except RerailError as error:
                failing_since = failing_since or datetime.now(UTC)
                if ask.blind_since is None and datetime.now(UTC) - failing_since >= BLIND_AFTER:
                    return Survey(read_at=ask.read_at, blind_since=failing_since, blind_why=str(error))
            else:
                failing_since = None
                survey = compare(ask, reading, self.scopes[ask.cluster])
                if has_news(ask, survey) or datetime.now(UTC) >= until:
                    return survey
            await view.pause(view.interval_s)

    @activity.defn
    async def find_job(self, ask: FindAsk) -> Attempt:
        """The job by its id, freshly read; a sentence for the person when there is none."""
        scheduler = self.views[ask.cluster].scheduler
        try:
            job = await asyncio.to_thread(scheduler.job, ask.job_id)
        except Permanent as error:
            raise ApplicationError(str(error), type=type(error).__name__, non_retryable=True) from error
        return sight(job, ask.known, datetime.now(UTC))

    @activity.defn
    async def follow(self, ask: FollowAsk) -> Followed:
        """Follow one attempt's log, progress and state until something has to be done about it."""
        cluster = ask.attempt.job.cluster
        follower = Follower(
            self.views[cluster], self.logs[cluster], resume(ask), self.hang_floor_s.get(cluster), self.steps.get(cluster, "")
        )
        async with pulse(lambda: follower.position):
            while (followed := await follower.look()) is None:
                await follower.view.pause(follower.view.interval_s)
        return followed


def resume(ask: FollowAsk) -> FollowAsk:
    """Where the last heartbeat of an earlier try left off, else where the workflow says."""
    details = activity.info().heartbeat_details
    return FollowAsk.model_validate(details[0]) if details else ask


def compare(ask: SurveyAsk, reading: Reading, scope: Scope) -> Survey:
    """What a reading shows beside what is known."""
    appeared: list[Attempt] = []
    updated: list[Attempt] = []
    here = {job.job_id: job for job in reading.jobs if mine(job, scope)}
    for job_id, job in here.items():
        known = ask.known.get(job_id)
        if known is None and not worth_watching(job, ask.read_at):
            continue
        now = sight(job, known, reading.read_at)
        if known is None or now.job != known.job:
            appeared.append(now)
        elif now != known:
            updated.append(now)
    gone = tuple(job_id for job_id in ask.known if job_id not in here)
    return Survey(read_at=reading.read_at, appeared=tuple(appeared), updated=tuple(updated), gone=gone)


def mine(job: Job, scope: Scope) -> bool:
    """True when the job is ours to watch: in scope, not turned off by its owner, and not led by another."""
    return not job.led and scope.holds(job) and not wishes(job.comment).off


def has_news(ask: SurveyAsk, survey: Survey) -> bool:
    """True when the workflow should hear of it: jobs changed, sight came back, or this is the first reading ever."""
    return bool(survey.appeared or survey.updated or survey.gone or ask.blind_since or ask.read_at is None)


def worth_watching(job: Job, last_read: datetime | None) -> bool:
    """Jobs that run, and those that broke since the last reading, unseen. What lay broken before our time is history."""
    if job.state in (JobState.RUNNING, JobState.SUSPENDED):
        return True
    ended_unseen = last_read is not None and job.ended_at is not None and job.ended_at >= last_read - timedelta(seconds=1)
    return job.state.ended and job.state.broken and ended_unseen


class Follower:
    """One attempt being followed: its place in the log and its detectors' state, which ride in the heartbeats."""

    def __init__(self, view: ClusterView, logs: Logs, ask: FollowAsk, floor_s: float | None = None, steps: str = "") -> None:
        self.view = view
        self.tails = Tails(logs, ask.places)
        self.at = ask
        self.watched = ask.watched or detectors.begin(datetime.now(UTC), floor_s, steps)
        self.failing_since: datetime | None = None

    @property
    def position(self) -> FollowAsk:
        """Where to go on from."""
        return self.at.model_copy(update={"watched": self.watched, "places": dict(self.tails.places)})

    async def look(self) -> Followed | None:
        """One look at scheduler and log: what has to be done about it, else None."""
        now = datetime.now(UTC)
        try:
            job = await self.view.job(self.at.attempt.job.job_id)
        except RerailError:  # the survey announces that the cluster can't be read
            self.watched = detectors.was_blind(self.watched, now)
            return None
        if job is None or is_another(job, self.at.attempt):
            return self.came_back(Seen.GONE, now, why="the scheduler no longer knows the job")
        if wishes(job.comment).off:
            return self.came_back(Seen.ENDED, now, why=wishes(job.comment).hands_off)
        before, attempt = self.at.attempt, advance(self.at.attempt, job)
        if attempt.number != before.number:
            return await self.moved_on(before, attempt, job, now)
        self.at = self.at.model_copy(update={"attempt": attempt, **self.surroundings(job)})
        return await self.look_at(job, now)

    def surroundings(self, job: Job) -> dict[str, object]:
        """What nobody can read any more once the attempt is over: its nodes, and who waits for its end."""
        ran_on = hostlist.compress(job.nodes) if job.nodes else self.at.ran_on
        freed = () if job.state.ended else self.view.dependants(job)
        return {"ran_on": ran_on, "dependants": freed or self.at.dependants}

    async def moved_on(self, before: Attempt, attempt: Attempt, job: Job, now: datetime) -> Followed:
        """The next attempt is there. That the scheduler brought it back after a node's failure is an anomaly of the last one."""
        self.at = self.at.model_copy(update={"attempt": attempt})
        symptoms: tuple[Symptom, ...] = ()
        if not self.watched.told:
            with contextlib.suppress(RerailError):  # who requeued it is then not known, and nothing is made of it
                by = await asyncio.to_thread(who_requeued, self.view.scheduler, self.tails.logs, job, before, self.at.ran_on)
                symptoms = (node_failed(self.watched, now),) if by is Requeuer.NODE_FAILURE else ()
        return self.came_back(Seen.NEXT_ATTEMPT, now, symptoms).model_copy(update={"before": before})

    async def look_at(self, job: Job, now: datetime) -> Followed | None:
        symptoms: tuple[Symptom, ...] = ()
        turned: Followed | None = None
        try:
            symptoms = await self.read_logs(job, now)
            turned = self.sees_again(now)
        except RerailError as error:
            turned = self.cannot_see(error, now)
        self.watched, seen = detectors.see_job(self.watched, job, now)
        if symptoms + seen:
            return self.came_back(Seen.ANOMALY, now, symptoms + seen)
        if job.state.ended and not job.state.broken and not job.completing:
            return self.came_back(Seen.ENDED, now, why=f"the job is {job.state}")
        return turned

    async def read_logs(self, job: Job, now: datetime) -> tuple[Symptom, ...]:
        """Feed what the logs have gained. What is written while the job waits is the end of its last attempt."""
        if job.state is JobState.PENDING:
            await self.tails.skip_to_end(job)
            return ()
        found: tuple[Symptom, ...] = ()
        async for lines in self.tails.gained(job):
            self.watched, symptoms = detectors.read_lines(self.watched, lines, now)
            found += symptoms
        return found

    def cannot_see(self, error: RerailError, now: datetime) -> Followed | None:
        """Silence while we were blind is nobody's hang; blindness that lasts is announced once."""
        self.watched = detectors.was_blind(self.watched, now)
        self.failing_since = self.failing_since or now
        if self.at.blind or now - self.failing_since < BLIND_AFTER:
            return None
        self.at = self.at.model_copy(update={"blind": True})
        return self.came_back(Seen.BLIND, now, why=str(error))

    def sees_again(self, now: datetime) -> Followed | None:
        self.failing_since = None
        if not self.at.blind:
            return None
        self.at = self.at.model_copy(update={"blind": False})
        return self.came_back(Seen.SIGHTED, now)

    def came_back(self, seen: Seen, now: datetime, symptoms: tuple[Symptom, ...] = (), why: str = "") -> Followed:
        return Followed(seen=seen, at=self.position, symptoms=symptoms, time=now, why=why)
