"""WatchCluster: one for ever for each cluster. Sees jobs come, starts their watchers, and says so when it is blind."""

import contextlib
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, WorkflowAlreadyStartedError

with workflow.unsafe.imports_passed_through():
    from activities.asks import FindAsk, RequestAsk, Survey, SurveyAsk, WatchClusterInput, WatchJobInput
    from activities.search import job_attributes
    from rerail import names
    from rerail.records import Attempt, ClusterState
    from rerail.requests import JOB_FORM, only, read_job_request
    from workflows.endings import cause_of, not_found
    from workflows.pages import cluster_page
    from workflows.profiles import ASK, LOOK_UP, WATCH
    from workflows.sentence import say
    from workflows.sight import announce


@workflow.defn(name=names.WATCH_CLUSTER)
class WatchCluster:
    """What is known of a cluster's jobs rides over continue-as-new."""

    @workflow.init
    def __init__(self, state: WatchClusterInput) -> None:
        self.state = state

    @workflow.run
    async def run(self, state: WatchClusterInput) -> None:
        self.show()
        while not workflow.info().is_continue_as_new_suggested():
            await self.take(await self.survey())
        await workflow.wait_condition(workflow.all_handlers_finished)
        workflow.continue_as_new(self.state)

    async def survey(self) -> Survey:
        """Come back when something changed."""
        ask = SurveyAsk(
            cluster=self.state.cluster,
            known=self.state.known,
            read_at=self.state.read_at,
            blind_since=self.state.blind_since,
        )
        summary = f"{len(self.state.known)} jobs known"
        return await say("survey", ask, Survey, queue=names.detect_queue(self.state.cluster), summary=summary, profile=WATCH)

    async def take(self, survey: Survey) -> None:
        """Keep what was seen; watchers for jobs that came or started again."""
        await self.take_sight(survey)
        known = {job_id: attempt for job_id, attempt in self.state.known.items() if job_id not in survey.gone}
        for attempt in (*survey.appeared, *survey.updated):
            known[attempt.job.job_id] = attempt
            await self.watch_over(attempt)
        self.keep(known=known, read_at=survey.read_at or self.state.read_at)

    async def take_sight(self, survey: Survey) -> None:
        """Blindness and its end are kept and told once."""
        was, now = self.state.blind_since, survey.blind_since
        if (was is None) == (now is None):
            return
        self.keep(blind_since=now, blind_why=survey.blind_why)
        cluster = self.state.cluster
        await announce(cluster, blind=now is not None, why=survey.blind_why, cluster=cluster)

    async def watch_over(self, attempt: Attempt) -> str:
        """The job's watcher: started, unless it lives already."""
        watcher = names.watch_job_id(attempt.job)
        with contextlib.suppress(WorkflowAlreadyStartedError):
            await workflow.start_child_workflow(
                names.WATCH_JOB,
                WatchJobInput(attempt=attempt),
                id=watcher,
                task_queue=names.CONTROL_QUEUE,
                parent_close_policy=workflow.ParentClosePolicy.ABANDON,
                search_attributes=job_attributes(attempt),
                static_summary=f"job {attempt.job.job_id} on {attempt.job.cluster}",
            )
        return watcher

    @workflow.update(name=names.WATCH, description='Watch a job, in scope or not: {"job_id": "41001"}')
    async def watch(self, *messages: Any) -> str:
        """The workflow id of the job's watcher."""
        attempt = await self.find(read_job_request(only(messages, JOB_FORM)).job_id)
        return await self.watch_over(attempt)

    @workflow.update(
        name=names.REMEDIATE,
        description='Have a job remediated now: {"job_id": "41001", "by": "your name", "reason": "why"}',
    )
    async def remediate(self, *messages: Any) -> str:
        """The workflow id of the incident."""
        request = read_job_request(only(messages, JOB_FORM))
        attempt = await self.find(request.job_id)
        ask = RequestAsk(cluster=self.state.cluster, attempt=attempt, by=request.by, reason=request.reason)
        try:
            return await say("request_remediation", ask, str, queue=names.CONTROL_QUEUE, summary=request.job_id, profile=ASK)
        except ActivityError as error:
            raise ApplicationError(cause_of(error), type="Refused") from None

    @watch.validator
    def check_watch(self, *messages: Any) -> None:
        read_job_request(only(messages, JOB_FORM))

    @remediate.validator
    def check_remediate(self, *messages: Any) -> None:
        read_job_request(only(messages, JOB_FORM))

    async def find(self, job_id: str) -> Attempt:
        """The job as known, else freshly looked up; a sentence when there is none."""
        ask = FindAsk(cluster=self.state.cluster, job_id=job_id, known=self.state.known.get(job_id))
        try:
            queue = names.detect_queue(self.state.cluster)
            return await say("find_job", ask, Attempt, queue=queue, summary=job_id, profile=LOOK_UP)
        except ActivityError as error:
            raise not_found(error, self.state.cluster) from None

    @workflow.query(name=names.CLUSTER_STATE, description="What is known of this cluster")
    def read_state(self) -> ClusterState:
        return ClusterState(
            cluster=self.state.cluster,
            read_at=self.state.read_at,
            blind_since=self.state.blind_since,
            blind_why=self.state.blind_why,
            jobs=tuple(self.state.known.values()),
        )

    def keep(self, **changes: Any) -> None:
        self.state = self.state.model_copy(update=changes)
        self.show()

    def show(self) -> None:
        workflow.set_current_details(cluster_page(self.read_state()))
