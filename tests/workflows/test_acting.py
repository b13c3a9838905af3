"""An approved plan is carried out on facts that hold, within the guard's limits, and never while the cluster is paused."""

import time
from datetime import timedelta
from typing import Any

import pytest
from temporalio.client import WorkflowHandle

from activities.acting import PAUSED, TOO_LATE
from activities.asks import Rechecked, Verified
from rerail import names
from rerail.records import GuardState, Incident, JobState, Result, Stage, Verb
from tests.activities.paper import PaperScheduler
from tests.workflows.effects import commands, real_acting
from tests.workflows.players import ELSEWHERE, IN_PLACE, STOP, Played, Theatre, fails, in_turn, proposes, until

REQUEST = {"by": "ada", "reason": "maintenance"}


async def state(guard: WorkflowHandle[Any, Any]) -> GuardState:
    found: GuardState = await guard.query(names.GUARD_STATE, result_type=GuardState)
    return found


@pytest.mark.parametrize(
    "void",
    [
        "the job was restarted by somebody else (restart count 2, was 0)",
        "the job was cancelled meanwhile",
        "the job has completed meanwhile",
        "the time in which the scheduler can requeue the job is over; submit it again",
    ],
)
async def test_an_approval_whose_facts_no_longer_hold_changes_nothing(theatre: Theatre, void: str) -> None:
    theatre.players.answers["recheck"] = lambda _: Rechecked(void=void)
    played = await theatre.waiting()
    await played.decide("approve")
    assert await played.ends_as(Result.VOIDED) == f"nothing was done: {void}"
    assert theatre.players.acted == []
    assert len(theatre.players.asked("record_decision")) == 1


async def test_facts_that_can_never_be_read_again_void_the_approval_which_is_kept_all_the_same(theatre: Theatre) -> None:
    theatre.players.answers["recheck"] = fails("the scheduler does not know job 41001", "NoSuchJob")
    played = await theatre.waiting()
    await played.decide("approve")
    assert await played.ends_as(Result.VOIDED) == "nothing was done: the scheduler does not know job 41001"
    assert len(theatre.players.asked("record_decision")) == 1


async def test_an_isolation_that_the_guard_refuses_changes_nothing(theatre: Theatre) -> None:
    scheduler, _ = real_acting(theatre)
    await theatre.guard()
    theatre.players.answers["recheck"] = lambda _: Rechecked(nodes_needed=4, nodes_eligible=4)
    played = await theatre.waiting()
    await played.decide("approve")
    why = await played.ends_as(Result.REFUSED)
    assert why == ("nothing was done: the guard refuses the isolation: only 3 nodes would remain for a job that needs 4")
    assert commands(scheduler) == []


@pytest.mark.parametrize(
    ("plan", "broken", "kind", "result"),
    [
        (STOP, "stop", "Refused", Result.REFUSED),
        (ELSEWHERE, "requeue", "Refused", Result.REFUSED),
        (ELSEWHERE, "requeue", TOO_LATE, Result.VOIDED),
    ],
    ids=repr,
)
async def test_a_first_effect_that_can_never_be_done_ends_in_one_sentence(
    theatre: Theatre, plan: Any, broken: str, kind: str, result: Result
) -> None:
    theatre.players.answers["propose"] = proposes(plan)
    theatre.players.answers[broken] = fails("slurmctld says: access denied; give rerail the operator's right", kind)
    played = await theatre.waiting()
    await played.decide("approve")
    why = await played.ends_as(result)
    assert why == "nothing was done: slurmctld says: access denied; give rerail the operator's right"
    assert theatre.players.acted == [broken]


@pytest.mark.parametrize("broken", ["exclude", "start"])
async def test_an_effect_that_fails_after_the_requeue_is_told_and_the_rest_still_judged(theatre: Theatre, broken: str) -> None:
    theatre.players.answers[broken] = fails("the job is running already", TOO_LATE)
    played = await theatre.waiting()
    await played.decide("approve")
    await played.ends_as(Result.RECOVERED)
    note = await played.notes("after the requeue: the job is running already")
    assert note.endswith("the scheduler starts the job by itself")


