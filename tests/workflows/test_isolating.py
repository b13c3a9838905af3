"""A drain is done only where the approval says so; readmission takes back what rerail did to a node, and no more."""

from datetime import UTC, datetime
from typing import Any

import pytest
from temporalio.client import WorkflowHandle, WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError

from activities.asks import Annotated, Drained, Rechecked
from rerail import drains, names
from rerail.records import GrantAsk, GuardState, Job, JobState, Node, NodeState, Result, Stage, Step, StepKind
from tests.activities.paper import PaperAudit, PaperScheduler
from tests.workflows.effects import commands, real_acting
from tests.workflows.players import CLUSTER, ELSEWHERE, Played, Theatre, fails, proposes, until

DRAINING = ELSEWHERE.model_copy(update={"steps": (*ELSEWHERE.steps, Step(kind=StepKind.DRAIN, nodes=("gpu-02",), why="Xid 79"))})
BACK = {"node": "gpu-02", "by": "ada", "reason": "the GPU was replaced"}


async def ledger(guard: WorkflowHandle[Any, Any]) -> GuardState:
    found: GuardState = await guard.query(names.GUARD_STATE, result_type=GuardState)
    return found


async def isolated(theatre: Theatre, **decision: Any) -> tuple[WorkflowHandle[Any, Any], PaperScheduler, PaperAudit]:
    """A job that was restarted elsewhere, by the real effects on a cluster on paper."""
    scheduler, audit = real_acting(theatre)
    scheduler.change("41001", excluded_nodes=("gpu-06",))
    theatre.players.answers["propose"] = proposes(DRAINING)
    guard = await theatre.guard()
    played = await theatre.waiting()
    await played.decide("approve", **decision)
    await closed(played)
    return guard, scheduler, audit


def waits(scheduler: PaperScheduler) -> Job:
    """The job went back to the queue."""
    scheduler.change("41001", state=JobState.PENDING)
    return scheduler.jobs["41001"]


async def readmit(guard: WorkflowHandle[Any, Any], request: Any = BACK) -> str:
    said: str = await guard.execute_update(names.READMIT, request)
    return said


async def closed(played: Played) -> None:
    """Looked for, not waited for: while a test waits for a result the clock runs off, and a guard that lives for ever ends."""
    outcome = (await played.reaches(Stage.CLOSED)).outcome
    assert outcome is not None
    assert outcome.result is Result.RECOVERED, outcome.why


async def refused(guard: WorkflowHandle[Any, Any], request: Any = BACK) -> str:
    with pytest.raises(WorkflowUpdateFailedError) as error:
        await readmit(guard, request)
    assert isinstance(error.value.cause, ApplicationError)
    return error.value.cause.message


# Draining


async def test_a_drain_is_done_last_and_only_when_the_approval_says_so(theatre: Theatre) -> None:
    guard, scheduler, audit = await isolated(theatre, drain=True)
    assert commands(scheduler) == ["requeue", "exclude", "start_now", "drain"]
    node = scheduler.marked["gpu-02"]
    assert node.state is NodeState.DRAINED
    assert node.reason.startswith("rerail: remediate-job/alpha/41001/")
    assert node.reason.endswith(" gpu_fell_off_the_bus")
    (row,) = (await ledger(guard)).isolations
    assert (row.node, row.excluded, row.restarts, row.drained) == ("gpu-02", True, 1, node)
    steps = [key.rsplit("/", 1)[-1] for key in audit.kept]
    assert steps[-2:] == ["drain-gpu-02", "drain-gpu-02-read-back"]


async def test_without_that_word_the_node_is_only_kept_away_from_the_job(theatre: Theatre) -> None:
    guard, scheduler, _ = await isolated(theatre)
    assert "drain" not in commands(scheduler)
    (row,) = (await ledger(guard)).isolations
    assert (row.excluded, row.drained) == (True, None)


async def test_in_autonomous_mode_nobody_said_drain_so_nothing_is_drained(theatre: Theatre) -> None:
    theatre.players.answers["propose"] = proposes(DRAINING.model_copy(update={"ask": False}))
    played = await theatre.incident()
    assert await played.ends_as(Result.RECOVERED)
    assert theatre.players.acted == ["requeue", "exclude", "start"]
    assert await played.notes("gpu-02 is not drained: the decision did not say so")


@pytest.mark.parametrize("drain", ["yes", 1, None, "true"])
async def test_a_drain_that_is_no_plain_true_is_refused(theatre: Theatre, drain: Any) -> None:
    theatre.players.answers["propose"] = proposes(DRAINING)
    played = await theatre.waiting()
    with pytest.raises(WorkflowUpdateFailedError) as error:
        await played.decide("approve", drain=drain)
    assert "drain has to be true or false" in str(error.value.cause)
    assert (await played.look()).stage is Stage.AWAITING_APPROVAL


