"""The start of the service: a Temporal that is not ready is waited for, one that lacks something is told."""

import asyncio
from typing import Any

import pytest
from temporalio.service import RPCError, RPCStatusCode

from activities.search import ALL
from rerail.errors import Misconfigured, Unreachable
from workers import roles


def failure(status: RPCStatusCode) -> RPCError:
    return RPCError("server says no", status, b"")


class Answers:
    """A Temporal whose operator service answers with these failures in turn, and then with nothing missing."""

    def __init__(self, *failures: RPCError) -> None:
        self.failures = list(failures)
        self.asked = 0
        self.started: list[str] = []
        self.namespace = "default"
        self.operator_service = self

    async def list_search_attributes(self, _: Any) -> Any:
        self.asked += 1
        if self.failures:
            raise self.failures.pop(0)

        class There:
            custom_attributes = {key.name: 1 for key in ALL}

        return There()

    async def start_workflow(self, name: str, *_: Any, **named: Any) -> None:
        self.started.append(named["id"])


class Named:
    """As much of the settings as a start needs."""

    clusters = {"alpha": None}


async def test_a_temporal_that_is_not_ready_yet_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Answers(failure(RPCStatusCode.UNAVAILABLE), failure(RPCStatusCode.DEADLINE_EXCEEDED))

    async def connect_by(_: Any) -> Any:
        return server

    monkeypatch.setattr(roles, "connect_by", connect_by)
    monkeypatch.setattr(roles, "CONNECT_AGAIN_S", (0,))
    found: Any = await roles.reach(Named(), ("control",), asyncio.Event())  # type: ignore[arg-type]
    assert found is server
    assert server.asked == 3
    assert server.started == ["guard-cluster/alpha", "watch-cluster/alpha"]


async def test_a_right_that_is_missing_is_told_with_the_command_and_not_waited_for() -> None:
    server: Any = Answers(failure(RPCStatusCode.PERMISSION_DENIED))
    with pytest.raises(Misconfigured, match="temporal operator search-attribute create --name RerailCluster --type Keyword"):
        await roles.prepare(server, Named())  # type: ignore[arg-type]


async def test_a_temporal_that_goes_away_in_the_middle_of_the_start_is_away() -> None:
    server: Any = Answers()

    async def start_workflow(*_: Any, **__: Any) -> None:
        raise failure(RPCStatusCode.UNAVAILABLE)

    server.start_workflow = start_workflow
    with pytest.raises(Unreachable, match="Temporal is not ready"):
        await roles.prepare(server, Named())  # type: ignore[arg-type]


async def test_a_stop_while_temporal_is_away_ends_the_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    async def connect_by(_: Any) -> Any:
        raise Unreachable("nothing listens there.")

    monkeypatch.setattr(roles, "connect_by", connect_by)
    stop = asyncio.Event()
    reaching = asyncio.create_task(roles.reach(Named(), ("control",), stop))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    stop.set()
    assert await asyncio.wait_for(reaching, 5) is None
