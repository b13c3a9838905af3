"""The webhook, against a real HTTP server on the loopback."""

import hashlib
import hmac
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from adapters.channels.webhook import Webhook
from adapters.channels.wording import payload
from rerail.errors import Misconfigured, Permanent, Transient
from rerail.ports import Channel
from rerail.records import Notice, NoticeKind

NOTICE = Notice(
    key="remediate-job/alpha/7/1/opened ü",
    kind=NoticeKind.OPENED,
    cluster="alpha",
    title="job 7 failed",
    at=datetime(2026, 12, 1, 9, 30, tzinfo=UTC),
)


class Receiver(ThreadingHTTPServer):
    """Answers every POST as told, and keeps what came."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status = 204
        self.silent = threading.Event()
        self.came: list[tuple[str, dict[str, str], bytes]] = []
        self.url = f"http://127.0.0.1:{self.server_port}/secret-path"


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.came.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
        if self.server.status == 0:
            self.server.silent.wait(30)
            return
        self.send_response(self.server.status)
        self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server
        server.silent.set()
        server.shutdown()
        thread.join(10)


def test_it_is_a_channel() -> None:
    assert isinstance(Webhook("https://hooks.example.org/x"), Channel)


def test_a_notice_arrives_with_its_key(receiver: Receiver) -> None:
    Webhook(receiver.url).send(NOTICE)
    ((path, headers, body),) = receiver.came
    assert path == "/secret-path"
    assert body == payload(NOTICE)
    assert headers["content-type"] == "application/json"
    assert headers["idempotency-key"] == "remediate-job/alpha/7/1/opened%20%C3%BC"
    assert "x-rerail-signature" not in headers


def test_the_signature_can_be_checked_by_the_receiver(receiver: Receiver) -> None:
    Webhook(receiver.url, secret="s3cret").send(NOTICE)
    ((_, headers, body),) = receiver.came
    stamp = headers["x-rerail-timestamp"]
    expected = hmac.new(b"s3cret", stamp.encode() + b"." + body, hashlib.sha256).hexdigest()
    assert headers["x-rerail-signature"] == f"v1={expected}"
    assert abs(int(stamp) - time.time()) < 60


@pytest.mark.parametrize("status", [500, 502, 503, 429, 408])
def test_what_may_pass_is_transient(receiver: Receiver, status: int) -> None:
    receiver.status = status
    with pytest.raises(Transient, match=f"answered {status}; it is tried again"):
        Webhook(receiver.url).send(NOTICE)


@pytest.mark.parametrize("status", [400, 401, 404, 410])
def test_a_refusal_is_permanent(receiver: Receiver, status: int) -> None:
    receiver.status = status
    with pytest.raises(Permanent, match=f"answered {status}: check its address"):
        Webhook(receiver.url).send(NOTICE)


@pytest.mark.parametrize("status", [301, 307, 308])
def test_a_redirect_is_not_followed(receiver: Receiver, status: int) -> None:
    receiver.status = status
    with pytest.raises(Permanent):
        Webhook(receiver.url).send(NOTICE)
    assert len(receiver.came) == 1


def test_silence_is_transient_after_the_deadline(receiver: Receiver) -> None:
    receiver.status = 0
    with pytest.raises(Transient, match="cannot be reached"):
        Webhook(receiver.url, deadline_s=0.2).send(NOTICE)


def test_nobody_there_is_transient_and_the_path_stays_secret(receiver: Receiver) -> None:
    url = receiver.url
    receiver.server_close()
    with pytest.raises(Transient) as caught:
        Webhook(url, secret="s3cret").send(NOTICE)
    assert "127.0.0.1" in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("url", ["ftp://x/", "no address", "http://x:port/", ""])
def test_no_web_address_is_misconfigured(url: str) -> None:
    with pytest.raises(Misconfigured):
        Webhook(url).send(NOTICE)