async def test_a_drain_that_was_not_proposed_cannot_be_approved(theatre: Theatre) -> None:
    played = await theatre.waiting()
    with pytest.raises(WorkflowUpdateFailedError) as error:
        await played.decide("approve", drain=True)
    assert "no drain to be approved" in str(error.value.cause)


async def test_a_node_that_cannot_be_drained_is_a_note_and_the_job_recovers(theatre: Theatre) -> None:
    why = "gpu-02 is not drained: rerail's user may not drain nodes"
    theatre.players.answers |= {"propose": proposes(DRAINING), "drain": lambda _: Drained(left=(why,))}
    played = await theatre.waiting()
    await played.decide("approve", drain=True)
    await played.ends_as(Result.RECOVERED)
    assert await played.notes(why)


async def test_a_drain_of_somebody_else_is_left_and_told(theatre: Theatre) -> None:
    scheduler, _ = real_acting(theatre)
    theirs = Node(name="gpu-02", state=NodeState.DRAINED, reason="NHC: fan is loud", reason_by="root")
    scheduler.marked["gpu-02"] = theirs
    theatre.players.answers["propose"] = proposes(DRAINING)
    guard = await theatre.guard()
    played = await theatre.waiting()
    await played.decide("approve", drain=True)
    await closed(played)
    assert await played.notes("it is drained already, by root: NHC: fan is loud")
    assert "drain" not in commands(scheduler)
    assert (await ledger(guard)).isolations[0].drained is None


# Readmission


async def test_what_rerail_did_is_taken_back_and_what_the_owner_excluded_stays(theatre: Theatre) -> None:
    guard, scheduler, audit = await isolated(theatre, drain=True)
    assert waits(scheduler).excluded_nodes == ("gpu-02", "gpu-06")
    said = await readmit(guard)
    assert said == "gpu-02 is readmitted; gpu-02 takes jobs again; job 41001 may use it again"
    assert scheduler.node("gpu-02").state is NodeState.UP
    assert scheduler.jobs["41001"].excluded_nodes == ("gpu-06",)
    assert (await ledger(guard)).isolations == ()
    assert [row.actor for row in audit.kept.values() if "/readmit/" in row.key] == ["ada", "ada"]
    (note,) = theatre.players.asked("note")
    assert (str(note.kind), note.actor, note.text) == ("readmit", "ada", "gpu-02: the GPU was replaced")
    assert "is not isolated by rerail" in await refused(guard)


async def test_a_node_that_somebody_drained_anew_stays_drained(theatre: Theatre) -> None:
    guard, scheduler, _ = await isolated(theatre, drain=True)
    ours = scheduler.marked["gpu-02"]
    scheduler.marked["gpu-02"] = ours.model_copy(update={"reason_by": "root", "reason_at": datetime.now(UTC)})
    said = await readmit(guard)
    assert f"gpu-02 was drained anew by root: {ours.reason}; rerail leaves that as it is" in said
    assert "resume" not in commands(scheduler)
    assert scheduler.node("gpu-02").state is NodeState.DRAINED


async def test_a_node_that_somebody_resumed_is_not_touched_and_the_claim_ends(theatre: Theatre) -> None:
    guard, scheduler, _ = await isolated(theatre, drain=True)
    del scheduler.marked["gpu-02"]
    assert "was resumed by somebody else" in await readmit(guard)
    assert "resume" not in commands(scheduler)
    assert (await ledger(guard)).isolations == ()


async def test_a_drained_node_that_still_runs_a_job_is_left_alone(theatre: Theatre) -> None:
    guard, scheduler, _ = await isolated(theatre, drain=True)
    scheduler.marked["gpu-02"] = scheduler.marked["gpu-02"].model_copy(update={"busy": True})
    assert "still runs somebody's job" in await refused(guard)
    assert len((await ledger(guard)).isolations) == 1
    scheduler.marked["gpu-02"] = scheduler.marked["gpu-02"].model_copy(update={"busy": False})
    assert "takes jobs again" in await readmit(guard)


async def test_the_list_of_a_job_that_runs_cannot_be_changed_and_is_told(theatre: Theatre) -> None:
    guard, scheduler, _ = await isolated(theatre)
    said = await readmit(guard)
    assert "job 41001 is running: its list keeps gpu-02 as long as it is" in said
    assert scheduler.jobs["41001"].excluded_nodes == ("gpu-02", "gpu-06")


