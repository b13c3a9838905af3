"""Running the roles: `control` (workflows, record, acting), `detect` (all that reads the clusters), `up` (both)."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.service import RPCError, RPCStatusCode

from activities.asks import WatchClusterInput
from activities.search import ALL, NODES, cluster_attributes
from rerail import names
from rerail.client import connect
from rerail.errors import Misconfigured, RerailError, Transient, Unreachable
from rerail.records import GuardState
from workers.assembly import Assembly
from workers.intake import intake
from workers.settings import Settings

log = logging.getLogger("rerail.workers")

CONNECT_AGAIN_S = (1, 2, 5, 10)
"""Waits between tries to reach Temporal at the start; the last one is repeated."""

AWAY = frozenset(
    {
        RPCStatusCode.UNAVAILABLE,
        RPCStatusCode.DEADLINE_EXCEEDED,
        RPCStatusCode.RESOURCE_EXHAUSTED,
        RPCStatusCode.ABORTED,
        RPCStatusCode.CANCELLED,
    }
)
"""What Temporal answers while it starts, stops or is overloaded; anything else does not heal by waiting."""

LOOKS_AT_ONCE = 64
"""Blocking looks at logs and schedulers: a file system that hangs holds one thread for each log on it, and asyncio's own
default is four more than there are cores."""


async def run(settings: Settings, roles: Sequence[str]) -> int:
    """Run until SIGTERM or SIGINT; 0 at a clean end."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(LOOKS_AT_ONCE, thread_name_prefix="look"))
    client = await reach(settings, roles, stop)
    if client is None:
        return 0
    assembly = Assembly(settings, client)
    workers = [worker for role in roles for worker in getattr(assembly, role)()]
    nudges = {name: view.nudge for name, view in assembly.views.items()}
    async with intake(settings.intake if "detect" in roles else None, nudges):
        running = [asyncio.create_task(worker.run()) for worker in workers]
        log.info("%s for %s: ready", " and ".join(roles), ", ".join(settings.clusters))
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait([stopped, *running], return_when=asyncio.FIRST_COMPLETED)
        log.info("stopping")
    await asyncio.gather(*(worker.shutdown() for worker in workers if worker.is_running))
    await asyncio.gather(*running)  # a worker that failed fails the role: whoever supervises it starts it again
    return 0


async def reach(settings: Settings, roles: Sequence[str], stop: asyncio.Event) -> Client | None:
    """A client of a Temporal that has all we need, however long it takes to come up; None when stopped before."""
    for tries in range(10**9):
        try:
            client = await connect_by(settings)
            if "control" in roles:
                await prepare(client, settings)
            return client
        except Transient as error:
            wait = CONNECT_AGAIN_S[min(tries, len(CONNECT_AGAIN_S) - 1)]
            log.warning("%s Trying again in %d s.", error, wait)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), wait)
                return None
    return None


async def connect_by(settings: Settings) -> Client:
    """A client by what the settings file says of Temporal, where the environment does not say it."""
    said = settings.temporal
    return await connect(
        address=None if os.environ.get("TEMPORAL_ADDRESS") else said.address,
        namespace=None if os.environ.get("TEMPORAL_NAMESPACE") else said.namespace,
        profile=None if os.environ.get("TEMPORAL_PROFILE") else said.profile,
        identity=f"{os.getpid()}@{socket.gethostname()}",  # short: most events of a history carry it
    )


async def prepare(client: Client, settings: Settings) -> None:
    """Search attributes, and the long-lived workflows of each cluster; all of it may be there already."""
    await add_search_attributes(client)
    try:
        await start_for_ever(client, settings)
    except RPCError as error:
        raise unfit(
            error, f"the cluster's workflows can't be started ({error.message[:100]}); look at the server's log"
        ) from error


async def start_for_ever(client: Client, settings: Settings) -> None:
    """Guard and watch of each cluster."""
    for cluster in settings.clusters:
        common: dict[str, Any] = {
            "task_queue": names.CONTROL_QUEUE,
            "id_conflict_policy": WorkflowIDConflictPolicy.USE_EXISTING,
            "search_attributes": cluster_attributes(cluster),
        }
        guard = GuardState(cluster=cluster)
        await client.start_workflow(
            names.GUARD_CLUSTER, guard, id=names.guard_cluster_id(cluster), static_summary=f"guard of {cluster}", **common
        )
        watch = WatchClusterInput(cluster=cluster)
        await client.start_workflow(
            names.WATCH_CLUSTER, watch, id=names.watch_cluster_id(cluster), static_summary=f"watch over {cluster}", **common
        )


async def add_search_attributes(client: Client) -> None:
    """Create those that are missing; Misconfigured, with the command, where we lack the right."""
    wanted = {key.name: kind(key) for key in ALL}
    try:
        there = await client.operator_service.list_search_attributes(ListSearchAttributesRequest(namespace=client.namespace))
        missing = {name: wanted[name] for name in wanted if name not in there.custom_attributes}
        if missing:
            request = AddSearchAttributesRequest(namespace=client.namespace, search_attributes=missing)
            await client.operator_service.add_search_attributes(request)
    except RPCError as error:
        options = " ".join(f"--name {key.name} --type {'KeywordList' if key is NODES else 'Keyword'}" for key in ALL)
        command = f"temporal operator search-attribute create {options}"
        sentence = f"search attributes can't be created ({error.message[:100]}); have them created: {command}"
        raise unfit(error, sentence) from error


def unfit(error: RPCError, sentence: str) -> RerailError:
    """What Temporal's failure means: that it is away, or that somebody has to do something about it."""
    if error.status in AWAY:
        return Unreachable(f"Temporal is not ready ({error.message[:100]}).")
    return Misconfigured(sentence)


def kind(key: object) -> "IndexedValueType.ValueType":
    """Temporal's type of a search attribute."""
    if key is NODES:
        return IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD_LIST
    return IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD
