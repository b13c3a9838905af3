"""GuardCluster: grants within limits, once for each incident; the pause; whatever people send by its messages' names."""

from typing import Any

import pytest
from temporalio.client import WorkflowHandle, WorkflowUpdateFailedError, WorkflowUpdateStage

from rerail import names
from rerail.records import Grant, GrantAsk, GuardState
from tests.workflows.players import CLUSTER, Theatre

REQUEST = {"by": "ada", "reason": "maintenance"}


def wish(incident: str = "remediate-job/1", run: str = "r1", nodes: tuple[str, ...] = ("gpu-02",), **more: Any) -> GrantAsk:
    asked: dict[str, Any] = {"nodes_needed": 4, "nodes_eligible": 6, "job": "41001"} | more
    return GrantAsk(cluster=CLUSTER, incident=incident, run=run, nodes=nodes, **asked)


async def grant(guard: WorkflowHandle[Any, Any], ask: GrantAsk) -> Grant:
    answer: Grant = await guard.execute_update(names.GRANT, ask, result_type=Grant)
    return answer


async def state(guard: WorkflowHandle[Any, Any]) -> GuardState:
    found: GuardState = await guard.query(names.GUARD_STATE, result_type=GuardState)
    return found


async def test_the_same_incident_gets_the_same_answer_and_one_row_in_the_ledger(theatre: Theatre) -> None:
    guard = await theatre.guard()
    first = await grant(guard, wish())
    assert first.granted
    assert await grant(guard, wish(nodes_eligible=1)) == first
    assert [row.node for row in (await state(guard)).isolations] == ["gpu-02"]


async def test_another_incident_of_the_same_attempt_is_another_wish(theatre: Theatre) -> None:
    guard = await theatre.guard()
    refused = await grant(guard, wish(run="r1", nodes_eligible=4))
    assert not refused.granted
    assert (await grant(guard, wish(run="r2"))).granted
    three = await grant(guard, wish(run="r3", nodes=("a", "b", "c"), nodes_eligible=9))
    assert not three.granted
    assert three.reason == "3 nodes at once; at most 2 an incident"


async def test_pause_and_resume_say_what_they_did_and_keep_it_once(theatre: Theatre) -> None:
    guard = await theatre.guard()
    said = [
        await guard.execute_update(name, REQUEST) for name in (names.RESUME, names.PAUSE, names.PAUSE, names.RESUME, names.RESUME)
    ]
    assert said == [
        "alpha is not paused",
        "alpha is paused: nothing is done to it until somebody resumes it",
        "alpha is paused already, by ada: maintenance",
        "alpha is resumed; 0 incidents go on",
        "alpha is not paused",
    ]
    assert [(str(ask.kind), ask.actor, ask.text) for ask in theatre.players.asked("note")] == [
        ("pause", "ada", "maintenance"),
        ("resume", "ada", "maintenance"),
    ]


async def test_a_pause_that_cannot_be_recorded_yet_holds_already(theatre: Theatre) -> None:
    def locked(_: Any) -> None:
        raise RuntimeError("database is locked")

    theatre.players.answers["note"] = locked
    guard = await theatre.guard()
    await guard.start_update(names.PAUSE, REQUEST, wait_for_stage=WorkflowUpdateStage.ACCEPTED)
    assert (await state(guard)).paused


async def test_whatever_is_sent_by_its_messages_names_the_guard_lives_on(theatre: Theatre) -> None:
    guard = await theatre.guard()
    unclear: dict[str, Any] = {"by": ["ada"], "reason": "x"}
    wrong: list[list[Any]] = [[], [None], ["x", "y"], [7], [{"by": "ada"}], [unclear], [{}, {}], [[]]]
    for args in wrong:
        await guard.signal(names.AWAIT_RESUME, args=args)
        for name in (names.PAUSE, names.RESUME, names.GRANT):
            with pytest.raises(WorkflowUpdateFailedError):
                await guard.execute_update(name, args=args)
    now = await state(guard)
    assert now == GuardState(cluster=CLUSTER)


async def test_an_incident_that_is_long_gone_does_not_keep_the_others_from_waking(theatre: Theatre) -> None:
    guard = await theatre.guard()
    await guard.execute_update(names.PAUSE, REQUEST)
    await guard.signal(names.AWAIT_RESUME, "remediate-job/long-gone")
    await guard.signal(names.AWAIT_RESUME, "remediate-job/long-gone")
    played = await theatre.waiting()
    await guard.signal(names.AWAIT_RESUME, played.handle.id)
    assert (await state(guard)).waiting == ("remediate-job/long-gone", played.handle.id)
    assert "2 incidents" in await guard.execute_update(names.RESUME, REQUEST)
    history = await played.handle.fetch_history()
    signals = [e.workflow_execution_signaled_event_attributes.signal_name for e in history.events]
    assert names.RESUMED in signals
