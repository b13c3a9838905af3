"""The intake takes a few well-formed bytes from whoever may send, and nudges; nothing else that arrives does anything."""

import asyncio
import contextlib
import grp
import os
import socket
import stat
from collections.abc import AsyncIterator
from http import HTTPStatus
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerail.errors import Misconfigured
from tests.stage import free_port
from workers import intake as intakes
from workers.intake import Event, EventKind, Intake, intake, understood
from workers.settings import IntakeSettings

TOKEN = "0123456789abcdef" * 4
GOOD = b"ended alpha 41001"


class Nudged:
    """Counts the nudges of one cluster."""

    def __init__(self) -> None:
        self.times = 0
        self.within_s = float("inf")

    def __call__(self, within_s: float) -> None:
        self.times += 1
        self.within_s = within_s

    async def until(self, times: int) -> None:
        async with asyncio.timeout(10):
            while self.times < times:
                await asyncio.sleep(0.01)


def http(port: int, token: str = TOKEN) -> IntakeSettings:
    return IntakeSettings(port=port, token_env="INTAKE_TOKEN") if token else IntakeSettings(port=port)


@pytest.fixture
async def over_http(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[int, Nudged]]:
    monkeypatch.setenv("INTAKE_TOKEN", TOKEN)
    port, nudged = free_port(), Nudged()
    async with intake(http(port), {"alpha": nudged}):
        yield port, nudged


async def answer(port: int, request: bytes) -> bytes:
    """What comes back; the connection is closed by the intake."""
    async with asyncio.timeout(15):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        with contextlib.suppress(ConnectionError):
            found = await reader.read()
            writer.close()
            return found
        return b""


def post(body: bytes, token: str = TOKEN, path: str = "/events", length: int | None = None) -> bytes:
    said = len(body) if length is None else length
    return f"POST {path} HTTP/1.1\r\nAuthorization: Bearer {token}\r\nContent-Length: {said}\r\n\r\n".encode() + body


@pytest.mark.parametrize(
    ("message", "event"),
    [
        (b"ended alpha 41001", Event(EventKind.ENDED, "alpha", "41001")),
        (b"started alpha 9_3\n", Event(EventKind.STARTED, "alpha", "9_3")),
        (b"node a.b-c gpu-01.site", Event(EventKind.NODE, "a.b-c", "gpu-01.site")),
    ],
)
def test_a_message_is_kind_cluster_and_subject(message: bytes, event: Event) -> None:
    assert understood(message) == event


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"ended",
        b"ended alpha",
        b"ended alpha 0",
        b"ended alpha -1",
        b"ended alpha 1;id",
        b"ended alpha gpu-01",
        b"ended alpha 41001 more",
        b"ended  alpha 41001",
        b"ended alpha 41001\n\n",
        b"killed alpha 41001",
        b"node alpha -v",
        b"node alpha $(id)",
        b"ended ../etc 41001",
        b"ended alpha \xd9\xa1",
        b"ended alpha 41001\x00",
        b"node alpha " + b"a" * 600,
    ],
)
def test_anything_else_is_no_message(message: bytes) -> None:
    assert understood(message) is None


@given(st.binary(max_size=700))
def test_no_bytes_break_it(message: bytes) -> None:
    nudged = Nudged()
    Intake({"alpha": nudged}).take(message)
    assert nudged.times == int((event := understood(message)) is not None and event.cluster == "alpha")


async def test_a_datagram_nudges_its_cluster_and_no_other(tmp_path: Path) -> None:
    path, alpha, beta = tmp_path / "in.sock", Nudged(), Nudged()
    async with intake(IntakeSettings(socket=path), {"alpha": alpha, "beta": beta}) as made:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            for message in (b"nonsense", b"ended gamma 1", b"x" * 100_000, GOOD):
                sender.sendto(message, str(path))
        await alpha.until(1)
        assert (alpha.times, beta.times) == (1, 0)
        assert made
        assert (made.taken, made.refused) == (1, 3)
    assert not path.exists()


async def test_only_user_and_group_may_send(tmp_path: Path) -> None:
    path = tmp_path / "in.sock"
    group = grp.getgrgid(os.getgid()).gr_name
    async with intake(IntakeSettings(socket=path, group=group), {}):
        told = path.stat()
        assert stat.S_IMODE(told.st_mode) == 0o660
        assert told.st_gid == os.getgid()


