"""WatchJob over attempts and incidents; WatchCluster over jobs, and over being blind."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from temporalio.client import WorkflowHandle, WorkflowUpdateFailedError

from activities.asks import FollowAsk, Followed, Opened, Place, Seen, Survey, WatchClusterInput, WatchJobInput
from activities.messaging import Messaging
from activities.search import cluster_attributes, job_attributes
from rerail import names
from rerail.detectors import Symptom, begin
from rerail.records import (
    Attempt,
    ClusterState,
    FaultClass,
    JobKey,
    JobWatch,
    Kind,
    Recovery,
    Result,
)
from tests.workflows.players import AT, ATTEMPT, CLUSTER, JOB, Theatre, fails, in_turn, stays, until

SECOND = ATTEMPT.model_copy(update={"number": 2, "restarts": 1})
INCIDENT = names.remediate_job_id(ATTEMPT)


def follow(attempt: Attempt = ATTEMPT, **more: Any) -> FollowAsk:
    return FollowAsk(attempt=attempt, places={"out": Place(offset=900)}, watched=begin(AT), **more)


def saw(seen: Seen, attempt: Attempt = ATTEMPT, *, kind: Kind | None = None, why: str = "", **more: Any) -> Followed:
    symptoms = (Symptom(kind=kind, detector="exited", why="rank 2 died", last_step=42),) if kind else ()
    return Followed(seen=seen, at=follow(attempt, **more), symptoms=symptoms, time=AT, why=why)


def recovery(run: str, *, restarted: bool = True) -> Recovery:
    return Recovery(
        attempt=1,
        kind=Kind.CRASH,
        fault=FaultClass.HARDWARE,
        cause="xid",
        step=42,
        result=Result.RECOVERED,
        restarted=restarted,
        at=AT,
        run=run,
    )


def opened(run: str, **more: bool) -> Any:
    return lambda ask: Opened(incident=names.remediate_job_id(ask.anomaly.attempt), run=run, **more)


async def watch(theatre: Theatre, *sights: Any) -> WorkflowHandle[Any, Any]:
    theatre.players.answers["follow"] = in_turn(*sights)
    return await theatre.client.start_workflow(
        names.WATCH_JOB,
        WatchJobInput(attempt=ATTEMPT),
        id=names.watch_job_id(JOB),
        task_queue=names.CONTROL_QUEUE,
        search_attributes=job_attributes(ATTEMPT),
    )


async def look(watcher: WorkflowHandle[Any, Any]) -> JobWatch:
    seen: JobWatch = await watcher.query(names.JOB_STATE, result_type=JobWatch)
    return seen


async def test_each_attempt_opens_its_own_incident_with_the_history_of_the_ones_before(theatre: Theatre) -> None:
    theatre.players.answers["open_incident"] = in_turn(opened("r1"), opened("r2"))
    watcher = await watch(
        theatre,
        saw(Seen.ANOMALY, kind=Kind.CRASH),
        saw(Seen.NEXT_ATTEMPT, SECOND),
        saw(Seen.ANOMALY, SECOND, kind=Kind.HANG),
        stays,
    )
    await until(lambda: len(theatre.players.asked("open_incident")) >= 1, "incident")
    await watcher.signal(names.CLOSED, recovery("r1"))
    await until(lambda: len(theatre.players.asked("follow")) == 4, "fourth follow")
    first, second = theatre.players.asked("open_incident")
    assert first.anomaly.id == f"{ATTEMPT}#1"
    assert second.anomaly.id == f"{SECOND}#2"
    assert names.remediate_job_id(first.anomaly.attempt) != names.remediate_job_id(second.anomaly.attempt)
    state = await look(watcher)
    assert state.attempt == SECOND
    assert [r.cause for r in state.history] == ["xid"]
    assert state.incident == names.remediate_job_id(SECOND)


async def test_that_an_incident_was_opened_is_told_once_and_not_of_a_sighting_that_only_joins(theatre: Theatre) -> None:
    theatre.players.answers["open_incident"] = in_turn(opened("r1", tells=True), opened("r1", tells=True, joined=True))
    await watch(theatre, saw(Seen.ANOMALY, kind=Kind.HANG), saw(Seen.ANOMALY, kind=Kind.CRASH), stays)
    await until(lambda: len(theatre.players.asked("follow")) == 3, "third follow")
    assert theatre.players.told == ["opened"]


async def test_a_new_attempt_is_followed_from_where_the_old_one_ended_with_fresh_detectors(theatre: Theatre) -> None:
    await watch(theatre, saw(Seen.NEXT_ATTEMPT, SECOND, blind=True), stays)
    await until(lambda: len(theatre.players.asked("follow")) == 2, "second follow")
    again = theatre.players.asked("follow")[1]
    assert again.attempt == SECOND
    assert again.watched is None
    assert again.places == {"out": Place(offset=900, begin=900)}
    assert again.blind  # announced already: not told a second time


async def test_a_watcher_ends_with_its_job(theatre: Theatre) -> None:
    watcher = await watch(theatre, saw(Seen.ENDED, why="the job is completed"))
    assert await watcher.result() == "the job is completed"


async def test_an_ended_jobs_watcher_waits_for_its_incident_and_looks_whether_it_was_started_again(theatre: Theatre) -> None:
    theatre.players.answers["open_incident"] = opened("r1")
    watcher = await watch(
        theatre,
        saw(Seen.ANOMALY, kind=Kind.HANG),
        saw(Seen.ENDED, why="the job is timeout"),
        saw(Seen.NEXT_ATTEMPT, SECOND),
        saw(Seen.ENDED, SECOND, why="the job is completed"),
    )
    await until(lambda: len(theatre.players.asked("follow")) == 2, "end of the first attempt")
    assert (await look(watcher)).incident == INCIDENT
    await watcher.signal(names.CLOSED, recovery("r1"))
    assert await watcher.result() == "the job is completed"
    assert len(theatre.players.asked("follow")) == 4


async def test_an_incident_that_was_terminated_by_hand_does_not_keep_the_watcher_for_ever(theatre: Theatre) -> None:
    theatre.players.answers["open_incident"] = opened("r1")
    ended = saw(Seen.ENDED, why="the job is cancelled")
    watcher = await watch(theatre, saw(Seen.ANOMALY, kind=Kind.CRASH), ended, ended)
    assert await watcher.result() == "the job is cancelled"
    description = await watcher.describe()
    assert description.close_time is not None
    assert description.close_time - description.start_time >= timedelta(days=3)


async def test_word_that_an_incident_is_closed_may_come_before_word_that_it_was_opened(theatre: Theatre) -> None:
    async def closed_at_once(ask: Any) -> Opened:
        await theatre.client.get_workflow_handle(names.watch_job_id(JOB)).signal(names.CLOSED, recovery("r1"))
        return Opened(incident=INCIDENT, run="r1")

    theatre.players.answers["open_incident"] = closed_at_once
    watcher = await watch(theatre, saw(Seen.ANOMALY, kind=Kind.CRASH), stays)
    await until(lambda: len(theatre.players.asked("follow")) == 2, "second follow")
    assert (await look(watcher)).incident == ""


async def test_the_end_of_an_older_incident_does_not_hide_the_open_one(theatre: Theatre) -> None:
    theatre.players.answers["open_incident"] = opened("r2")
    watcher = await watch(theatre, saw(Seen.ANOMALY, kind=Kind.CRASH), stays)
    await until(lambda: len(theatre.players.asked("follow")) == 2, "second follow")
    await watcher.signal(names.CLOSED, recovery("r1"))
    state = await look(watcher)
    assert state.incident == INCIDENT
    assert len(state.history) == 1


async def test_a_log_that_cannot_be_read_is_kept_and_told_once_and_so_is_its_return(theatre: Theatre) -> None:
    await watch(theatre, saw(Seen.BLIND, blind=True, why="permission denied"), saw(Seen.SIGHTED), stays)
    await until(lambda: len(theatre.players.asked("tell")) == 2, "notices")
    assert [(str(n.kind), n.text) for n in theatre.players.asked("note")] == [
        ("blind", "the log of job 41001 can't be read: permission denied"),
        ("sighted", "the log of job 41001 can be read again"),
    ]
    assert theatre.players.told == ["blind", "sighted"]
    assert len({n.key for n in theatre.players.asked("note")}) == 2


async def test_whatever_is_sent_by_its_messages_names_the_watcher_lives_on(theatre: Theatre) -> None:
    watcher = await watch(theatre, stays)
    wrong: list[list[Any]] = [[], [None], ["x", "y"], [7], [{"attempt": "first"}], [{}, {}]]
    for args in wrong:
        await watcher.signal(names.CLOSED, args=args)
        with pytest.raises(WorkflowUpdateFailedError):
            await watcher.execute_update(names.REMEDIATE, args=args)
    assert (await look(watcher)).history == ()


async def test_a_remediation_that_is_refused_answers_with_its_sentence(theatre: Theatre) -> None:
    theatre.players.answers["open_incident"] = fails("no room for another incident")
    messaging = Messaging(theatre.client)
    theatre.players.answers["request_remediation"] = messaging.request_remediation
    watcher = await cluster(theatre)
    with pytest.raises(WorkflowUpdateFailedError) as caught:
        await watcher.execute_update(names.REMEDIATE, {"job_id": "41001", "by": "ada", "reason": "stuck"})
    assert "no room for another incident" in str(caught.value.cause)


async def test_a_request_opens_an_incident_with_the_persons_name_and_reason(theatre: Theatre) -> None:
    theatre.players.answers["request_remediation"] = Messaging(theatre.client).request_remediation
    watcher = await cluster(theatre)
    said = await watcher.execute_update(names.REMEDIATE, {"job_id": "41001", "by": "ada", "reason": "stuck"})
    assert said == INCIDENT
    seen = theatre.players.asked("open_incident")[0].anomaly
    assert (seen.kind, seen.detector, seen.requested_by, seen.why) == (Kind.NONE, "request", "ada", "stuck")


# WatchCluster


def attempt_of(job_id: str, **more: Any) -> Attempt:
    return ATTEMPT.model_copy(update={"job": JobKey(cluster=CLUSTER, job_id=job_id, submitted_at=AT), **more})


def survey(*appeared: str, **more: Any) -> Survey:
    return Survey(read_at=AT, appeared=tuple(attempt_of(job) for job in appeared), **more)


async def cluster(theatre: Theatre, *surveys: Any) -> WorkflowHandle[Any, Any]:
    theatre.players.answers["survey"] = in_turn(*surveys, stays)
    return await theatre.client.start_workflow(
        names.WATCH_CLUSTER,
        WatchClusterInput(cluster=CLUSTER),
        id=names.watch_cluster_id(CLUSTER),
        task_queue=names.CONTROL_QUEUE,
        search_attributes=cluster_attributes(CLUSTER),
    )


async def knows(watcher: WorkflowHandle[Any, Any]) -> ClusterState:
    seen: ClusterState = await watcher.query(names.CLUSTER_STATE, result_type=ClusterState)
    return seen


async def test_jobs_that_come_are_watched_and_jobs_that_go_are_forgotten(theatre: Theatre) -> None:
    again = attempt_of("2", number=2, restarts=1)
    watcher = await cluster(theatre, survey("1", "2"), survey(updated=(again,)), survey("3", gone=("1",)))
    await until(lambda: len(theatre.players.asked("survey")) == 4, "fourth survey")
    assert {a.job.job_id: a.number for a in (await knows(watcher)).jobs} == {"2": 2, "3": 1}
    await until(lambda: len(theatre.players.asked("follow")) == 3, "three watchers")
    assert [sorted(ask.known) for ask in theatre.players.asked("survey")] == [[], ["1", "2"], ["1", "2"], ["2", "3"]]


async def test_an_id_that_is_given_to_another_job_gets_another_watcher(theatre: Theatre) -> None:
    other = Attempt(job=JobKey(cluster=CLUSTER, job_id="1", submitted_at=AT + timedelta(days=9)), number=1)
    await cluster(theatre, survey("1"), Survey(read_at=AT, appeared=(other,)))
    await until(lambda: len(theatre.players.asked("follow")) == 2, "two watchers")
    assert {names.watch_job_id(ask.attempt.job) for ask in theatre.players.asked("follow")} == {
        names.watch_job_id(attempt_of("1").job),
        names.watch_job_id(other.job),
    }


async def test_being_blind_is_kept_and_told_once_forgets_no_job_and_ends_with_a_word(theatre: Theatre) -> None:
    blind = Survey(read_at=AT, blind_since=AT, blind_why="slurmctld does not answer")
    gate = asyncio.Event()

    async def until_told(_: Any) -> Survey:
        await gate.wait()
        return Survey(read_at=AT)

    watcher = await cluster(theatre, survey("1"), blind, blind, until_told)
    await until(lambda: len(theatre.players.asked("survey")) == 4, "fourth survey")
    now = await knows(watcher)
    assert now.blind_since == AT
    assert now.blind_why == "slurmctld does not answer"
    assert [a.job.job_id for a in now.jobs] == ["1"]
    gate.set()
    await until(lambda: len(theatre.players.asked("survey")) == 5, "fifth survey")
    assert (await knows(watcher)).blind_since is None
    assert [(str(n.kind), n.text) for n in theatre.players.asked("note")] == [
        ("blind", "alpha can't be read: slurmctld does not answer"),
        ("sighted", "alpha can be read again"),
    ]
    await until(lambda: theatre.players.told == ["blind", "sighted"], "notices")


@pytest.mark.parametrize(
    "message", [None, [], "41001", {}, {"job_id": 41001}, {"job_id": "1; rm -rf /"}, {"job_id": "$(id)"}], ids=repr
)
async def test_a_job_that_cannot_be_meant_is_refused_without_asking_the_scheduler(theatre: Theatre, message: Any) -> None:
    watcher = await cluster(theatre)
    for name in (names.WATCH, names.REMEDIATE):
        with pytest.raises(WorkflowUpdateFailedError):
            await watcher.execute_update(name, message)
    assert theatre.players.asked("find_job") == []


async def test_a_job_that_the_scheduler_does_not_know_is_refused_with_its_sentence(theatre: Theatre) -> None:
    theatre.players.answers["find_job"] = fails("the scheduler does not know job 7; look with squeue", "NoSuchJob")
    watcher = await cluster(theatre)
    with pytest.raises(WorkflowUpdateFailedError) as caught:
        await watcher.execute_update(names.WATCH, {"job_id": "7"})
    assert "the scheduler does not know job 7; look with squeue" in str(caught.value.cause)


async def test_watching_a_job_twice_finds_the_living_watcher(theatre: Theatre) -> None:
    watcher = await cluster(theatre)
    said = [await watcher.execute_update(names.WATCH, {"job_id": "41001"}) for _ in range(2)]
    assert said == [names.watch_job_id(JOB)] * 2
    await until(lambda: len(theatre.players.asked("follow")) == 1, "one watcher")
