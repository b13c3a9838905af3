"""Temporal or its workers are not there, or not as they should be: each gives one sentence with the next step."""

import asyncio
import socket
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import WorkflowEnvironment

from activities.search import ALL
from rerail import names
from rerail.client import Rerail, connect
from rerail.client.connection import load
from rerail.client.line import Ended, Line, NoWorker
from rerail.errors import Misconfigured, NotFound, Permanent, Refused, Unreachable, Unreadable
from rerail.records import Result, Verb
from tests.library.client.conftest import Scene, dev_server


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture
def mute() -> Iterator[str]:
    """An address that takes connections and never says a word."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield f"127.0.0.1:{listener.getsockname()[1]}"


# Connecting


async def test_a_server_that_is_not_there_is_one_sentence_at_once() -> None:
    began = time.monotonic()
    with pytest.raises(
        Unreachable, match=r"can't be reached at 127.0.0.1:1: nothing listens there; start it, or say where it is"
    ):
        await connect("127.0.0.1:1")
    assert time.monotonic() - began < 3


async def test_a_server_that_says_nothing_is_given_up(mute: str) -> None:
    with pytest.raises(Unreachable, match=r"no answer within 0.5 s"):
        await connect(mute, timeout_s=0.5)


async def test_a_host_without_a_name_is_told() -> None:
    with pytest.raises(Unreachable, match=r"there is no host of that name"):
        await connect("no-such-host.invalid:7233")


@pytest.mark.parametrize("address", ["localhost", "http://localhost:7233", "a b:1", "x\x1b[2J:1"])
async def test_what_is_no_address_is_told_with_the_form(address: str) -> None:
    with pytest.raises(Misconfigured, match=r"is no address of Temporal: write HOST:PORT") as refusal:
        await connect(address)
    assert str(refusal.value).isprintable()


async def test_a_certificate_that_nobody_trusts_and_a_missing_tls_are_told(server: WorkflowEnvironment) -> None:
    with pytest.raises(Unreachable, match=r"it speaks no TLS, but the profile asks for it"):
        await connect(server.client.service_client.config.target_host, api_key="key-of-a-test")


# Settings


@pytest.fixture
def profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("TEMPORAL_ADDRESS", "TEMPORAL_NAMESPACE", "TEMPORAL_PROFILE", "TEMPORAL_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    file = tmp_path / "temporal.toml"
    file.write_text(
        '[profile.lab]\naddress = "lab:7233"\nnamespace = "lab"\n[profile.cloud]\naddress = "c:7233"\napi_key = "k1"\n'
    )
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", str(file))
    return file


def test_arguments_win_over_the_environment_and_that_over_the_profile(profiles: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load(None, None, "lab", None, None) == {"target_host": "lab:7233", "namespace": "lab"}
    monkeypatch.setenv("TEMPORAL_NAMESPACE", "by-env")
    assert load(None, None, "lab", None, None)["namespace"] == "by-env"
    assert load("here:1", "by-argument", "lab", None, None) == {"target_host": "here:1", "namespace": "by-argument"}


def test_an_api_key_switches_tls_on(profiles: Path) -> None:
    assert load(None, None, "cloud", None, None) == {"target_host": "c:7233", "api_key": "k1", "tls": True}


def test_without_any_settings_it_is_temporals_own_default(profiles: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    profiles.write_text("")
    assert load(None, None, None, None, None) == {"target_host": "localhost:7233"}


def test_a_profile_or_file_that_is_missing_is_never_left_out_silently(profiles: Path, tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match=r"Profile 'nope' not found"):
        load(None, None, "nope", None, None)
    with pytest.raises(Misconfigured, match=r"there is no file .*none.toml"):
        load(None, None, None, str(tmp_path / "none.toml"), None)


def test_a_broken_settings_file_is_told_without_its_secrets(profiles: Path) -> None:
    profiles.write_text('[profile.lab]\napi_key = "not-for-your-eyes\n')
    with pytest.raises(Misconfigured, match=r"TOML parse error at line 2") as refusal:
        load(None, None, "lab", None, None)
    assert "not-for-your-eyes" not in str(refusal.value)


# The namespace


async def test_a_namespace_that_is_not_there_is_told(server: WorkflowEnvironment) -> None:
    lost = await Rerail.connect(server.client.service_client.config.target_host, "no-such-namespace")
    for asking in (lost.pending(), lost.explain("remediate-job/a/1/2/3"), lost.pause("alpha", reason="why")):
        with pytest.raises(Misconfigured, match=r"there is no namespace no-such-namespace at .*; name another by --namespace"):
            await asking


async def test_missing_search_attributes_are_told_with_who_creates_them() -> None:
    async with await dev_server() as bare:
        with pytest.raises(Misconfigured, match=r"lacks rerail's search attributes .*`python -m workers control` creates them"):
            await Rerail(bare.client).pending()


@pytest.mark.parametrize("status", [RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNAUTHENTICATED])
async def test_being_shut_out_is_told(status: RPCStatusCode, server: WorkflowEnvironment) -> None:
    async def shut_out() -> None:
        raise RPCError("Request unauthorized.", status, b"")

    with pytest.raises(Misconfigured, match=r"does not let us into namespace default: Request unauthorized.; check the API key"):
        await Line(server.client).call(shut_out)


async def test_an_unavailable_server_is_tried_again_within_the_bound(server: WorkflowEnvironment) -> None:
    tries = 0

    async def back_at_the_third_try() -> str:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise RPCError("away", RPCStatusCode.UNAVAILABLE, b"")
        return "back"

    assert await Line(server.client).call(back_at_the_third_try) == "back"
    with pytest.raises(Permanent, match=r"refuses the call \(out_of_range\): no such page"):
        await Line(server.client).call(refuses)


async def refuses() -> None:
    raise RPCError("no such\npage", RPCStatusCode.OUT_OF_RANGE, b"")


# Workers


def hasty(server: WorkflowEnvironment) -> Rerail:
    return Rerail(server.client, by="anna", answer_s=1.0)


async def test_without_workers_every_question_says_so(server: WorkflowEnvironment, scene: Scene, rerail: Rerail) -> None:
    incident = await scene.waiting(rerail)
    await scene.down()
    quick = hasty(server)
    for asking in (
        quick.pending(scene.cluster),
        quick.explain(incident.id),
        quick.watch(scene.cluster, "41001"),
        quick.guard(scene.cluster),
        quick.approve(incident.id, reason="yes"),
    ):
        with pytest.raises(NoWorker, match=r"no worker of rerail answers .*`python -m workers up` starts one"):
            await asking


async def test_an_unanswered_decision_says_what_became_of_it(server: WorkflowEnvironment, scene: Scene, rerail: Rerail) -> None:
    incident = await scene.waiting(rerail)
    await scene.down()
    with pytest.raises(NoWorker, match=r"The decision is not taken yet.*--signal"):
        await hasty(server).reject(incident.id, reason="no")
    with pytest.raises(NoWorker, match=r"Nothing was sent.*--signal"):
        await hasty(server).approve(incident.id, reason="yes")


@pytest.mark.parametrize(("verb", "result"), [(Verb.APPROVE, Result.RECOVERED), (Verb.REJECT, Result.REJECTED)])
async def test_with_the_fallback_a_decision_survives_a_worker_outage(
    verb: Verb, result: Result, server: WorkflowEnvironment, scene: Scene, rerail: Rerail
) -> None:
    incident = await scene.waiting(rerail)
    await scene.down()
    quick = hasty(server)
    decide = quick.approve if verb is Verb.APPROVE else quick.reject
    answer = await decide(incident.id, reason="I was there", fallback=True)
    assert answer.way == "signal"
    assert "Temporal keeps" in answer.text
    assert answer.plan == (scene.plan if verb is Verb.APPROVE else "")
    await scene.up()
    assert (await rerail.wait(incident.id, timeout_s=20)).result is result
    decided = (await rerail.incident(incident.id)).decided
    assert decided
    assert (decided.way, decided.decision.by, decided.decision.verdict) == ("signal", "anna", verb)


async def test_while_workers_answer_the_fallback_is_not_used(server: WorkflowEnvironment, scene: Scene, rerail: Rerail) -> None:
    incident = await scene.waiting(rerail)
    assert (await rerail.approve(incident.id, reason="yes", fallback=True)).way == "update"


async def test_how_an_incident_ended_is_known_without_workers(server: WorkflowEnvironment, scene: Scene, rerail: Rerail) -> None:
    incident = await scene.waiting(rerail)
    await rerail.reject(incident.id, reason="no", by="bob")
    await rerail.wait(incident.id, timeout_s=20)
    await scene.down()
    with pytest.raises(Refused, match=r"has ended at .* UTC as rejected: rejected by bob.*nothing was changed"):
        await hasty(server).reject(incident.id, reason="yes")
    with pytest.raises(Ended):
        await rerail.line.signal(incident.id, names.APPROVE, {})


async def test_a_workflow_of_another_release_is_told(server: WorkflowEnvironment, scene: Scene, rerail: Rerail) -> None:
    with pytest.raises(Misconfigured, match=r"speak another version of rerail"):
        await rerail.line.update(names.guard_cluster_id(scene.cluster), "no_such_message", {}, str)
    with pytest.raises(Misconfigured, match=r"speak another version of rerail"):
        await rerail.line.query(names.guard_cluster_id(scene.cluster), "no_such_question", str)
    with pytest.raises(Misconfigured, match=r"its answer can't be read"):
        await rerail.line.query(names.guard_cluster_id(scene.cluster), names.GUARD_STATE, int)


async def test_a_scheduler_that_nobody_reads_is_no_missing_job(server: WorkflowEnvironment, scene: Scene, rerail: Rerail) -> None:
    await scene.down()
    await scene.up(detect=False)
    with pytest.raises(Unreadable, match=rf"nobody reads the scheduler of {scene.cluster} now; .*`python -m workers detect`"):
        await rerail.watch(scene.cluster, "41001")


# Gone in the middle


async def test_waiting_outlives_a_server_that_is_away(tmp_path: Path) -> None:
    port, file = free_port(), tmp_path / "temporal.db"
    first = await durable_server(port, file)
    client = await connect(f"127.0.0.1:{port}")
    scene = Scene(client, "alpha")
    async with AsyncExitStack() as left:  # what is left over, however the test ends: a living worker would hold up the event loop
        await scene.up()
        left.push_async_callback(scene.down)
        await scene.begin()
        rerail = Rerail(client, by="anna", patience_s=0.5)
        incident = await scene.waiting(rerail)
        waiting = asyncio.create_task(rerail.wait(incident.id, timeout_s=60))
        left.callback(waiting.cancel)
        await first.shutdown()
        with pytest.raises(Unreachable, match=r"(went away|stopped answering).*whether it took this message is not known"):
            await rerail.reject(incident.id, reason="no")
        assert not waiting.done()
        second = await durable_server(port, file)
        left.push_async_callback(second.shutdown)
        rerail.line.patience_s = 20
        await rerail.approve(incident.id, reason="yes")
        assert (await waiting).result is Result.RECOVERED
        assert scene.done == ["requeue", "exclude", "start"]
        await scene.end()


async def durable_server(port: int, file: Path) -> WorkflowEnvironment:
    return await dev_server(ip="127.0.0.1", port=port, dev_server_database_filename=str(file), search_attributes=list(ALL))


async def test_a_closed_connection_of_a_lookup_is_no_missing_incident(server: WorkflowEnvironment) -> None:
    with pytest.raises(NotFound, match=r"there is no remediate-job/nowhere/1/2/3, or not any more"):
        await Rerail(server.client).incident("remediate-job/nowhere/1/2/3")
    assert isinstance(server.client, Client)