async def test_a_newer_process_takes_the_path_over_and_keeps_it(tmp_path: Path) -> None:
    settings, old, new = IntakeSettings(socket=tmp_path / "in.sock"), Nudged(), Nudged()
    async with contextlib.AsyncExitStack() as later:
        async with intake(settings, {"alpha": old}):
            await later.enter_async_context(intake(settings, {"alpha": new}))
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(GOOD, str(settings.socket))
        await new.until(1)
        assert old.times == 0


async def test_a_file_in_the_sockets_place_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "precious"
    path.write_text("mine")
    with pytest.raises(Misconfigured, match="file of another kind"):
        async with intake(IntakeSettings(socket=path), {}):
            pass
    assert path.read_text() == "mine"


@pytest.mark.parametrize(
    "settings", [{"group": "no-such-group"}, {"socket": "/nowhere/at/all.sock"}, {"socket": "/tmp/" + "x" * 200}]
)
async def test_what_can_not_be_opened_is_told_in_a_sentence(tmp_path: Path, settings: dict[str, str]) -> None:
    with pytest.raises(Misconfigured, match="intake"):
        async with intake(IntakeSettings.model_validate({"socket": str(tmp_path / "in.sock")} | settings), {}):
            pass
    assert list(tmp_path.iterdir()) == []


async def test_over_http_a_message_with_the_token_nudges(over_http: tuple[int, Nudged]) -> None:
    port, nudged = over_http
    assert b" 204 " in await answer(port, post(GOOD))
    assert nudged.times == 1


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (post(GOOD, token="f" * 64), HTTPStatus.UNAUTHORIZED),
        (post(GOOD, token=""), HTTPStatus.UNAUTHORIZED),
        (post(GOOD, token=TOKEN + "0"), HTTPStatus.UNAUTHORIZED),
        (b"POST /events HTTP/1.1\r\n\r\n" + GOOD, HTTPStatus.UNAUTHORIZED),
        (post(b"ended beta 1"), HTTPStatus.NOT_FOUND),
        (post(b"nonsense"), HTTPStatus.BAD_REQUEST),
        (post(GOOD, path="/other"), HTTPStatus.NOT_FOUND),
        (b"GET /events HTTP/1.1\r\n\r\n", HTTPStatus.NOT_FOUND),
        (post(GOOD, length=100_000), HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
        (post(GOOD, length=-1), HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
        (b"POST /events HTTP/1.1\r\nX: " + b"x" * 100_000, HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE),
    ],
)
async def test_over_http_everything_else_is_refused(over_http: tuple[int, Nudged], request_: bytes, status: HTTPStatus) -> None:
    port, nudged = over_http
    told = await answer(port, request_)
    assert told.startswith(b"HTTP/1.1 %d " % status) or (not told and len(request_) > intakes.MOST_HEAD)
    assert nudged.times == 0


async def test_connections_that_say_nothing_are_closed_and_hold_nobody_up(
    over_http: tuple[int, Nudged], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intakes, "REQUEST_S", 0.5)
    port, nudged = over_http
    silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(intakes.MOST_REQUESTS + 8)]
    async with asyncio.timeout(15):
        await asyncio.gather(*(reader.read() for reader, _ in silent))
    for _, writer in silent:
        writer.close()
    assert b" 204 " in await answer(port, post(GOOD))
    assert nudged.times == 1


def test_an_end_is_urgent_and_a_start_is_not() -> None:
    nudged = Nudged()
    taking = Intake({"alpha": nudged})
    taking.take(GOOD)
    ended = nudged.within_s
    taking.take(b"started alpha 41001")
    assert ended == 0 < nudged.within_s


async def test_without_settings_there_is_no_intake() -> None:
    async with intake(None, {}) as made:
        assert made is None


def test_the_token_comes_from_a_file_or_a_variable_and_is_long(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    assert IntakeSettings(port=1, token_file=file).token() == TOKEN
    assert IntakeSettings(port=1, token_env="T").token({"T": TOKEN}) == TOKEN
    with pytest.raises(Misconfigured, match="openssl rand"):
        IntakeSettings(port=1, token_env="T").token({"T": "short"})
    with pytest.raises(Misconfigured, match="token_file"):
        IntakeSettings(port=1, token_file=tmp_path / "none").token()


@pytest.mark.parametrize(
    "settings", [{}, {"port": 1}, {"port": 1, "token_env": "A", "token_file": "/b"}, {"socket": "/a", "token_env": "A"}]
)
def test_a_port_goes_with_one_token_and_one_way_in_is_needed(settings: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="expected"):
        IntakeSettings.model_validate(settings)