async def test_another_job_that_was_given_the_same_id_keeps_its_list(theatre: Theatre) -> None:
    guard, scheduler, _ = await isolated(theatre)
    scheduler.change("41001", state=JobState.PENDING, restarts=0)
    await readmit(guard)
    assert scheduler.jobs["41001"].excluded_nodes == ("gpu-02", "gpu-06")


async def test_what_stood_on_the_list_before_is_not_ours_to_take_off(theatre: Theatre) -> None:
    theatre.players.answers["recheck"] = lambda _: Rechecked(nodes_needed=4, nodes_eligible=6, listed=("gpu-02",))
    guard, scheduler, _ = await isolated(theatre)
    waits(scheduler)
    assert await readmit(guard) == "gpu-02 is readmitted"
    assert scheduler.jobs["41001"].excluded_nodes == ("gpu-02", "gpu-06")


async def test_nobody_is_readmitted_while_the_cluster_is_paused(theatre: Theatre) -> None:
    guard, scheduler, _ = await isolated(theatre, drain=True)
    assert (await ledger(guard)).isolations[0].drained
    await guard.execute_update(names.PAUSE, {"by": "bob", "reason": "maintenance"})
    assert await refused(guard) == "alpha is paused by bob: maintenance; resume it first"
    assert "resume" not in commands(scheduler)


async def test_why_it_could_not_be_done_is_told_and_nothing_leaves_the_ledger(theatre: Theatre) -> None:
    guard, _, _ = await isolated(theatre, drain=True)
    theatre.players.answers["readmit"] = fails("rerail's user may not drain or resume nodes", "Misconfigured")
    assert await refused(guard) == "rerail's user may not drain or resume nodes"
    assert len((await ledger(guard)).isolations) == 1


@pytest.mark.parametrize(
    "request_", [None, "gpu-02", {}, {"node": "gpu-02"}, BACK | {"node": "a b"}, BACK | {"node": "x" * 300}, BACK | {"by": ""}]
)
async def test_a_request_that_is_none_is_refused_with_what_to_send(theatre: Theatre, request_: Any) -> None:
    guard = await theatre.guard()
    said = await refused(guard, request_)
    assert "send" in said or "node's name" in said


async def test_word_of_an_isolation_that_is_none_changes_nothing(theatre: Theatre) -> None:
    guard = await theatre.guard()
    await guard.execute_update(names.GRANT, GrantAsk(cluster=CLUSTER, incident="i", nodes=("gpu-02",), nodes_eligible=9))
    before = await ledger(guard)
    for args in ([], [None], ["x"], [{"incident": "other", "excluded": ["gpu-02"]}], [{"incident": "i", "run": "else"}]):
        await guard.signal(names.ISOLATED, args=args)
    assert await ledger(guard) == before


# The job's comment


async def test_the_verdict_is_written_when_a_person_is_asked_and_at_the_end(theatre: Theatre) -> None:
    propose = proposes(DRAINING)
    theatre.players.answers["propose"] = lambda ask: propose(ask).model_copy(update={"comment": True})
    played = await theatre.waiting()
    await until(lambda: theatre.players.asked("annotate"), "a first line")
    await played.decide("approve")
    await played.ends_as(Result.RECOVERED)
    first, last = [ask.word for ask in theatre.players.asked("annotate")]
    assert first == "crash, hardware, gpu_fell_off_the_bus on gpu-02: a person is asked"
    assert last == "crash, hardware, gpu_fell_off_the_bus on gpu-02: recovered, past it"


async def test_it_is_not_written_unless_the_settings_say_so(theatre: Theatre) -> None:
    played = await theatre.waiting()
    await played.decide("approve")
    await played.ends_as(Result.RECOVERED)
    assert theatre.players.asked("annotate") == []


async def test_a_comment_that_cannot_be_written_is_one_note_and_holds_up_nothing(theatre: Theatre) -> None:
    propose = proposes(ELSEWHERE)
    theatre.players.answers["propose"] = lambda ask: propose(ask).model_copy(update={"comment": True})
    theatre.players.answers["annotate"] = lambda _: Annotated(why_not="the job has ended")
    played = await theatre.waiting()
    await played.decide("approve")
    await played.ends_as(Result.RECOVERED)
    notes = (await played.look()).notes
    assert [n for n in notes if "comment" in n] == ["the verdict is not in the job's comment: the job has ended"]


def test_a_reason_of_ours_is_one_bounded_line_that_nobody_cuts_apart() -> None:
    reason = drains.reason_of("remediate-job/alpha/7/1/1", "a; b\n\x1b[31m" + "x" * 500)
    assert reason.isprintable()
    assert len(reason) == drains.REASON_MAX
    assert reason.startswith("rerail: remediate-job/alpha/7/1/1 a b [31mxx")
    assert drains.ours(reason)
    assert not drains.ours("NHC: rerail: x")
