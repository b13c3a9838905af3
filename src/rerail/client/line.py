"""The line to Temporal: every call is tried again within a bound, and every failure is told as one sentence."""

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from pydantic import ValidationError
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import (
    Client,
    WorkflowExecution,
    WorkflowHandle,
    WorkflowQueryFailedError,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
    WorkflowUpdateStage,
)
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from rerail import names
from rerail.client.connection import one_line
from rerail.errors import Misconfigured, NoSuchJob, NotFound, Permanent, Refused, RerailError, Unreachable, Unreadable

T = TypeVar("T")

PATIENCE_S = 20.0
"""How long a server that went away is waited for, before a person is told; a fail-over takes seconds."""

ANSWER_S = 10.0
"""How long a worker may take to answer: it takes milliseconds, and a restarted one is back within seconds."""

WORK_S = 60.0
"""How long what a worker has accepted may take: the slowest (finding a job in the scheduler, opening its incident) is given up by
the workflow itself after 20 + 40 s."""

PROBE_S = 2.0
"""For asking who is there, once something did not answer."""

AGAIN_S = 0.5
"""Between two tries; Temporal's own client has tried several times within each."""

AGAIN = frozenset({RPCStatusCode.UNAVAILABLE, RPCStatusCode.RESOURCE_EXHAUSTED, RPCStatusCode.ABORTED, RPCStatusCode.INTERNAL})
SILENT = frozenset({RPCStatusCode.CANCELLED, RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.FAILED_PRECONDITION})
"""How the server says that no worker answered: our own deadline passed, its deadline passed, or it knows of no poller."""
NO_ENTRY = frozenset({RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNAUTHENTICATED})

ERRORS_OF_WORKFLOWS: dict[str, type[RerailError]] = {
    "NoSuchJob": NoSuchJob,
    "Misconfigured": Misconfigured,
    "Unreadable": Unreadable,
}
"""Types that workflows give their refusals, where they are more than a refusal."""


class NoWorker(Unreachable):
    """Temporal answers, but none of rerail's workers does."""


class Ended(Permanent):
    """The workflow that was spoken to has ended."""


