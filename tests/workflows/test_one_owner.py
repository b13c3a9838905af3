"""One owner of restarts: an incident gives way to whoever restarts the job, and follows a restart of the scheduler's own."""

from typing import Any

import pytest

from activities.acting import FORGOTTEN
from activities.asks import FollowAsk, Followed, Opened, Place, Rechecked, Seen, Verified, WatchJobInput
from activities.search import job_attributes
from rerail import names
from rerail.detectors import Symptom
from rerail.records import FaultClass, Kind, Outcome, Plan, Recovery, Result, Stage, Step, StepKind
from tests.workflows.players import (
    AT,
    ATTEMPT,
    IN_PLACE,
    JOB,
    Played,
    Theatre,
    effect,
    fails,
    in_turn,
    proposes,
    stays,
    until,
    verified,
)

SECOND = ATTEMPT.model_copy(update={"number": 2, "restarts": 1})
WATCHED = Plan(id="w1", rule="scheduler-restarts", steps=(Step(kind=StepKind.WATCH, why="Slurm"),), ask=False, reasons=("Slurm",))
EXCLUDED = WATCHED.model_copy(
    update={"id": "w2", "ask": True, "steps": (Step(kind=StepKind.EXCLUDE, nodes=("gpu-02",)), *WATCHED.steps)}
)
TAKEN = Rechecked(void="the job was restarted by somebody else (restart count 1, was 0)", owner="somebody by hand")


async def closing(theatre: Theatre, played: Played) -> Outcome:
    """How the incident was kept."""
    await played.ends()
    kept: Outcome = theatre.players.asked("close")[0].outcome
    return kept


async def test_a_proposal_gives_way_at_once_when_somebody_restarts_the_job(theatre: Theatre) -> None:
    theatre.players.answers["recheck"] = lambda _: TAKEN
    played = await theatre.waiting()
    await played.handle.signal(names.MOVED_ON)
    assert await played.ends_as(Result.VOIDED) == f"nothing was done: {TAKEN.void}"
    assert theatre.players.acted == []
    assert theatre.players.asked("record_decision") == []


async def test_a_job_that_moved_and_left_the_proposal_its_ground_is_asked_about_on(theatre: Theatre) -> None:
    played = await theatre.waiting()
    await played.handle.signal(names.MOVED_ON)
    await until(lambda: theatre.players.asked("recheck"), "look at the facts")
    await played.decide("approve")
    await played.ends_as(Result.RECOVERED)
    assert theatre.players.acted == ["requeue", "exclude", "start"]


async def test_word_of_our_own_restart_changes_nothing(theatre: Theatre) -> None:
    theatre.players.answers["verify"] = stays
    played = await theatre.waiting()
    await played.decide("approve")
    await played.reaches(Stage.VERIFYING)
    await played.handle.signal(names.MOVED_ON)
    assert (await played.look()).outcome is None
    await played.handle.cancel()
    await played.ends()


@pytest.mark.parametrize("way", ["while it waits", "at the approval"])
async def test_who_took_the_job_over_is_remembered_with_it(theatre: Theatre, way: str) -> None:
    watcher = await theatre.client.start_workflow(
        names.WATCH_JOB,
        WatchJobInput(attempt=ATTEMPT),
        id=names.watch_job_id(JOB),
        task_queue=names.CONTROL_QUEUE,
        search_attributes=job_attributes(ATTEMPT),
    )
    theatre.players.answers["recheck"] = lambda _: TAKEN
    played = await theatre.waiting()
    if way == "while it waits":
        await played.handle.signal(names.MOVED_ON)
    else:
        await played.decide("approve")
    await played.ends_as(Result.VOIDED)
    history = (await watcher.query(names.JOB_STATE))["history"]
    assert [(r["owner"], r.get("restarted", False)) for r in history] == [("somebody by hand", False)]


async def test_a_restart_of_the_schedulers_own_is_watched_without_a_question_and_without_an_effect(theatre: Theatre) -> None:
    theatre.players.answers["propose"] = proposes(WATCHED)
    played = await theatre.incident()
    assert await played.ends_as(Result.RECOVERED) == "past it"
    assert theatre.players.acted == []
    incident = await played.look()
    assert incident.outcome
    assert "accepted" not in incident.outcome.marks  # it counts against no budget


async def test_beside_a_restart_of_the_schedulers_own_only_the_exclusion_is_done(theatre: Theatre) -> None:
    theatre.players.answers["propose"] = proposes(EXCLUDED)
    played = await theatre.waiting()
    await played.decide("approve")
    await played.ends_as(Result.RECOVERED)
    assert theatre.players.acted == ["exclude"]


async def test_why_a_restarted_job_waits_is_noted_and_told_and_the_watching_goes_on(theatre: Theatre) -> None:
    why = "it waits (QOSMaxJobsPerUserLimit): a limit of its QOS or account is in the way"
    waits = Verified(moving=False, why=why, waits=True, places={"out": Place(offset=77)})
    theatre.players.answers["verify"] = in_turn(waits, verified)
    played = await theatre.waiting()
    await played.decide("approve")
    await played.ends_as(Result.RECOVERED)
    await played.notes(f"restarted, and {why}")
    again = theatre.players.asked("verify")[1]
    assert (again.told, again.places, again.banned) == (why, {"out": Place(offset=77)}, ("gpu-02",))
    assert theatre.players.told.count("waiting") == 2  # for a decision, and for the queue