async def test_a_restarted_job_that_is_not_seen_to_train_is_no_recovery(theatre: Theatre) -> None:
    theatre.players.answers["verify"] = lambda _: Verified(moving=False, why="it failed again")
    played = await theatre.waiting()
    await played.decide("approve")
    assert await played.ends_as(Result.FAILED) == "it failed again"


async def test_the_watcher_remembers_how_it_ended(theatre: Theatre) -> None:
    played = await theatre.waiting()
    await played.decide("approve")
    await played.ends_as(Result.RECOVERED)  # there is no watcher here: its absence breaks nothing
    closing = theatre.players.asked("close")
    assert len(closing) == 1
    assert set(closing[0].outcome.marks) == {"detected", "verdict", "plan", "decided", "accepted", "running", "past"}


async def paused_at(theatre: Theatre, guard: WorkflowHandle[Any, Any], scheduler: PaperScheduler) -> Played:
    """An approved incident that a pause holds up before its first effect."""
    await guard.execute_update(names.PAUSE, REQUEST)
    played = await theatre.waiting()
    await played.decide("approve")
    await played.reaches(Stage.PAUSED)

    async def waits() -> bool:
        return (await state(guard)).waiting == (played.handle.id,)

    await until(waits, "word to the guard")
    assert commands(scheduler) == []
    return played


async def test_a_pause_holds_up_all_acting_and_its_end_wakes_it_at_once(theatre: Theatre) -> None:
    scheduler, audit = real_acting(theatre)
    guard = await theatre.guard()
    played = await paused_at(theatre, guard, scheduler)
    await played.notes("acting waits: paused by ada: maintenance")
    began = time.monotonic()
    assert await guard.execute_update(names.RESUME, REQUEST) == "alpha is resumed; 1 incidents go on"
    await until(lambda: commands(scheduler) == ["requeue", "exclude", "start_now"], "acting")
    assert time.monotonic() - began < 10  # and not ASK_AGAIN_AFTER: no time is skipped here
    await played.ends_as(Result.RECOVERED)
    assert [str(row.kind) for row in audit.kept.values()] == ["action", "read_back"] * 3
    assert [str(ask.kind) for ask in theatre.players.asked("note")] == ["pause", "resume"]
    assert len(theatre.players.asked("recheck")) == 2


async def test_after_a_pause_the_facts_are_read_again(theatre: Theatre) -> None:
    scheduler, _ = real_acting(theatre)
    holds, void = Rechecked(nodes_needed=4, nodes_eligible=6), Rechecked(void="only 3 nodes remain")
    theatre.players.answers["recheck"] = in_turn(holds, void)
    guard = await theatre.guard()
    played = await paused_at(theatre, guard, scheduler)
    await guard.execute_update(names.RESUME, REQUEST)
    assert await played.ends_as(Result.VOIDED) == "nothing was done: only 3 nodes remain"
    assert commands(scheduler) == []


async def test_cancel_during_a_pause_calls_off_what_was_approved(theatre: Theatre) -> None:
    scheduler, _ = real_acting(theatre)
    guard = await theatre.guard()
    played = await paused_at(theatre, guard, scheduler)
    await played.handle.cancel()
    why = await played.ends_as(Result.REJECTED)
    assert why == "nothing was done: the workflow was cancelled before the plan that ada approved was begun"
    assert commands(scheduler) == []


