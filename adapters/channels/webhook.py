"""Telling by an HTTP POST. The receiver can check who sent it (signature, time) and say it once (idempotency key)."""

import hashlib
import hmac
import time
from urllib.parse import quote

import httpx

from adapters.channels.wording import payload
from rerail.errors import Misconfigured, Permanent, Transient
from rerail.records import Notice

TRY_AGAIN = frozenset({408, 421, 425, 429})
"""The client errors that pass by themselves: time-out, wrong connection, too early, too many."""


class Webhook:
    """Implements `rerail.ports.Channel`. With a secret every message carries

        X-Rerail-Timestamp: seconds since 1970
        X-Rerail-Signature: v1=HEX      HMAC-SHA256 over timestamp, a full stop, and the body

    `deadline_s` bounds connecting, sending and waiting for the answer, each. Redirects are not followed, the answer's body
    is not read, and no message repeats more of the address than its host: the path of many services is a secret.
    """

    def __init__(self, url: str, secret: str = "", name: str = "webhook", deadline_s: float = 10.0) -> None:
        self.name = name
        self._secret = secret.encode()
        self._deadline_s = deadline_s
        try:
            self._url = httpx.URL(url)
        except (httpx.InvalidURL, ValueError) as error:
            raise Misconfigured(f"the address of the channel {name} is no web address; see channels in the settings.") from error

    def send(self, notice: Notice) -> None:
        """Tell it. Raises Transient for 5xx, time-outs and lost connections, Permanent for any other refusal."""
        body = payload(notice)
        headers = {"Content-Type": "application/json", "Idempotency-Key": quote(notice.key, safe="/:.-_")[:255]}
        who = f"the channel {self.name} ({self._url.host})"
        status = self._post(body, headers | self._signature(body, int(time.time())))
        if 200 <= status < 300:
            return
        if status >= 500 or status in TRY_AGAIN:
            raise Transient(f"{who} answered {status}; it is tried again.")
        raise Permanent(
            f"the channel {self.name} ({self._url.host}) answered {status}: check its address and key in the settings."
        )

    def _signature(self, body: bytes, timestamp: int) -> dict[str, str]:
        if not self._secret:
            return {}
        digest = hmac.new(self._secret, b"%d." % timestamp + body, hashlib.sha256).hexdigest()
        return {"X-Rerail-Timestamp": str(timestamp), "X-Rerail-Signature": f"v1={digest}"}

    def _post(self, body: bytes, headers: dict[str, str]) -> int:
        try:
            with (
                httpx.Client(timeout=self._deadline_s, follow_redirects=False) as client,
                client.stream("POST", self._url, content=body, headers=headers) as answer,
            ):
                return answer.status_code
        except httpx.UnsupportedProtocol as error:
            raise Misconfigured(f"the address of the channel {self.name} begins with neither http:// nor https://.") from error
        except (httpx.HTTPError, OSError) as error:
            reason = type(error).__name__
            raise Transient(
                f"the channel {self.name} ({self._url.host}) cannot be reached ({reason}); it is tried again."
            ) from error
