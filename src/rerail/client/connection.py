"""The connection to Temporal: its address, namespace and secrets come from Temporal's own profiles and environment."""

import asyncio
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.client import Client
from temporalio.contrib.pydantic import PydanticJSONPlainPayloadConverter
from temporalio.converter import (
    CompositePayloadConverter,
    DataConverter,
    DefaultFailureConverter,
    DefaultPayloadConverter,
    JSONPlainPayloadConverter,
    PayloadConverter,
)
from temporalio.envconfig import ClientConfigProfile
from temporalio.runtime import Runtime

from rerail.errors import Misconfigured, Unreachable
from rerail.requests import Refusal

ADDRESS = "localhost:7233"
"""Where Temporal is when nothing says otherwise: its own default."""

CONNECT_FOR_S = 5.0
"""Longer than a TLS handshake across continents, shorter than a person's patience."""

TARGET = re.compile(r"[A-Za-z0-9._-]+:\d{1,5}|\[[0-9A-Fa-f:.]+\]:\d{1,5}")
"""HOST:PORT, the host perhaps an IPv6 address in brackets."""

CONFIG_FILE = "TEMPORAL_CONFIG_FILE"


class SparseJson(PydanticJSONPlainPayloadConverter):
    """Plain JSON without what a reader has anyway: fields that nobody set, or that hold their defaults."""

    def to_payload(self, value: Any) -> Payload | None:
        """As the base class does it, but sparse."""
        data = self._schema_serializer.to_json(value, exclude_unset=True, exclude_defaults=True)
        return Payload(metadata={"encoding": self.encoding.encode()}, data=data)


class SparsePayloads(CompositePayloadConverter):
    """Records as sparse JSON: small histories, readable by anyone."""

    def __init__(self) -> None:
        usual = DefaultPayloadConverter.default_encoding_payload_converters
        super().__init__(*(SparseJson() if isinstance(one, JSONPlainPayloadConverter) else one for one in usual))


class TerseFailures(DefaultFailureConverter):
    """Failures as Temporal has them, but a refusal without its stack trace: the Temporal UI would bury the sentence under it."""

    def to_failure(self, exception: BaseException, payload_converter: PayloadConverter, failure: Failure) -> None:
        super().to_failure(exception, payload_converter, failure)
        if isinstance(exception, Refusal):
            failure.stack_trace = ""


DATA_CONVERTER = DataConverter(payload_converter_class=SparsePayloads, failure_converter_class=TerseFailures)
"""How records become payloads: the same for workers, client and tests."""


async def connect(
    address: str | None = None,
    namespace: str | None = None,
    profile: str | None = None,
    config_file: str | None = None,
    *,
    api_key: str | None = None,
    identity: str | None = None,
    timeout_s: float = CONNECT_FOR_S,
    runtime: Runtime | None = None,
) -> Client:
    """A connected Temporal client with rerail's data converter.

    Arguments win over the variables TEMPORAL_*, and these over the profile in Temporal's TOML file (TLS, API key and
    headers come from there). Raises Misconfigured when the settings are wrong, Unreachable when Temporal doesn't answer.
    """
    settings = load(address, namespace, profile, config_file, api_key)
    target = settings["target_host"]
    try:
        return await asyncio.wait_for(
            Client.connect(
                **settings,
                data_converter=DATA_CONVERTER,
                identity=identity,
                runtime=runtime,
                connect_timeout=timedelta(seconds=timeout_s),
            ),
            timeout_s,
        )
    except TimeoutError:
        raise unreachable(target, f"no answer within {timeout_s:g} s") from None
    except (RuntimeError, ValueError) as error:  # the bridge raises these alone, for every reason
        raise unreachable(target, reason(str(error))) from error


def load(
    address: str | None, namespace: str | None, profile: str | None, config_file: str | None, api_key: str | None
) -> dict[str, Any]:
    """What `Client.connect` takes, from arguments, environment and profile. Raises Misconfigured with the place to look at."""
    path = config_path(config_file)
    try:
        found = ClientConfigProfile.load(profile, config_source=path)
        given: dict[str, Any] = {"address": address, "namespace": namespace, "api_key": api_key}
        found = replace(found, **{name: value for name, value in given.items() if value})
        settings: dict[str, Any] = dict(found.to_client_connect_config())
    except (RuntimeError, OSError, ValueError) as error:
        where = f" ({path})" if path else ""
        raise Misconfigured(
            f"Temporal's settings can't be used{where}: {without_excerpt(str(error))}; correct them, or name another --profile"
        ) from error
    settings.setdefault("target_host", ADDRESS)
    return checked(settings)


def without_excerpt(said: str) -> str:
    """A parser's complaint without the lines that it quotes: they may hold an API key."""
    return one_line(" ".join(line for line in said.splitlines() if "|" not in line))


def config_path(config_file: str | None, environment: Mapping[str, str] | None = None) -> Path | None:
    """The file that was named; a named file that does not exist is an error, never silently left out."""
    named = config_file or (os.environ if environment is None else environment).get(CONFIG_FILE)
    if not named:
        return None
    if not Path(named).is_file():
        raise Misconfigured(f"there is no file {named}; name Temporal's TOML file by --config-file or {CONFIG_FILE}")
    return Path(named)


def checked(settings: dict[str, Any]) -> dict[str, Any]:
    """Addresses as Temporal wants them: host and port, without a scheme."""
    target = settings["target_host"]
    if not TARGET.fullmatch(target):
        raise Misconfigured(f"{one_line(target)!r} is no address of Temporal: write HOST:PORT, for instance {ADDRESS}")
    return settings


REASONS = (
    ("connection refused", "nothing listens there"),
    ("dns error", "there is no host of that name"),
    ("invalid peer certificate", "its certificate is not one that we trust: set the profile's tls.server_ca_cert_path"),
    ("certificate required", "it wants a client certificate: set the profile's tls.client_cert_path and client_key_path"),
    ("invalidcontenttype", "it speaks no TLS, but the profile asks for it"),
    ("corrupt message", "it speaks no TLS, but the profile asks for it"),
    ("unauthenticated", "it does not accept the API key"),
    ("permission_denied", "it does not let us in: the API key or certificate lacks the right"),
    ("permissiondenied", "it does not let us in: the API key or certificate lacks the right"),
    ("unimplemented", "what answers there is no Temporal"),
    ("timed out", "no answer in time"),
)
"""What the transport says, and what that means for a person; the first that fits."""


def reason(said: str) -> str:
    """Why there is no connection, in a few words; the transport's own when it is none of the known ones."""
    low = said.lower()
    return next((meaning for trace, meaning in REASONS if trace in low), one_line(said))


def unreachable(target: str, why: str) -> Unreachable:
    """The error for a server that can't be talked to, with the next step."""
    return Unreachable(
        f"Temporal can't be reached at {target}: {why}; start it, or say where it is by --address, --profile or TEMPORAL_ADDRESS"
    )


def one_line(text: str, most: int = 200) -> str:
    """Foreign text in a message of ours: one bounded line without control characters."""
    return "".join(c if c.isprintable() else " " for c in text)[:most].strip()
