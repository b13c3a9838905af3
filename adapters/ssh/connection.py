"""One identity's way in: one link to one of several hosts, shared by all, dialled when it is needed and again when it broke."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import paramiko

from adapters.ssh.address import Address
from adapters.ssh.deadline import Deadline
from adapters.ssh.hostkeys import HostKeys
from adapters.ssh.identity import Identity
from adapters.ssh.link import Denied, Jump, Link, dial, reason
from rerail.errors import Misconfigured, Transient

SESSIONS = 8
"""Channels at once: OpenSSH allows ten a connection (MaxSessions), and somebody may want to look by hand."""
CONNECT_S = 5.0
"""Seconds for one host; then the next one is tried. A connection takes 30 to 100 ms."""
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
"""Between two rounds over all hosts that failed, doubled each time: a login node that reboots isn't hammered by every worker."""
TRIES = 3
"""Links that die before a channel is open, one after the other; more is no accident."""
AGAIN_S = 0.05


@dataclass(frozen=True)
class Session:
    """A channel, and the link that it is on."""

    channel: paramiko.Channel
    link: Link


class Connection:
    """Safe for many threads. Nothing is connected before the first session."""

    def __init__(
        self,
        hosts: Sequence[Address],
        identity: Identity,
        keys: HostKeys,
        *,
        jump: Jump | None = None,
        sessions: int = SESSIONS,
        connect_s: float = CONNECT_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._hosts = tuple(hosts)
        self.identity = identity
        self._keys = keys
        self._jump = jump
        self._connect_s = connect_s
        self._clock = clock
        self._places = threading.BoundedSemaphore(sessions)
        self._dialling = threading.Lock()
        self._link: Link | None = None
        self._first = 0
        self._pause_s = 0.0
        self._not_before = 0.0
        self._last_problem = ""

    @contextmanager
    def session(self, deadline: Deadline) -> Iterator[Session]:
        """A new channel for one command. Transient, or Misconfigured, when there is none: then nothing was started."""
        if not self._places.acquire(timeout=deadline.left()):
            raise Transient(f"all sessions of {self.identity.user} are busy; raise `sessions`, below sshd's MaxSessions")
        try:
            session = self._opened(deadline)
            try:
                yield session
            finally:
                with suppress(paramiko.SSHException, EOFError, OSError):  # there may be nobody left to say goodbye to
                    session.channel.close()
                session.link.release()
        finally:
            self._places.release()

    def distrust(self, link: Link) -> None:
        """The link did not answer in time: the next command goes over a new one, to the next host; those on it may end."""
        if link.retire() and self._link is link:
            self._first = (self._first + 1) % len(self._hosts)

    def current(self, link: Link) -> bool:
        """True while new sessions go over this link."""
        return self._link is link and link.usable

    def close(self) -> None:
        """Hang up; the next session dials again."""
        with self._dialling:
            link, self._link = self._link, None
        if link:
            link.close()

    def _opened(self, deadline: Deadline) -> Session:
        problem = ""
        tries = 0
        while tries < TRIES and not (tries and deadline.passed):
            link = self._shared(deadline)
            try:
                return Session(link.open(deadline), link)
            except paramiko.ChannelException as error:  # MaxSessions is lower than we believe, or others use it up
                link.release()
                problem = f"{link.address} opens no more sessions ({reason(error)}); lower `sessions` below its MaxSessions"
                if deadline.left() <= AGAIN_S:
                    break
                time.sleep(AGAIN_S)
            except (paramiko.SSHException, EOFError, OSError) as error:
                self.distrust(link)
                link.release()
                problem = f"{link.address} is lost: {reason(error)}"
                tries += 1
        raise Transient(f"{problem or 'no time was left to connect'}; nothing was started")

    def _shared(self, deadline: Deadline) -> Link:
        """The link, in use by us."""
        if not self._dialling.acquire(timeout=deadline.left()):
            raise Transient(f"still connecting to {self._hosts[self._first]}; nothing was started")
        try:
            if self._link is None or not self._link.usable:
                if self._link:
                    self._link.retire()
                self._link = None
                self._link = self._dialled(deadline)
            self._link.use()
            return self._link
        finally:
            self._dialling.release()

    def _dialled(self, deadline: Deadline) -> Link:
        """A new link to the first host that answers."""
        if (wait_s := self._not_before - self._clock()) > 0:
            raise Transient(f"not tried again for {wait_s:.1f} s: {self._last_problem}")
        problems: list[Transient | Denied] = []
        for step in range(len(self._hosts)):
            number = (self._first + step) % len(self._hosts)
            by = Deadline(min(deadline.at, Deadline.after(self._connect_s).at))
            try:
                link = dial(self._hosts[number], self.identity, self._keys, self._jump, by)
            except (Transient, Denied) as error:
                problems.append(error)
                continue
            self._first, self._pause_s = number, 0.0
            return link
        if deadline.passed:  # whoever asked had too little time; that says nothing about the hosts
            raise Transient(f"{'; '.join(map(str, problems))[:600]}; nothing was started")
        raise self._put_off(problems)

    def _put_off(self, problems: list[Transient | Denied]) -> Transient | Misconfigured:
        self._pause_s = min(max(self._pause_s * 2, FIRST_PAUSE_S), LONGEST_PAUSE_S)
        self._not_before = self._clock() + self._pause_s
        self._last_problem = "; ".join(map(str, problems))[:600]
        if all(isinstance(problem, Denied) for problem in problems):
            return Misconfigured(self._last_problem)
        return Transient(f"{self._last_problem}; nothing was started")
