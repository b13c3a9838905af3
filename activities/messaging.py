"""Messages between workflows that need an answer: opening an incident, asking the guard, a person's request."""

from dataclasses import dataclass
from datetime import timedelta

from temporalio import activity
from temporalio.client import Client, WithStartWorkflowOperation, WorkflowUpdateFailedError
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import ApplicationError, WorkflowAlreadyStartedError

from activities.asks import Opened, RemediateInput, RequestAsk, WatchJobInput
from rerail import names
from rerail.records import Grant, GrantAsk
from activities.search import incident_attributes, job_attributes

CLOSED = "Closed"


@dataclass(frozen=True)
class Messaging:
    """Activities of the control role that speak to other workflows."""

    client: Client

    @activity.defn
    async def open_incident(self, ask: RemediateInput) -> Opened:
        """Open the attempt's incident, or join the living one: never a twin."""
        incident = names.remediate_job_id(ask.anomaly.attempt)
        start = WithStartWorkflowOperation(
            names.REMEDIATE_JOB,
            ask,
            id=incident,
            task_queue=names.CONTROL_QUEUE,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
            search_attributes=incident_attributes(ask.anomaly.attempt),
            static_summary=f"{ask.anomaly.kind} of job {ask.anomaly.attempt.job.job_id}, attempt {ask.anomaly.attempt.number}",
        )
        try:
            joined = await self.client.execute_update_with_start_workflow(
                names.REPORT_ANOMALY, ask.anomaly, start_workflow_operation=start, id=ask.anomaly.id, result_type=bool
            )
        except WorkflowAlreadyStartedError:
            return Opened(incident=incident, closed=True)
        return Opened(incident=incident, joined=joined)

    @activity.defn
    async def ask_guard(self, ask: GrantAsk) -> Grant:
        """May these nodes be isolated? The same incident gets the same answer however often it asks."""
        guard = self.client.get_workflow_handle(names.guard_cluster_id(ask.cluster))
        return await guard.execute_update(names.GRANT, ask, id=ask.incident, result_type=Grant)

    @activity.defn
    async def request_remediation(self, ask: RequestAsk) -> str:
        """Have a job remediated because a person says so: watch it, and let its watcher open the incident."""
        job = ask.attempt.job
        start = WithStartWorkflowOperation(
            names.WATCH_JOB,
            WatchJobInput(attempt=ask.attempt),
            id=names.watch_job_id(job),
            task_queue=names.CONTROL_QUEUE,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            search_attributes=job_attributes(ask.attempt),
        )
        try:
            return await self.client.execute_update_with_start_workflow(
                names.REMEDIATE, ask, start_workflow_operation=start, result_type=str, rpc_timeout=timedelta(seconds=30)
            )
        except WorkflowUpdateFailedError as error:
            raise ApplicationError(str(error.cause), non_retryable=True) from error
