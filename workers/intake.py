"""The intake of the detect role: a few bytes from a scheduler's hook that say "look now", by unix socket or HTTP on loopback.

What arrives is never evidence. A message names a cluster and a job or node and makes the next look at that cluster immediate;
what is the case is read from the scheduler, as always. So the worst that a liar can do is to have us look once a second.
"""

import asyncio
import contextlib
import grp
import hmac
import logging
import os
import re
import socket
import stat
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from http import HTTPStatus
from pathlib import Path

from rerail.errors import Misconfigured, RerailError
from workers.settings import IntakeSettings

log = logging.getLogger("rerail.intake")

MOST_BYTES = 512
"""Of a message; the longest that is valid has under 400."""

MOST_HEAD = 4096
"""Bytes of an HTTP request's head."""

REQUEST_S = 2.0
"""Seconds for a whole HTTP request; a hook gives up after one."""

MOST_REQUESTS = 32
"""HTTP requests under way at once; more are turned away."""


class EventKind(StrEnum):
    """What a hook saw."""

    STARTED = "started"
    ENDED = "ended"
    NODE = "node"


WITHIN_S = {EventKind.STARTED: 1.0, EventKind.ENDED: 0.0, EventKind.NODE: 1.0}
"""How soon an event wants to be looked at, by its kind: nobody waits for a start, and a node's end is its jobs' end."""

MODE = 0o660
"""Of the socket: our user and the group that may send."""

_MESSAGE = re.compile(
    rb"(?P<kind>started|ended|node) (?P<cluster>[A-Za-z0-9][A-Za-z0-9._-]{0,62}) "
    rb"(?P<subject>[A-Za-z0-9](?:[A-Za-z0-9._+-]{0,251}[A-Za-z0-9])?)\n?"
)
_JOB = re.compile(r"[1-9][0-9]{0,9}(?:_[0-9]{1,9}|\+[0-9]{1,4})?")
_REQUEST = re.compile(rb"POST /events HTTP/1\.[01]")


@dataclass(frozen=True)
class Event:
    """Something happened: `subject` is a job's id, or a node's name."""

    kind: EventKind
    cluster: str
    subject: str


def understood(message: bytes) -> Event | None:
    """`KIND CLUSTER SUBJECT` on one line; None for anything else."""
    found = _MESSAGE.fullmatch(message) if len(message) <= MOST_BYTES else None
    if found is None:
        return None
    kind, cluster, subject = (part.decode("ascii") for part in found.groups())
    if kind != EventKind.NODE and not _JOB.fullmatch(subject):
        return None
    return Event(EventKind(kind), cluster, subject)


@dataclass
class Intake:
    """Takes messages and nudges: `nudges` by cluster, told within how many seconds to look. Counts what it took and refused."""

    nudges: Mapping[str, Callable[[float], None]]
    token: str = ""
    taken: int = 0
    refused: int = 0
    _under_way: int = field(default=0)

    def take(self, message: bytes) -> HTTPStatus:
        """One message; what it came to, in HTTP's words."""
        event = understood(message)
        if event is None or event.cluster not in self.nudges:
            self.refused += 1
            if self.refused & (self.refused - 1) == 0:  # the 1st, 2nd, 4th, 8th ...: a flood fills no log
                log.warning("a message that is none, or for a cluster that is not ours, was dropped (%d so far)", self.refused)
            return HTTPStatus.BAD_REQUEST if event is None else HTTPStatus.NOT_FOUND
        self.taken += 1
        log.debug("%s %s on %s", event.kind, event.subject, event.cluster)
        self.nudges[event.cluster](WITHIN_S[event.kind])
        return HTTPStatus.NO_CONTENT

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One HTTP request, answered and closed."""
        self._under_way += 1
        try:
            async with asyncio.timeout(REQUEST_S):
                busy = self._under_way > MOST_REQUESTS
                status = HTTPStatus.SERVICE_UNAVAILABLE if busy else await self.answer(reader)
                writer.write(
                    f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()
                )
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError):
            self.refused += 1
        finally:
            self._under_way -= 1
            writer.close()

    async def answer(self, reader: asyncio.StreamReader) -> HTTPStatus:
        """Read head and body, both bounded, and take the message of whoever knows the token."""
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            return HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
        first, *lines = head[:-4].split(b"\r\n")
        if not _REQUEST.fullmatch(first):
            return HTTPStatus.NOT_FOUND
        fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}
        if not hmac.compare_digest(fields.get(b"authorization", b""), b"Bearer " + self.token.encode()):
            return HTTPStatus.UNAUTHORIZED
        length = fields.get(b"content-length", b"")
        if not re.fullmatch(rb"[0-9]{1,4}", length) or int(length) > MOST_BYTES:
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        return self.take(await reader.readexactly(int(length)))


class Datagrams(asyncio.DatagramProtocol):
    """Each datagram is a message; nobody is answered."""

    def __init__(self, intake: Intake) -> None:
        self.intake = intake

    def datagram_received(self, data: bytes, addr: object) -> None:
        """As asyncio says."""
        self.intake.take(data)


@contextlib.asynccontextmanager
async def intake(settings: IntakeSettings | None, nudges: Mapping[str, Callable[[float], None]]) -> AsyncIterator[Intake | None]:
    """An open intake for as long as the block runs; None where none is wanted. Misconfigured when it can't be opened."""
    if settings is None:
        yield None
        return
    made = Intake(nudges, settings.token() if settings.port else "")
    async with contextlib.AsyncExitStack() as open_:
        try:
            if settings.socket is not None:
                await open_.enter_async_context(listening(made, settings.socket, settings.group))
            if settings.port is not None:
                server = await asyncio.start_server(made.serve, "127.0.0.1", settings.port, limit=MOST_HEAD)
                await open_.enter_async_context(server)
        except OSError as error:
            raise Misconfigured(f"the intake can't be opened: {error.strerror or error}; see `intake` in the settings") from error
        yield made


@contextlib.asynccontextmanager
async def listening(made: Intake, path: Path, group: str | None) -> AsyncIterator[None]:
    """The unix socket. A newer process takes the path over, so that a restart loses no message."""
    bound = bind(path, group)
    identity = os.stat(path).st_ino
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(lambda: Datagrams(made), sock=bound)
    try:
        yield
    finally:
        transport.close()
        remove(path, identity)


def remove(path: Path, identity: int) -> None:
    """Unless a newer process has put its own there."""
    with contextlib.suppress(OSError):
        if path.stat().st_ino == identity:
            path.unlink()


def bind(path: Path, group: str | None) -> socket.socket:
    """A socket at `path` with its mode and group from the first moment on."""
    if path.exists() and not stat.S_ISSOCK(path.lstat().st_mode):
        raise Misconfigured(f"the intake's socket {path} is a file of another kind; choose another path")
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    with contextlib.suppress(FileNotFoundError):
        beside.unlink()
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        bound.setblocking(False)
        before = os.umask(0o777 & ~MODE)
        try:
            bound.bind(str(beside))
        finally:
            os.umask(before)
        if group is not None:
            os.chown(beside, -1, group_id(group))
        os.replace(beside, path)
    except (OSError, RerailError):
        bound.close()
        with contextlib.suppress(OSError):
            beside.unlink()
        raise
    return bound


def group_id(name: str) -> int:
    """Of a group by its name."""
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        raise Misconfigured(f"intake.group: there is no group {name!r} on this machine") from None
