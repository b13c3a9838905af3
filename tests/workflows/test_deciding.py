"""A person is asked: approval, rejection, expiry, and everything that is no decision."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from temporalio.client import WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError

from rerail import names
from rerail.records import Result, Stage
from tests.workflows.players import ELSEWHERE, IN_PLACE, REFUSAL, STOP, TELL, Theatre, fails, proposes, stays, until


async def test_an_approved_plan_is_carried_out_in_its_order(theatre: Theatre) -> None:
    played = await theatre.waiting()
    assert theatre.players.acted == []
    assert await played.decide("approve", plan=ELSEWHERE.id) == "approve by ada is taken"
    assert await played.ends_as(Result.RECOVERED) == "past it"
    assert theatre.players.acted == ["requeue", "exclude", "start"]
    assert theatre.players.asked("exclude")[0].nodes == ("gpu-02",)


async def test_a_rejected_plan_changes_nothing(theatre: Theatre) -> None:
    played = await theatre.waiting()
    await played.decide("reject", reason="wrong node")
    assert await played.ends_as(Result.REJECTED) == "rejected by ada, nothing done: wrong node"
    assert theatre.players.acted == []
    assert len(theatre.players.asked("record_decision")) == 1


async def test_silence_expires_after_one_reminder_and_changes_nothing(theatre: Theatre) -> None:
    played = await theatre.waiting()
    why = await played.ends_as(Result.EXPIRED)
    assert why == "expired, nothing done: nobody decided in time"
    assert theatre.players.acted == []
    assert theatre.players.told == ["waiting", "reminder", "done"]
    incident = await played.look()
    assert incident.expires_at is not None
    assert incident.waiting_since is not None
    assert incident.expires_at - incident.waiting_since == timedelta(seconds=1800)


async def test_a_decision_before_the_reminder_sends_no_reminder(theatre: Theatre) -> None:
    played = await theatre.waiting()
    await played.decide("approve")
    await played.ends_as(Result.RECOVERED)
    assert "reminder" not in theatre.players.told


async def test_cancel_while_waiting_means_reject(theatre: Theatre) -> None:
    played = await theatre.waiting()
    await played.handle.cancel()
    assert "cancellation requested" in await played.ends_as(Result.REJECTED)
    assert theatre.players.acted == []
    assert theatre.players.asked("record_decision")[0].recorded.way == "cancel"


async def test_cancel_before_the_plan_means_reject(theatre: Theatre) -> None:
    gate = asyncio.Event()
    examine = theatre.players.answers["examine"]
    theatre.players.answers["examine"] = lambda ask: waits(gate, examine(ask))
    played = await theatre.incident()
    await until(lambda: theatre.players.asked("examine"), "examination")
    await played.handle.cancel()
    gate.set()
    assert "cancellation requested" in await played.ends_as(Result.REJECTED)
    assert theatre.players.acted == []


async def test_cancel_before_the_plan_holds_in_autonomous_mode_too(theatre: Theatre) -> None:
    gate = asyncio.Event()
    examine = theatre.players.answers["examine"]
    theatre.players.answers["examine"] = lambda ask: waits(gate, examine(ask))
    theatre.players.answers["propose"] = proposes(ELSEWHERE.model_copy(update={"ask": False}))
    played = await theatre.incident()
    await until(lambda: theatre.players.asked("examine"), "examination")
    await played.handle.cancel()
    gate.set()
    await played.ends_as(Result.REJECTED)
    assert theatre.players.acted == []


async def waits(gate: asyncio.Event, answer: Any) -> Any:
    await gate.wait()
    return answer


async def test_cancel_while_verifying_ends_the_watching_and_says_so(theatre: Theatre) -> None:
    theatre.players.answers["verify"] = stays
    played = await theatre.waiting()
    await played.decide("approve")
    await played.reaches(Stage.VERIFYING)
    await played.handle.cancel()
    assert "a person ended the watching" in await played.ends_as(Result.FAILED)
    assert theatre.players.acted == ["requeue", "exclude", "start"]


async def test_of_two_decisions_at_once_one_wins_and_the_other_is_refused(theatre: Theatre) -> None:
    played = await theatre.waiting()
    said = await asyncio.gather(played.decide("approve"), played.decide("reject", by="bob"), return_exceptions=True)
    refused = [answer for answer in said if isinstance(answer, WorkflowUpdateFailedError)]
    assert len(refused) == 1
    assert "decided already" in sentence(refused[0])
    incident = await played.ends()
    assert incident.decided is not None
    assert f"{incident.decided.decision.verdict} by {incident.decided.decision.by} is taken" in said
    assert len(theatre.players.asked("record_decision")) == 1


async def test_approval_after_a_rejection_is_refused_and_changes_nothing(theatre: Theatre) -> None:
    theatre.players.answers["record_decision"] = stays
    played = await theatre.waiting()
    await played.decide("reject")
    with pytest.raises(WorkflowUpdateFailedError) as caught:
        await played.decide("approve")
    assert "decided already: reject by ada; nothing changes" in sentence(caught.value)
    await played.handle.signal(names.APPROVE, {"reason": "no, do it", "by": "bob"})
    await played.notes("a signal approve had no effect: decided already")
    assert theatre.players.acted == []


async def test_a_decision_for_an_older_plan_is_refused(theatre: Theatre) -> None:
    played = await theatre.waiting()
    with pytest.raises(WorkflowUpdateFailedError) as caught:
        await played.decide("approve", plan="0ld")
    assert "the plan is p1 now, not 0ld: read the new proposal first" in sentence(caught.value)
    await played.handle.signal(names.APPROVE, {"reason": "seen", "by": "bob", "plan": "0ld"})
    await played.notes("the plan is p1 now, not 0ld")
    assert (await played.look()).decided is None


def sentence(refused: WorkflowUpdateFailedError) -> str:
    """What the person reads."""
    assert isinstance(refused.cause, ApplicationError)
    return refused.cause.message


BAD_MESSAGES: dict[str, Any] = {
    "nothing": None,
    "a word": "approve",
    "a number": 7,
    "a list": [{"verdict": "approve"}],
    "an empty object": {},
    "no reason": {"verdict": "approve", "by": "ada"},
    "an empty reason": {"verdict": "approve", "by": "ada", "reason": "  "},
    "an unprintable reason": {"verdict": "approve", "by": "ada", "reason": "\u0000\u200b"},
    "a reason that is an object": {"verdict": "approve", "by": "ada", "reason": {"why": "x"}},
    "a name that is a number": {"verdict": "approve", "by": 7, "reason": "x"},
    "a reason without an end": {"verdict": "approve", "by": "ada", "reason": "x" * 100_000},
    "a plan that is a list": {"verdict": "approve", "by": "ada", "reason": "x", "plan": ["p1"]},
}
BAD_VERDICTS: dict[str, Any] = {
    "no verdict": {"by": "ada", "reason": "x"},
    "another verdict": {"verdict": "yes", "by": "ada", "reason": "x"},
    "a verdict that is a list": {"verdict": ["approve"], "by": "ada", "reason": "x"},
    "a verdict that is an object": {"verdict": {"approve": True}, "by": "ada", "reason": "x"},
    "a verdict that is true": {"verdict": True, "by": "ada", "reason": "x"},
}


async def test_an_update_of_any_wrong_shape_is_refused_with_a_sentence_and_changes_nothing(theatre: Theatre) -> None:
    played = await theatre.waiting()
    for name, message in (BAD_MESSAGES | BAD_VERDICTS).items():
        with pytest.raises(WorkflowUpdateFailedError) as caught:
            await played.handle.execute_update(names.DECIDE, message)
        said = sentence(caught.value)
        assert "send {" in said or "say it shorter" in said, f"{name}: {said}"
        assert "Error" not in said
    with pytest.raises(WorkflowUpdateFailedError) as caught:
        await played.handle.execute_update(names.DECIDE)
    assert "a JSON object is needed" in sentence(caught.value)
    incident = await played.look()
    assert incident.stage is Stage.AWAITING_APPROVAL
    assert incident.decided is None
    history = await played.handle.fetch_history()
    assert not [e for e in history.events if e.HasField("workflow_execution_update_accepted_event_attributes")]


async def test_signals_of_any_wrong_shape_leave_a_note_and_change_nothing(theatre: Theatre) -> None:
    played = await theatre.waiting()
    for message in BAD_MESSAGES.values():
        await played.handle.signal(names.APPROVE, message)
        await played.handle.signal(names.REJECT, message)
    incident = await played.look()
    assert incident.stage is Stage.AWAITING_APPROVAL
    assert incident.decided is None
    assert len(incident.notes) == 10
    assert all(note.startswith("a signal ") and " had no effect: " in note for note in incident.notes)
    await played.decide("approve")
    await played.ends_as(Result.RECOVERED)


@pytest.mark.parametrize("signal", [names.APPROVE, names.REJECT, names.RESUMED])
@pytest.mark.parametrize("args", [[], [None], ["a", "b"], [{"reason": "x", "by": "ada"}, {"reason": "y", "by": "bob"}]], ids=repr)
async def test_signals_with_none_or_too_many_arguments_leave_the_incident_alive(
    theatre: Theatre, signal: str, args: list[Any]
) -> None:
    played = await theatre.waiting()
    await played.handle.signal(signal, args=args)
    incident = await played.look()
    assert incident.stage is Stage.AWAITING_APPROVAL
    assert incident.decided is None
    await played.decide("approve")
    await played.ends_as(Result.RECOVERED)


async def test_a_signal_before_the_plan_has_no_effect(theatre: Theatre) -> None:
    theatre.players.answers["examine"] = stays
    played = await theatre.incident()
    await until(lambda: theatre.players.asked("examine"), "examination")
    await played.handle.signal(names.APPROVE, {"reason": "go", "by": "ada"})
    assert "the incident is diagnosing" in await played.notes("a signal approve had no effect")
    assert (await played.look()).decided is None


@pytest.mark.parametrize(("signal", "result"), [(names.APPROVE, Result.RECOVERED), (names.REJECT, Result.REJECTED)])
async def test_a_signal_decides_where_no_update_can(theatre: Theatre, signal: str, result: Result) -> None:
    played = await theatre.waiting()
    await played.handle.signal(signal, {"reason": "no worker answers", "by": "ada"})
    await played.ends_as(result)
    assert theatre.players.asked("record_decision")[0].recorded.way == "signal"


async def test_of_two_signals_the_first_wins(theatre: Theatre) -> None:
    played = await theatre.waiting()
    await played.handle.signal(names.REJECT, {"reason": "no", "by": "ada"})
    await played.handle.signal(names.APPROVE, {"reason": "yes", "by": "bob"})
    assert await played.ends_as(Result.REJECTED) == "rejected by ada, nothing done: no"
    assert theatre.players.acted == []


async def test_autonomous_mode_acts_without_asking_and_keeps_who_decided(theatre: Theatre) -> None:
    theatre.players.answers["propose"] = proposes(IN_PLACE.model_copy(update={"ask": False}))
    played = await theatre.incident()
    await played.ends_as(Result.RECOVERED)
    assert theatre.players.acted == ["requeue", "start"]
    assert theatre.players.told == ["done"]
    taken = theatre.players.asked("record_decision")[0].recorded
    assert (taken.way, taken.decision.by) == ("policy", "policy")


@pytest.mark.parametrize(("plan", "result"), [(TELL, Result.NO_ACTION), (REFUSAL, Result.REFUSED)])
async def test_a_plan_without_an_effect_asks_nobody_and_ends(theatre: Theatre, plan: Any, result: Result) -> None:
    theatre.players.answers["propose"] = proposes(plan)
    played = await theatre.incident()
    assert await played.ends_as(result)
    assert theatre.players.acted == []
    assert not theatre.players.asked("record_decision")


async def test_an_approved_stop_is_done_and_ends_the_story(theatre: Theatre) -> None:
    theatre.players.answers["propose"] = proposes(STOP)
    played = await theatre.waiting()
    await played.decide("approve")
    assert await played.ends_as(Result.STOPPED) == "it would fail again"
    assert theatre.players.acted == ["stop"]


async def test_examination_that_can_never_succeed_ends_in_one_sentence(theatre: Theatre) -> None:
    theatre.players.answers["examine"] = fails("the scheduler does not know job 41001", "NoSuchJob")
    played = await theatre.incident()
    assert await played.ends_as(Result.FAILED) == "the scheduler does not know job 41001"
    assert len(theatre.players.asked("close")) == 1