async def test_the_oldest_exclusion_is_taken_back_when_a_job_can_start_on_no_nodes(theatre: Theatre) -> None:
    unfit = Verified(moving=False, why="it waits (BadConstraints)", waits=True, unfit=True)
    theatre.players.answers["verify"] = in_turn(unfit, unfit, unfit, verified)
    before = Recovery(
        attempt=1,
        kind=Kind.CRASH,
        fault=FaultClass.HARDWARE,
        result=Result.RECOVERED,
        restarted=True,
        at=AT,
        excluded=("gpu-05",),
    )
    played = await theatre.incident(history=(before,))
    await played.reaches(Stage.AWAITING_APPROVAL)
    await played.decide("approve")
    await played.ends_as(Result.RECOVERED)
    assert [ask.nodes for ask in theatre.players.asked("take_back")] == [("gpu-05",), ("gpu-02",)]
    assert [ask.banned for ask in theatre.players.asked("verify")] == [("gpu-02",), ("gpu-02",), (), ()]
    await played.notes("gpu-05: taken off the job's exclusion list")


async def test_a_restart_in_place_looks_whether_earlier_exclusions_have_ended(theatre: Theatre) -> None:
    common: dict[str, Any] = {"attempt": 1, "kind": Kind.CRASH, "fault": FaultClass.HARDWARE, "at": AT}
    before = Recovery(**common, result=Result.RECOVERED, restarted=True, excluded=("gpu-05",))
    theatre.players.answers["propose"] = proposes(IN_PLACE)
    played = await theatre.incident(history=(before,))
    await played.reaches(Stage.AWAITING_APPROVAL)
    await played.decide("approve")
    await played.ends_as(Result.RECOVERED)
    (asked,) = theatre.players.asked("exclude")
    assert (asked.nodes, asked.ours) == ((), ("gpu-05",))


async def test_a_requeue_that_the_scheduler_has_forgotten_is_sent_again(theatre: Theatre) -> None:
    theatre.players.answers["exclude"] = in_turn(fails("the scheduler has forgotten the requeue of job 41001", FORGOTTEN), effect)
    played = await theatre.waiting()
    await played.decide("approve")
    await played.ends_as(Result.RECOVERED)
    assert theatre.players.acted == ["requeue", "exclude", "requeue", "exclude", "start"]
    await played.notes("its controller came back with an older state")


async def test_a_scheduler_that_forgets_every_requeue_is_left_alone_in_the_end(theatre: Theatre) -> None:
    theatre.players.answers["exclude"] = fails("the scheduler has forgotten the requeue of job 41001", FORGOTTEN)
    theatre.players.answers["verify"] = lambda _: Verified(moving=False, why="the scheduler does not show the restart")
    played = await theatre.waiting()
    await played.decide("approve")
    await played.ends_as(Result.FAILED)
    assert theatre.players.acted.count("requeue") == 3


async def test_the_watcher_reports_a_nodes_failure_for_the_attempt_that_is_over(theatre: Theatre) -> None:
    symptom = Symptom(kind=Kind.CRASH, detector="exited", why="a node of the job failed")
    at = FollowAsk(attempt=SECOND, places={"out": Place(offset=900)}, ran_on="gpu-[01-04]", dependants=("7",))
    seen = Followed(seen=Seen.NEXT_ATTEMPT, at=at, symptoms=(symptom,), time=AT, before=ATTEMPT)
    await watch(theatre, seen, stays)
    await until(lambda: len(theatre.players.asked("follow")) == 2, "second follow")
    (opened,) = theatre.players.asked("open_incident")
    assert opened.anomaly.attempt == ATTEMPT
    assert (opened.anomaly.ran_on, opened.anomaly.dependants) == ("gpu-[01-04]", ("7",))
    assert theatre.players.asked("follow")[1].ran_on == ""


async def test_the_open_incident_hears_that_the_next_attempt_is_there(theatre: Theatre) -> None:
    theatre.players.answers["recheck"] = lambda _: TAKEN
    played = await theatre.waiting()
    theatre.players.answers["open_incident"] = lambda _: Opened(incident=played.handle.id, run="r1")
    crash = Symptom(kind=Kind.CRASH, detector="exited", why="rank 2 died")
    here, there = FollowAsk(attempt=ATTEMPT), FollowAsk(attempt=SECOND)
    await watch(
        theatre,
        Followed(seen=Seen.ANOMALY, at=here, symptoms=(crash,), time=AT),
        Followed(seen=Seen.NEXT_ATTEMPT, at=there, time=AT, before=ATTEMPT),
        stays,
    )
    assert await played.ends_as(Result.VOIDED) == f"nothing was done: {TAKEN.void}"


async def watch(theatre: Theatre, *sights: Any) -> None:
    theatre.players.answers["follow"] = in_turn(*sights)
    await theatre.client.start_workflow(
        names.WATCH_JOB,
        WatchJobInput(attempt=ATTEMPT),
        id=names.watch_job_id(JOB),
        task_queue=names.CONTROL_QUEUE,
        search_attributes=job_attributes(ATTEMPT),
    )
