"""Files on the other side, by SFTP over the same connection: a few channels that stay open, each used by one reader at a time."""

import os
import queue
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import paramiko

from adapters.regular_file import OpenFile, check_kind, check_path, shown, unreadable
from adapters.ssh.connection import Connection, Session
from adapters.ssh.deadline import Deadline, Guard
from adapters.ssh.link import printable, reason
from rerail.errors import RerailError, Transient, Unreadable
from rerail.gate import FILES

CHANNELS = 2
"""Of the connection's sessions; the rest is for commands."""
DEADLINE_S = 15.0
"""Seconds for one answer; a file server that is slower doesn't answer."""
ANSWER = 32_768
"""Bytes of one answer that every server gives."""
AHEAD = 64
"""Answers that may be on their way at once: two megabytes."""


@dataclass(frozen=True)
class _Channel:
    """One SFTP client and the session that carries it."""

    client: paramiko.SFTPClient
    session: Session
    undo: ExitStack

    @property
    def closed(self) -> bool:
        return self.session.channel.closed or not self.session.link.usable


class RemoteFiles:
    """Opens regular files as `adapters.regular_file.opened` does for this machine's own. Safe for many threads."""

    def __init__(self, connection: Connection, *, gated: bool, deadline_s: float = DEADLINE_S, channels: int = CHANNELS) -> None:
        self._connection = connection
        self._gated = gated
        self._deadline_s = deadline_s
        self._free: queue.LifoQueue[_Channel | None] = queue.LifoQueue()
        for _ in range(channels):
            self._free.put(None)

    @contextmanager
    def opened(self, path: str) -> Iterator[OpenFile | None]:
        """The file, or None where there is none (yet). Misconfigured for what is no regular file; Unreadable where rights, the
        disk or the link are in the way."""
        check_path(path)
        channel = self._channel(path)
        sound = False
        try:
            with _open(channel.client, path) as file:
                yield file
            sound = True
        except RerailError:
            sound = True
            raise
        except (EOFError, OSError, paramiko.SSHException, paramiko.SFTPError) as error:
            if isinstance(error, TimeoutError):
                self._connection.distrust(channel.session.link)
            elif isinstance(error, OSError) and not channel.closed:
                sound = True  # the server said no; its channel is as good as before
                raise unreadable(path, error) from None
            raise Unreadable(f"{shown(path)} could not be read: {_lost(error)}; it will be tried again") from None
        finally:
            self._give_back(channel, sound=sound)

    def close(self) -> None:
        """Close the channels that nobody uses; the next file opens one again."""
        for channel in [self._free.get_nowait() for _ in range(self._free.qsize())]:
            if channel:
                channel.undo.close()
            self._free.put(None)

    def _give_back(self, channel: _Channel, *, sound: bool) -> None:
        if not sound:
            channel.undo.close()
        self._free.put(channel if sound else None)

    def _channel(self, path: str) -> _Channel:
        deadline = Deadline.after(self._deadline_s)
        try:
            found = self._free.get(timeout=self._deadline_s)
        except queue.Empty:
            raise Unreadable(f"{shown(path)} waits for other files that are read over the same link") from None
        if found and self._connection.current(found.session.link) and not found.closed:
            return found
        if found:
            found.undo.close()
        try:
            return self._begun(deadline)
        except BaseException as error:
            self._free.put(None)
            if isinstance(error, Transient):
                raise Unreadable(f"{shown(path)} could not be read: {error}") from error
            raise

    def _begun(self, deadline: Deadline) -> _Channel:
        with ExitStack() as undo:
            session = undo.enter_context(self._connection.session(deadline))
            channel = session.channel
            try:
                with Guard(deadline, session.link.close):
                    channel.exec_command(FILES) if self._gated else channel.invoke_subsystem("sftp")
                    channel.settimeout(deadline.left())
                    client = paramiko.SFTPClient(channel)
            except (paramiko.SSHException, EOFError, OSError) as error:
                said = channel.recv_stderr(600).decode("utf-8", "replace") if channel.recv_stderr_ready() else reason(error)
                what = (
                    "rerail-gate, with --role reader and --read FOLDER" if self._gated else "`Subsystem sftp` in its sshd_config"
                )
                raise Unreadable(f"{session.link.address} serves no files ({printable(said)}); it needs {what}") from None
            channel.settimeout(self._deadline_s)
            return _Channel(client, session, undo.pop_all())


class _RemoteFile:
    """Implements `OpenFile`."""

    def __init__(self, file: paramiko.SFTPFile) -> None:
        self._file = file

    def size(self) -> int:
        return self._file.stat().st_size or 0

    def read_at(self, offset: int, limit: int) -> bytes:
        """In pieces that are all asked for at once: one after the other each would cost a round trip."""
        end = min(offset + limit, self.size())
        pieces = [(start, min(ANSWER, end - start)) for start in range(offset, end, ANSWER)]
        return b"".join(self._file.readv(pieces, AHEAD)) if pieces else b""


@contextmanager
def _open(client: paramiko.SFTPClient, path: str) -> Iterator[_RemoteFile | None]:
    place = os.fsencode(path)
    try:
        check_kind(path, client.stat(place).st_mode or 0)  # before opening: to open a device can already do something
        file = client.open(place, "r")
    except FileNotFoundError:
        yield None
        return
    try:
        check_kind(path, file.stat().st_mode or 0)
        yield _RemoteFile(file)
    finally:
        file.close()


def _lost(error: BaseException) -> str:
    return "no answer in time" if isinstance(error, TimeoutError) else f"the link broke ({reason(error)})"
