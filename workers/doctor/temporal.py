"""Temporal: is it there, does the namespace know our search attributes, does anybody work on our task queues?"""

import asyncio
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

from temporalio.api.enums.v1 import IndexedValueType, TaskQueueType
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, DescribeTaskQueueRequest
from temporalio.client import Client
from temporalio.service import RPCError

from rerail import names
from workers.doctor.finding import Finding, fail, ok, warn
from workers.settings import Settings

DEADLINE = timedelta(seconds=5)
"""For each question; a healthy server answers in milliseconds."""
POLL_AGE = timedelta(seconds=90)
"""A worker polls at least once a minute; who was not seen for longer is gone."""

_KEYWORD, _LIST = IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD, IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD_LIST
SEARCH_ATTRIBUTES: Mapping[str, "IndexedValueType.ValueType"] = {
    names.SA_CLUSTER: _KEYWORD,
    names.SA_JOB: _KEYWORD,
    names.SA_NODES: _LIST,
    names.SA_CLASS: _KEYWORD,
    names.SA_STAGE: _KEYWORD,
}
TYPE_NAMES = {_KEYWORD: "Keyword", _LIST: "KeywordList"}
_WORKFLOW, _ACTIVITY = TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW, TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY


def temporal(settings: Settings) -> Iterator[Finding]:
    """All about Temporal. A server that does not answer ends it."""
    yield from asyncio.run(_examined(settings))


async def _examined(settings: Settings) -> list[Finding]:
    config = settings.temporal.connect_config()
    where = f"Temporal at {config.get('target_host')}, namespace {config.get('namespace', 'default')}"
    try:
        client = await asyncio.wait_for(Client.connect(**config), DEADLINE.total_seconds())
        request = DescribeNamespaceRequest(namespace=client.namespace)
        await client.workflow_service.describe_namespace(request, timeout=DEADLINE)
        return [ok(f"{where}: answers"), *await _search_attributes(client), *await _queues(client, settings)]
    except TimeoutError:
        return [fail(f"{where}: no answer in {DEADLINE.total_seconds():g} s", _UNREACHED)]
    except RPCError as error:
        return [fail(f"{where}: {error.status.name.lower()}: {error.message[:200]}", _UNREACHED)]
    except RuntimeError as error:  # so the SDK says that it could not connect
        return [fail(f"{where}: cannot be reached ({_reason(error)})", _UNREACHED)]


def _reason(error: RuntimeError) -> str:
    """The one telling word of what the SDK's own core says in a paragraph."""
    said = str(error).lower()
    return next((word for word in ("refused", "dns", "certificate", "timed out") if word in said), "no connection")


_UNREACHED = "start Temporal, or mend temporal.address and temporal.namespace (variables TEMPORAL_... win over them)"


async def _search_attributes(client: Client) -> list[Finding]:
    request = ListSearchAttributesRequest(namespace=client.namespace)
    known = (await client.operator_service.list_search_attributes(request, timeout=DEADLINE)).custom_attributes
    wrong = [name for name, kind in SEARCH_ATTRIBUTES.items() if name in known and known[name] != kind]
    missing = [name for name in SEARCH_ATTRIBUTES if name not in known]
    if wrong:
        wanted = ", ".join(f"{name} as {TYPE_NAMES[SEARCH_ATTRIBUTES[name]]}" for name in wrong)
        return [fail(f"search attributes of another type: {', '.join(wrong)}", f"remove them and create {wanted}")]
    if missing:
        return [warn(f"search attributes missing: {', '.join(missing)}", "`python -m workers control` creates them at its start")]
    return [ok("search attributes are there")]


async def _queues(client: Client, settings: Settings) -> list[Finding]:
    wanted = [(names.CONTROL_QUEUE, _WORKFLOW), (names.CONTROL_QUEUE, _ACTIVITY)]
    for cluster in settings.clusters:
        wanted += [(names.detect_queue(cluster), _ACTIVITY), (names.act_queue(cluster), _ACTIVITY)]
    idle = [queue for queue, kind in wanted if not await _polled(client, queue, kind)]
    if idle:
        return [
            warn(f"no worker on {', '.join(dict.fromkeys(idle))}", "start `python -m workers up`, or the role that is missing")
        ]
    return [ok("workers poll all task queues")]


async def _polled(client: Client, queue: str, kind: "TaskQueueType.ValueType") -> bool:
    request = DescribeTaskQueueRequest(namespace=client.namespace, task_queue=TaskQueue(name=queue), task_queue_type=kind)
    answer = await client.workflow_service.describe_task_queue(request, timeout=DEADLINE)
    oldest = datetime.now(UTC) - POLL_AGE
    return any(poller.last_access_time.ToDatetime(UTC) > oldest for poller in answer.pollers)