async def test_a_pause_between_requeue_and_exclusion_holds_the_exclusion(theatre: Theatre) -> None:
    scheduler, _ = real_acting(theatre)
    guard = await theatre.guard()
    requeue = theatre.players.answers["requeue"]

    async def then_paused(ask: Any) -> Any:
        done = await requeue(ask)
        await guard.execute_update(names.PAUSE, REQUEST)
        return done

    theatre.players.answers["requeue"] = then_paused
    played = await theatre.waiting()
    await played.decide("approve")
    await played.reaches(Stage.PAUSED)
    assert commands(scheduler) == ["requeue"]
    await played.handle.cancel()  # too late to call it off: what was begun is seen through
    await guard.execute_update(names.RESUME, REQUEST)
    await until(lambda: commands(scheduler) == ["requeue", "exclude", "start_now"], "the rest")
    assert scheduler.jobs["41001"].excluded_nodes == ("gpu-02",)
    await played.ends()


async def test_a_pause_that_lasts_long_is_asked_about_again_and_still_holds(theatre: Theatre) -> None:
    guard = await theatre.guard()
    theatre.players.answers["requeue"] = in_turn(
        *[fails("paused by ada: maintenance", PAUSED)] * 3, theatre.players.answers["requeue"]
    )
    await guard.execute_update(names.PAUSE, REQUEST)
    played = await theatre.waiting()
    await played.decide("approve")
    await played.ends_as(Result.RECOVERED)
    assert theatre.players.acted == ["requeue"] * 4 + ["exclude", "start"]
    marks = theatre.players.asked("close")[0].outcome.marks
    assert marks["accepted"] - marks["decided"] >= timedelta(minutes=30)


async def test_a_guard_that_asks_again_and_again_grants_once(theatre: Theatre) -> None:
    real_acting(theatre)
    guard = await theatre.guard()
    played = await theatre.waiting()
    await played.decide("approve")
    await played.ends_as(Result.RECOVERED)
    held = (await state(guard)).isolations
    assert [(row.node, row.incident, row.job) for row in held] == [("gpu-02", played.handle.id, "41001")]


async def test_cancel_while_it_is_being_closed_loses_nothing(theatre: Theatre) -> None:
    theatre.players.answers["close"] = in_turn(fails_once := Wobbly(), fails_once)
    played = await theatre.waiting()
    await played.decide("reject")
    await until(lambda: theatre.players.asked("close"), "closing")
    await played.handle.cancel()
    await played.ends_as(Result.REJECTED)
    assert fails_once.kept == 1


class Wobbly:
    """A database that is locked at first."""

    def __init__(self) -> None:
        self.tries = 0
        self.kept = 0

    def __call__(self, _: Any) -> None:
        self.tries += 1
        if self.tries < 4:
            raise RuntimeError("database is locked")
        self.kept += 1


async def test_a_dead_channel_holds_up_nothing(theatre: Theatre) -> None:
    def dead(_: Any) -> None:
        raise RuntimeError("nobody listens there")

    theatre.players.answers["tell"] = dead
    played = await theatre.waiting()
    await played.decide("approve")
    await until(lambda: theatre.players.asked("close"), "closing")
    await played.ends_as(Result.RECOVERED)
    incident: Incident = await played.look()
    assert incident.decided is not None
    assert incident.decided.decision.verdict is Verb.APPROVE


async def test_without_a_channel_nobody_is_told(theatre: Theatre) -> None:
    theatre.players.answers["propose"] = proposes(IN_PLACE.model_copy(update={"ask": False}))
    played = await theatre.incident(tells=False)
    await played.ends_as(Result.RECOVERED)
    assert theatre.players.told == []


async def test_a_stop_waits_for_the_end_of_a_pause_too(theatre: Theatre) -> None:
    scheduler, _ = real_acting(theatre)
    scheduler.change("41001", state=JobState.RUNNING)
    theatre.players.answers["propose"] = proposes(STOP)
    guard = await theatre.guard()
    played = await paused_at(theatre, guard, scheduler)
    await guard.execute_update(names.RESUME, REQUEST)
    await played.ends_as(Result.STOPPED)
    assert commands(scheduler) == ["cancel"]
