"""What can be read without any worker: how a workflow ended, and the plan in its history."""

from typing import Any

from pydantic import ValidationError
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError

from rerail.client.connection import one_line
from rerail.records import Incident, Outcome, Plan, Result

PROPOSE = "propose"
"""The activity whose result carries the plan."""


def unfinished(error: WorkflowFailureError) -> Outcome:
    """The outcome of an incident whose workflow was ended from outside: terminated, or failed for a defect."""
    cause = one_line(str(error.cause))
    return Outcome(result=Result.FAILED, why=f"its workflow did not come to its own end: {cause}; look at the job itself")


def ending(incident: Incident) -> str:
    """How and when an incident ended, and who decided."""
    outcome, decided = incident.outcome, incident.decided
    if outcome is None:
        return f"{incident.id} has ended"
    who = "nobody decided"
    if decided:
        when = f"{decided.at:%Y-%m-%d %H:%M:%S} UTC"
        who = f"{decided.decision.verdict} by {one_line(decided.decision.by, 80)} at {when} ({decided.way})"
    return f"{incident.id} has ended as {outcome.result}: {one_line(outcome.why)}; {who}"


async def ending_without_worker(client: Client, workflow_id: str) -> str:
    """The same from the record alone."""
    handle = client.get_workflow_handle(workflow_id, result_type=Outcome)
    description = await handle.describe()
    closed = f" at {description.close_time:%Y-%m-%d %H:%M:%S} UTC" if description.close_time else ""
    if description.status is not WorkflowExecutionStatus.COMPLETED:
        status = description.status.name.lower() if description.status else "ended"
        return f"{workflow_id} was {status}{closed}"
    outcome: Outcome = await handle.result()
    return f"{workflow_id} has ended{closed} as {outcome.result}: {one_line(outcome.why)}"


async def plan_on_record(client: Client, workflow_id: str) -> Plan | None:
    """The newest plan in an incident's history; None when none was made yet."""
    scheduled: set[int] = set()
    plan: Plan | None = None
    async for event in client.get_workflow_handle(workflow_id).fetch_history_events():
        if event.HasField("activity_task_scheduled_event_attributes"):
            if event.activity_task_scheduled_event_attributes.activity_type.name == PROPOSE:
                scheduled.add(event.event_id)
        elif event.HasField("activity_task_completed_event_attributes"):
            done = event.activity_task_completed_event_attributes
            if done.scheduled_event_id in scheduled:
                plan = plan_in(await client.data_converter.decode(done.result.payloads)) or plan
    return plan


def plan_in(decoded: list[Any]) -> Plan | None:
    """The plan inside the result of `propose`."""
    try:
        return Plan.model_validate(decoded[0]["plan"])
    except (ValidationError, LookupError, TypeError):
        return None
