"""WatchJob: one for each job, over its attempts. Follows log, progress and state; an anomaly opens an incident."""

import contextlib
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from activities.asks import FollowAsk, Followed, Opened, RemediateInput, RequestAsk, Seen, Told, WatchJobInput
    from rerail import names
    from rerail.detectors import Symptom
    from rerail.records import Anomaly, Attempt, JobWatch, Kind, Notice, NoticeKind, Recovery
    from rerail.requests import Refusal, read_record
    from workflows.endings import cause_of
    from workflows.pages import job_page
    from workflows.profiles import ASK, TELL, WATCH
    from workflows.sentence import begin, say
    from workflows.sight import announce

HISTORY_MAX = 50
"""Recoveries that a job remembers: more than any budget asks about."""

WORD_WITHIN = timedelta(days=3)
"""How long an ended job's watcher waits for word of its incident: longer than one asks, queues and verifies. One that was
terminated by hand never tells its end."""


@workflow.defn(name=names.WATCH_JOB)
class WatchJob:
    """The job's recovery history is kept here: the ground for budgets per cause."""

    @workflow.init
    def __init__(self, state: WatchJobInput) -> None:
        self.state = state
        self.follow = state.follow or FollowAsk(attempt=state.attempt)
        self.last = "starting"
        self.closed: set[str] = set()
        """Runs of incidents that have told their end, which may come before word that they were opened."""

    @workflow.run
    async def run(self, state: WatchJobInput) -> str:
        self.show()
        while not workflow.info().is_continue_as_new_suggested():
            followed = await self.follow_on()
            self.follow = followed.at
            if followed.seen not in (Seen.ENDED, Seen.GONE):
                await self.take(followed)
            elif await self.is_over(followed.why):
                return followed.why
        await workflow.wait_condition(workflow.all_handlers_finished)
        return workflow.continue_as_new(self.state.model_copy(update={"follow": self.follow, "attempt": self.follow.attempt}))

    async def follow_on(self) -> Followed:
        """Until something has to be done about the attempt."""
        queue = names.detect_queue(self.state.attempt.job.cluster)
        summary = f"attempt {self.follow.attempt.number}"
        return await say("follow", self.follow, Followed, queue=queue, summary=summary, profile=WATCH)

    async def take(self, followed: Followed) -> None:
        """An anomaly, the next attempt, or being blind."""
        self.last = f"{followed.seen.replace('_', ' ')} at {workflow.now():%H:%M:%S}"
        if followed.seen is Seen.ANOMALY:
            for symptom in followed.symptoms:
                await self.open_incident(self.anomaly(seen_at=followed.time, **told(symptom)))
        elif followed.seen is Seen.NEXT_ATTEMPT:
            at = followed.at
            await self.tell_of_the_last(followed)
            places = {name: place.model_copy(update={"begin": place.offset}) for name, place in at.places.items()}
            self.follow = FollowAsk(attempt=at.attempt, places=places, blind=at.blind)
            self.keep(attempt=followed.at.attempt)
        else:
            await self.tell_sight(followed)
        self.show()

    async def tell_of_the_last(self, followed: Followed) -> None:
        """What the last attempt came to, and to its incident that it is over."""
        self.keep(attempt=followed.at.attempt)
        for symptom in followed.symptoms:
            await self.open_incident(self.anomaly(attempt=followed.before, seen_at=followed.time, **told(symptom)))
        if self.state.incident and not followed.symptoms:
            incident = workflow.get_external_workflow_handle(self.state.incident)
            try:
                await incident.signal(names.MOVED_ON)
            except ApplicationError as error:
                workflow.logger.info("the incident is closed already: %s", error)

    def anomaly(self, *, attempt: Attempt | None = None, **fields: Any) -> Anomaly:
        """The next anomaly of this attempt; its id is the same however often its report is tried."""
        self.keep(anomalies=self.state.anomalies + 1)
        attempt = attempt or self.follow.attempt
        begins = {name: place.begin for name, place in self.follow.places.items() if place.begin}
        around = {"ran_on": self.follow.ran_on, "dependants": self.follow.dependants}
        return Anomaly(id=f"{attempt}#{self.state.anomalies}", attempt=attempt, begins=begins, **around, **fields)

    async def open_incident(self, anomaly: Anomaly) -> Opened:
        """Its incident, opened or joined; the one that is open then is remembered."""
        ask = RemediateInput(anomaly=anomaly, history=self.state.history)
        opened = await say("open_incident", ask, Opened, queue=names.CONTROL_QUEUE, summary=anomaly.kind, profile=ASK)
        if not opened.closed and opened.run not in self.closed:
            self.keep(incident=opened.incident, incident_run=opened.run)
        if opened.tells and not (opened.joined or opened.closed):
            self.tell_opened(anomaly, opened)
        return opened

    def tell_opened(self, anomaly: Anomaly, opened: Opened) -> None:
        """That an incident was opened; what becomes of it, it tells by itself."""
        job = anomaly.attempt.job
        notice = Notice(
            key=f"{opened.incident}/{opened.run}/{NoticeKind.OPENED}",
            kind=NoticeKind.OPENED,
            cluster=job.cluster,
            job_id=job.job_id,
            incident=opened.incident,
            title=f"{anomaly.kind} of job {job.job_id}",
            text=anomaly.why[:500],
            at=workflow.now(),
        )
        begin("tell", notice, Told, queue=names.CONTROL_QUEUE, summary=NoticeKind.OPENED, profile=TELL)

    @workflow.update(name=names.REMEDIATE, description="Sent by the cluster's watcher: a person wants this job remediated")
    async def remediate(self, *asks: Any) -> str:
        """The incident's workflow id."""
        ask = read_record(RequestAsk, asks)
        anomaly = self.anomaly(kind=Kind.NONE, detector="request", seen_at=workflow.now(), why=ask.reason, requested_by=ask.by)
        try:
            opened = await self.open_incident(anomaly)
        except ActivityError as error:
            raise ApplicationError(cause_of(error), type="Refused") from None
        return opened.incident

    @remediate.validator
    def check_remediate(self, *asks: Any) -> None:
        read_record(RequestAsk, asks)

    @workflow.signal(name=names.CLOSED, description="Sent by an incident at its end")
    def incident_closed(self, *recoveries: Any) -> None:
        try:
            recovery = read_record(Recovery, recoveries)
        except Refusal as error:
            workflow.logger.warning("a signal %s is no recovery: %s", names.CLOSED, error)
            return
        self.closed.add(recovery.run)
        self.keep(history=(*self.state.history, recovery)[-HISTORY_MAX:])
        if recovery.run == self.state.incident_run:
            self.keep(incident="", incident_run="")
        self.show()

    @workflow.query(name=names.JOB_STATE, description="Attempt, open incident and recovery history of the job")
    def read_state(self) -> JobWatch:
        state = self.state
        watched = self.follow.watched
        return JobWatch(
            attempt=self.follow.attempt,
            incident=state.incident,
            history=state.history,
            last=self.last,
            blind=self.follow.blind,
            last_step=watched.last_step if watched else None,
        )

    async def tell_sight(self, followed: Followed) -> None:
        """That the job's log can't be read, or can be again."""
        job = self.follow.attempt.job
        what, blind = f"the log of job {job.job_id}", followed.seen is Seen.BLIND
        await announce(what, blind=blind, why=followed.why, cluster=job.cluster, job_id=job.job_id)

    async def is_over(self, why: str) -> bool:
        """False when an incident was open: its end may have started the job again, so look once more."""
        self.last = why
        self.show()
        if not self.state.incident:
            await workflow.wait_condition(workflow.all_handlers_finished)
            return not self.state.incident
        with contextlib.suppress(TimeoutError):
            what = "the incident's end"
            await workflow.wait_condition(lambda: not self.state.incident, timeout=WORD_WITHIN, timeout_summary=what)
        self.keep(incident="", incident_run="")
        return False

    def keep(self, **changes: Any) -> None:
        self.state = self.state.model_copy(update=changes)

    def show(self) -> None:
        workflow.set_current_details(job_page(self.read_state()))


def told(symptom: Symptom) -> dict[str, Any]:
    """What an anomaly takes over from a symptom."""
    return symptom.model_dump(include={"kind", "detector", "why", "symptom_at", "last_step", "checkpoint_step", "ranks"})
