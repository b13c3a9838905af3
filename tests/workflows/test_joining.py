"""A second sighting of the same attempt joins the incident; what it may change depends on when it comes."""

import asyncio
from typing import Any

import pytest
from temporalio.client import WithStartWorkflowOperation, WorkflowUpdateFailedError
from temporalio.common import WorkflowIDConflictPolicy

from activities.asks import RemediateInput
from activities.messaging import Messaging
from rerail import names
from rerail.records import Kind, Result, Stage
from tests.workflows.players import (
    ATTEMPT,
    ELSEWHERE,
    IN_PLACE,
    TELL,
    Played,
    Theatre,
    anomaly,
    examined,
    held,
    in_turn,
    proposes,
    until,
)


async def test_the_sighting_that_opened_an_incident_does_not_join_it(theatre: Theatre) -> None:
    played = await theatre.waiting()
    assert not await played.joins(anomaly())
    assert (await played.look()).joined == ()


async def test_the_same_kind_again_joins_once_and_changes_no_plan(theatre: Theatre) -> None:
    played = await theatre.waiting()
    assert await played.joins(anomaly(2))
    assert await played.joins(anomaly(2))
    incident = await played.look()
    assert len(incident.joined) == 1
    assert incident.plan is not None
    assert incident.plan.id == ELSEWHERE.id
    assert len(theatre.players.asked("examine")) == 1


async def test_a_new_kind_before_the_decision_is_diagnosed_anew_and_the_old_plan_is_no_more(
    theatre: Theatre,
) -> None:
    theatre.players.answers["propose"] = in_turn(proposes(ELSEWHERE), proposes(IN_PLACE))
    played = await theatre.waiting()
    assert await played.joins(anomaly(2, Kind.HANG))

    async def new_plan() -> bool:
        incident = await played.look()
        return incident.stage is Stage.AWAITING_APPROVAL and incident.plan is not None and incident.plan.id == IN_PLACE.id

    await until(new_plan, "new plan")
    first, second = theatre.players.asked("examine")
    assert (first.revision, first.anomaly.kind) == (1, Kind.CRASH)
    assert (second.revision, second.anomaly.kind) == (2, Kind.HANG)
    assert second.anomaly.last_step == 42
    with pytest.raises(WorkflowUpdateFailedError):
        await played.decide("approve", plan=ELSEWHERE.id)
    await played.decide("approve", plan=IN_PLACE.id)
    await played.ends_as(Result.RECOVERED)
    assert theatre.players.acted == ["requeue", "start"]


async def test_an_approval_is_never_carried_over_to_a_plan_that_a_newer_sighting_brings(theatre: Theatre) -> None:
    gate = asyncio.Event()
    theatre.players.answers["examine"] = in_turn(examined, held(gate, examined))
    theatre.players.answers["propose"] = in_turn(proposes(ELSEWHERE), proposes(IN_PLACE))
    played = await theatre.waiting()
    said = await asyncio.gather(
        played.joins(anomaly(2, Kind.HANG)),
        *(played.decide("approve", by=f"ada-{n}") for n in range(3)),
        return_exceptions=True,
    )
    gate.set()
    taken = [answer for answer in said if isinstance(answer, str)]
    incident = await played.look()
    if taken:  # the decision was faster: then the sighting only joins
        assert (await played.ends()).plan == incident.plan
        assert theatre.players.acted == ["requeue", "exclude", "start"]
    else:
        assert incident.decided is None


async def test_a_new_kind_after_the_decision_only_joins(theatre: Theatre) -> None:
    gate = asyncio.Event()
    verify = theatre.players.answers["verify"]
    theatre.players.answers["verify"] = held(gate, verify)
    played = await theatre.waiting()
    await played.decide("approve")
    await played.reaches(Stage.VERIFYING)
    assert await played.joins(anomaly(2, Kind.HANG))
    gate.set()
    await played.ends_as(Result.RECOVERED)
    assert len(theatre.players.asked("examine")) == 1
    assert len((await played.look()).joined) == 1


async def test_sightings_that_never_end_change_the_plan_a_few_times_only(theatre: Theatre) -> None:
    played = await theatre.waiting()
    for number, kind in enumerate((Kind.HANG, Kind.STRAGGLER, Kind.HANG, Kind.STRAGGLER), 2):
        await played.joins(anomaly(number, kind))
    await until(lambda: len(theatre.players.asked("examine")) == 3, "third examination")
    await played.reaches(Stage.AWAITING_APPROVAL)
    assert len((await played.look()).joined) == 4


async def test_a_crash_that_comes_while_a_straggler_is_judged_is_not_lost(theatre: Theatre) -> None:
    gate = asyncio.Event()
    theatre.players.answers["examine"] = in_turn(held(gate, examined), examined)
    theatre.players.answers["propose"] = in_turn(proposes(TELL), proposes(ELSEWHERE))
    played = await theatre.incident(anomaly(1, Kind.STRAGGLER))
    await until(lambda: theatre.players.asked("examine"), "examination")
    await played.joins(anomaly(2, Kind.CRASH))
    gate.set()
    incident = await played.reaches(Stage.AWAITING_APPROVAL)
    assert incident.plan is not None
    assert incident.plan.id == ELSEWHERE.id
    await played.decide("approve")
    await played.ends_as(Result.RECOVERED)


async def test_a_persons_request_joins_without_a_new_diagnosis(theatre: Theatre) -> None:
    played = await theatre.waiting()
    await played.joins(anomaly(2, Kind.NONE, requested_by="ada"))
    await played.joins(anomaly(3, Kind.HANG))
    await until(lambda: len(theatre.players.asked("examine")) == 2, "second examination")
    assert theatre.players.asked("examine")[1].anomaly.kind is Kind.HANG


async def test_a_sighting_at_an_incidents_end_opens_the_next_one(theatre: Theatre) -> None:
    """The activity that reports it tries until the old one is closed; then it is the same id, and another run."""
    gate = asyncio.Event()
    theatre.players.answers["propose"] = in_turn(proposes(TELL), proposes(ELSEWHERE))
    theatre.players.answers["close"] = held(gate, lambda _: None)
    messaging = Messaging(theatre.client)
    theatre.players.answers["open_incident"] = messaging.open_incident
    first = await theatre.incident(anomaly(1, Kind.STRAGGLER))
    await until(lambda: theatre.players.asked("close"), "closing")
    with pytest.raises(WorkflowUpdateFailedError):
        await first.joins(anomaly(2, Kind.CRASH))
    gate.set()
    await first.ends_as(Result.NO_ACTION)
    start: Any = WithStartWorkflowOperation(
        names.REMEDIATE_JOB,
        RemediateInput(anomaly=anomaly(2)),
        id=names.remediate_job_id(ATTEMPT),
        task_queue=names.CONTROL_QUEUE,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
    )
    joined = await theatre.client.execute_update_with_start_workflow(
        names.REPORT_ANOMALY, anomaly(2), start_workflow_operation=start, id="2", result_type=bool
    )
    assert not joined
    second = Played(await start.workflow_handle())
    assert (await second.reaches(Stage.AWAITING_APPROVAL)).plan is not None


@pytest.mark.parametrize("args", [[], [None], ["x"], [{"id": "x"}], [{}, {}]], ids=repr)
async def test_a_report_of_any_wrong_shape_is_refused(theatre: Theatre, args: list[Any]) -> None:
    played = await theatre.waiting()
    with pytest.raises(WorkflowUpdateFailedError):
        await played.handle.execute_update(names.REPORT_ANOMALY, args=args)
    assert (await played.look()).stage is Stage.AWAITING_APPROVAL
