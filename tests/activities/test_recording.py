"""Who approved, as Temporal recorded it; notices on several channels of which some are dead; rows kept once."""

import uuid
from typing import Any

import pytest
from temporalio.api.common.v1 import Payloads, WorkflowExecution
from temporalio.api.workflowservice.v1 import SignalWorkflowExecutionRequest

from activities.recording import Recording
from rerail import names
from rerail.errors import Refused, Transient
from rerail.records import Result
from tests.activities.paper import PaperAudit, PaperChannel
from tests.workflows.conftest import theatre as theatre  # noqa: PLC0414 - the fixture is wanted here, too
from tests.workflows.players import TELL, Played, Theatre, proposes, until


async def signal_as(theatre: Theatre, played: Played, name: str, message: Any, identity: str) -> None:
    """A signal with an identity of its own."""
    payloads = await theatre.client.data_converter.encode([message])
    request = SignalWorkflowExecutionRequest(
        namespace=theatre.client.namespace,
        workflow_execution=WorkflowExecution(workflow_id=played.handle.id),
        signal_name=name,
        input=Payloads(payloads=payloads),
        identity=identity,
        request_id=uuid.uuid4().hex,
    )
    await theatre.client.workflow_service.signal_workflow_execution(request)


async def test_the_identity_is_that_of_the_message_that_was_taken_and_not_of_one_without_effect(theatre: Theatre) -> None:
    audit = PaperAudit()
    theatre.players.answers["record_decision"] = Recording(audit, (), theatre.client).record_decision
    played = await theatre.waiting()
    await signal_as(theatre, played, names.APPROVE, {"by": "mallory"}, "mallory@nowhere")
    await signal_as(theatre, played, names.REJECT, None, "eve@nowhere")
    await signal_as(theatre, played, names.APPROVE, {"by": "ada", "reason": "seen it", "plan": "0ld"}, "old@oncall")
    await signal_as(theatre, played, names.APPROVE, {"by": "ada", "reason": "seen it"}, "ada@oncall")
    await played.ends_as(Result.RECOVERED)
    incident = await played.look()
    assert incident.decided is not None
    assert incident.decided.identity == "ada@oncall"
    kept = list(audit.kept.values())
    assert [(row.actor, row.body["identity"]) for row in kept] == [("ada", "ada@oncall")]


@pytest.mark.parametrize("way", ["update", "cancel"])
async def test_the_identity_of_an_update_and_of_a_cancellation_is_kept(theatre: Theatre, way: str) -> None:
    audit = PaperAudit()
    theatre.players.answers["record_decision"] = Recording(audit, (), theatre.client).record_decision
    played = await theatre.waiting()
    await (played.decide("reject") if way == "update" else played.handle.cancel())
    await played.ends_as(Result.REJECTED)
    assert [row.body["way"] for row in audit.kept.values()] == [way]
    assert [row.body["identity"] for row in audit.kept.values()] == [theatre.client.identity]


def channels_of(theatre: Theatre, *channels: PaperChannel) -> None:
    theatre.players.answers["tell"] = Recording(PaperAudit(), channels, theatre.client).tell


async def test_a_channel_that_fails_for_a_while_is_tried_again_and_the_others_tell_it_once(theatre: Theatre) -> None:
    first, slow, last = PaperChannel("first"), PaperChannel("slow", [Transient("no answer")] * 3), PaperChannel("last")
    channels_of(theatre, first, slow, last)
    theatre.players.answers["propose"] = proposes(TELL)
    played = await theatre.incident()
    await played.ends_as(Result.NO_ACTION)
    for channel in (first, slow, last):
        assert sorted(str(notice.kind) for notice in channel.sent) == ["done"], channel.name


async def test_a_dead_channel_keeps_no_other_from_telling_it(theatre: Theatre) -> None:
    dead, alive = PaperChannel("dead", [Transient("nobody listens there")] * 10_000), PaperChannel("alive")
    channels_of(theatre, dead, alive)
    theatre.players.answers["propose"] = proposes(TELL)
    played = await theatre.incident()
    await until(lambda: len(alive.sent) == 1, "the notice")
    await played.ends_as(Result.NO_ACTION)
    assert len(alive.sent) == 1


async def test_what_a_channel_refuses_for_good_is_not_tried_again(theatre: Theatre) -> None:
    strict = PaperChannel("strict", [Refused("the secret is wrong")])
    channels_of(theatre, strict)
    theatre.players.answers["propose"] = proposes(TELL)
    played = await theatre.incident()
    await played.ends_as(Result.NO_ACTION)
    assert strict.sent == []
    assert strict.fails == []