class Line:
    """A Temporal client whose calls end within bounds. Raises errors of `rerail.errors` only."""

    def __init__(self, client: Client, patience_s: float = PATIENCE_S, answer_s: float = ANSWER_S) -> None:
        self.client = client
        self.patience_s = patience_s
        self.answer_s = answer_s

    @property
    def target(self) -> str:
        """HOST:PORT of the server."""
        return self.client.service_client.config.target_host

    def handle(self, workflow_id: str) -> WorkflowHandle[Any, Any]:
        """The newest run of that id."""
        return self.client.get_workflow_handle(workflow_id)

    async def call(self, ask: Callable[[], Awaitable[T]], *, patience_s: float | None = None) -> T:
        """The answer, tried again while the server is away. RPCError comes out as a sentence."""
        deadline = time.monotonic() + (self.patience_s if patience_s is None else patience_s)
        while True:
            try:
                return await ask()
            except RPCError as error:
                if error.status not in AGAIN or time.monotonic() + AGAIN_S > deadline:
                    raise await self.told(error) from error
            await asyncio.sleep(AGAIN_S)

    async def query(self, workflow_id: str, name: str, returns: type[T]) -> T:
        """What the workflow answers; asks its worker."""
        handle = self.handle(workflow_id)
        within = timedelta(seconds=self.answer_s)
        try:
            answer: T = await self.call(lambda: handle.query(name, result_type=returns, rpc_timeout=within))
        except WorkflowQueryFailedError as error:
            raise skewed(str(error)) from error
        except (ValidationError, RuntimeError) as error:
            raise skewed(f"its answer can't be read: {error}") from error
        return answer

    async def update(self, workflow_id: str, name: str, message: Any, returns: type[T]) -> T:
        """What the workflow answers to a message. The message has an id, so a second try is never a second message."""
        handle = self.handle(workflow_id)
        update_id = str(uuid.uuid4())
        try:
            accepted = await self.call(
                lambda: handle.start_update(
                    name,
                    message,
                    id=update_id,
                    wait_for_stage=WorkflowUpdateStage.ACCEPTED,
                    result_type=returns,
                    rpc_timeout=timedelta(seconds=self.answer_s),
                )
            )
            answer: T = await self.call(lambda: accepted.result(rpc_timeout=timedelta(seconds=WORK_S)))
        except WorkflowUpdateRPCTimeoutOrCancelledError as error:
            raise await self.silence() from error
        except WorkflowUpdateFailedError as error:
            raise refused(error) from error
        except NoWorker:
            raise
        except Unreachable as error:
            raise Unreachable(f"{error}; whether it took this message is not known, and sending it again does no harm") from error
        return answer

    async def signal(self, workflow_id: str, name: str, message: Any) -> None:
        """A message that is kept while no worker answers."""
        await self.call(lambda: self.handle(workflow_id).signal(name, message, rpc_timeout=timedelta(seconds=self.answer_s)))

    async def list(self, query: str, most: int) -> list[WorkflowExecution]:
        """Workflows by a list filter: open ones first, newest first, `most` at most."""

        async def ask() -> list[WorkflowExecution]:
            found = self.client.list_workflows(query, limit=most, rpc_timeout=timedelta(seconds=self.answer_s))
            return [one async for one in found]

        return await self.call(ask)

    # What went wrong

    async def told(self, error: RPCError) -> RerailError:
        """The sentence for a failed call."""
        said = error.message.lower()
        if error.status in SILENT:
            return await self.silence()
        if error.status in NO_ENTRY:
            return Misconfigured(
                f"Temporal at {self.target} does not let us into namespace {self.client.namespace}: {one_line(error.message)}; "
                "check the API key or certificate of the profile"
            )
        if error.status is RPCStatusCode.NOT_FOUND:
            return self.missing(said, error.message)
        if error.status is RPCStatusCode.INVALID_ARGUMENT and "search attribute" in said:
            return Misconfigured(
                f"namespace {self.client.namespace} lacks rerail's search attributes ({one_line(error.message)}); "
                "`python -m workers control` creates them when it starts"
            )
        if error.status in AGAIN:
            return Unreachable(
                f"Temporal at {self.target} went away ({one_line(error.message)}); try again once it is back: "
                "nothing that it took is lost"
            )
        return Permanent(f"Temporal refuses the call ({error.status.name.lower()}): {one_line(error.message)}")

    def missing(self, said: str, original: str) -> RerailError:
        """What was not found: the namespace, a living run, or the workflow."""
        if "namespace" in said:
            known = f"there is no namespace {self.client.namespace} at {self.target}"
            return Misconfigured(f"{known}; name another by --namespace, --profile or TEMPORAL_NAMESPACE")
        if "already completed" in said:
            return Ended("it has ended")
        return NotFound(one_line(original))

    async def silence(self) -> Unreachable:
        """Why nobody answered: Temporal itself is silent, or it has no worker of ours."""
        request = DescribeTaskQueueRequest(
            namespace=self.client.namespace,
            task_queue=TaskQueue(name=names.CONTROL_QUEUE),
            task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
        )
        try:
            answer = await self.client.workflow_service.describe_task_queue(request, timeout=timedelta(seconds=PROBE_S))
        except RPCError:
            return Unreachable(
                f"Temporal at {self.target} stopped answering; try again once it is back: nothing that it took is lost"
            )
        seen = max((p.last_access_time.ToDatetime(UTC) for p in answer.pollers), default=None)
        return NoWorker(
            f"no worker of rerail answers ({last_seen(seen)}); on the service's host `python -m workers up` starts one"
        )


def last_seen(at: datetime | None) -> str:
    if at is None:
        return f"none asks for work on {names.CONTROL_QUEUE}"
    return f"one last asked for work {max(0, (datetime.now(UTC) - at).total_seconds()):.0f} s ago"


def refused(error: WorkflowUpdateFailedError) -> RerailError:
    """The sentence with which a workflow refused a message."""
    cause = error.cause
    if not isinstance(cause, ApplicationError):
        return Refused(one_line(str(cause)))
    if cause.message.startswith("Update handler for"):
        return skewed(cause.message)
    return ERRORS_OF_WORKFLOWS.get(cause.type or "", Refused)(one_line(cause.message, 600))


def skewed(said: str) -> Misconfigured:
    return Misconfigured(f"the workers speak another version of rerail: {one_line(said)}; bring both to the same release")
