"""Messages between workflows that need an answer: opening an incident, asking the guard, a person's request."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from temporalio import activity
from temporalio.client import Client, WithStartWorkflowOperation, WorkflowExecutionStatus, WorkflowUpdateFailedError
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from activities.asks import Opened, RemediateInput, RequestAsk, WatchJobInput
from activities.search import incident_attributes, job_attributes
from rerail import names
from rerail.records import Grant, GrantAsk, Incident


@dataclass(frozen=True)
class Messaging:
    """Activities of the control role that speak to other workflows."""

    client: Client
    tells: bool = False

    @activity.defn
    async def open_incident(self, ask: RemediateInput) -> Opened:
        """Open the attempt's incident, or join the living one: never a twin."""
        incident = names.remediate_job_id(ask.anomaly.attempt)
        if activity.info().attempt > 1 and await self.has_seen(incident, ask.anomaly.id):
            return await self.found(incident)
        start: WithStartWorkflowOperation[Any, Any] = WithStartWorkflowOperation(
            names.REMEDIATE_JOB,
            ask.model_copy(update={"tells": self.tells}),
            id=incident,
            task_queue=names.CONTROL_QUEUE,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            search_attributes=incident_attributes(ask.anomaly.attempt),
            static_summary=f"{ask.anomaly.kind} of job {ask.anomaly.attempt.job.job_id}, attempt {ask.anomaly.attempt.number}",
        )
        joined = await self.client.execute_update_with_start_workflow(
            names.REPORT_ANOMALY, ask.anomaly, start_workflow_operation=start, id=ask.anomaly.id, result_type=bool
        )
        handle = await start.workflow_handle()
        run = handle.first_execution_run_id or handle.result_run_id or ""
        return Opened(incident=incident, joined=joined, run=run, tells=self.tells)

    async def has_seen(self, incident: str, anomaly: str) -> bool:
        """True when an earlier try of ours has reported the anomaly already: the incident may even be closed by now."""
        try:
            state = await self.client.get_workflow_handle(incident).query(names.INCIDENT, result_type=Incident)
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return False
            raise
        return any(a.id == anomaly for a in (state.anomaly, *state.joined))

    async def found(self, incident: str) -> Opened:
        """The incident that an earlier try of ours has opened or joined."""
        description = await self.client.get_workflow_handle(incident).describe()
        closed = description.status is not WorkflowExecutionStatus.RUNNING
        run = description.raw_description.workflow_execution_info.first_run_id or description.run_id
        return Opened(incident=incident, joined=True, closed=closed, run=run)

    @activity.defn
    async def ask_guard(self, ask: GrantAsk) -> Grant:
        """May these nodes be isolated? The same incident gets the same answer however often it asks."""
        guard = self.client.get_workflow_handle(names.guard_cluster_id(ask.cluster))
        grant: Grant = await guard.execute_update(names.GRANT, ask, id=f"{ask.incident}/{ask.run}", result_type=Grant)
        return grant

    @activity.defn
    async def request_remediation(self, ask: RequestAsk) -> str:
        """Have a job remediated because a person says so: watch it, and let its watcher open the incident."""
        job, info = ask.attempt.job, activity.info()
        start: WithStartWorkflowOperation[Any, Any] = WithStartWorkflowOperation(
            names.WATCH_JOB,
            WatchJobInput(attempt=ask.attempt),
            id=names.watch_job_id(job),
            task_queue=names.CONTROL_QUEUE,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            search_attributes=job_attributes(ask.attempt),
        )
        try:
            incident: str = await self.client.execute_update_with_start_workflow(
                names.REMEDIATE,
                ask,
                start_workflow_operation=start,
                id=f"{info.workflow_run_id}/{info.activity_id}",  # a second try is the same request
                result_type=str,
                rpc_timeout=timedelta(seconds=30),
            )
        except WorkflowUpdateFailedError as error:
            raise ApplicationError(str(error.cause), non_retryable=True) from error
        return incident
