"""One authenticated transport to one host, perhaps through a jump host."""

import socket
import threading
from contextlib import ExitStack
from dataclasses import dataclass

import paramiko

from adapters.ssh.address import Address
from adapters.ssh.deadline import Deadline, Guard
from adapters.ssh.hostkeys import HostKeys
from adapters.ssh.identity import Identity
from rerail.errors import Misconfigured, Transient

KEEPALIVE_S = 30
"""Firewalls forget a silent connection after some minutes. It finds no frozen peer: a command's deadline does."""
UNACKNOWLEDGED_MS = 20_000
"""After so long without a sign of life the kernel gives the connection up: a login node without power says no goodbye."""
OPEN_S = 5.0
"""Seconds for a channel to open, which takes no program on the other side: a peer that needs longer is frozen."""


class Denied(Misconfigured):
    """The host would not let us in; another one might."""


@dataclass(frozen=True)
class Jump:
    """A host on the way."""

    address: Address
    identity: Identity


class Link:
    """Counts who uses it, so that one that is given up is closed when the last command on it is over."""

    def __init__(self, address: Address, transports: tuple[paramiko.Transport, ...]) -> None:
        self.address = address
        self._transports = transports
        self._lock = threading.Lock()
        self._users = 0
        self._retired = False

    @property
    def usable(self) -> bool:
        """True while new channels may be opened on it."""
        return not self._retired and all(transport.is_active() for transport in self._transports)

    def open(self, deadline: Deadline) -> paramiko.Channel:
        """A session channel; whatever paramiko raises otherwise, nothing was started then."""
        with Guard(deadline, self.close):
            return self._transports[0].open_session(timeout=deadline.left(OPEN_S))

    def use(self) -> None:
        """One more uses it."""
        with self._lock:
            self._users += 1

    def release(self) -> None:
        """One less; the last one of a retired link closes it."""
        with self._lock:
            self._users -= 1
            last = self._retired and self._users == 0
        if last:
            self.close()

    def retire(self) -> bool:
        """No new channels; closed as soon as nobody uses it. False when that was said before."""
        with self._lock:
            first, self._retired = not self._retired, True
            last = self._users == 0
        if last:
            self.close()
        return first

    def close(self) -> None:
        """At once, whoever uses it."""
        self._retired = True
        for transport in self._transports:
            transport.close()


def dial(address: Address, identity: Identity, keys: HostKeys, jump: Jump | None, deadline: Deadline) -> Link:
    """Connect, check the host's key, prove who we are. Transient when the host is not to be had, Denied when it does not let us
    in, Misconfigured for a host key that is not the pinned one and for keys of ours that can't be used."""
    with ExitStack() as undo:
        transports: tuple[paramiko.Transport, ...] = ()
        if jump:
            outer = _entered(_connected(jump.address, deadline), jump.address, jump.identity, keys, deadline)
            undo.callback(outer.close)
            transports = (outer,)
            through: socket.socket | paramiko.Channel = _through(outer, jump.address, address, deadline)
        else:
            through = _connected(address, deadline)
        inner = _entered(through, address, identity, keys, deadline)
        undo.pop_all()
        return Link(address, (inner, *transports))


def _connected(address: Address, deadline: Deadline) -> socket.socket:
    """A socket of our own: without TCP_NODELAY each command waits 40 ms for an acknowledgement."""
    try:
        made = socket.create_connection((address.host, address.port), timeout=max(deadline.left(), 0.01))
    except OSError as error:
        raise Transient(f"{address} cannot be reached: {error.strerror or error or 'no answer'}"[:200]) from None
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNACKNOWLEDGED_MS)
    return made


def _through(outer: paramiko.Transport, jump: Address, address: Address, deadline: Deadline) -> paramiko.Channel:
    try:
        with Guard(deadline, outer.close):
            target = (address.host, address.port)
            return outer.open_channel("direct-tcpip", target, ("127.0.0.1", 0), timeout=deadline.left())
    except (paramiko.SSHException, EOFError, OSError) as error:
        raise Transient(f"{address} cannot be reached through {jump}: {reason(error)}") from None


def _entered(
    through: "socket.socket | paramiko.Channel", address: Address, identity: Identity, keys: HostKeys, deadline: Deadline
) -> paramiko.Transport:
    """The transport, once the host is known to be the right one and knows us. What fails is closed."""
    with ExitStack() as undo:
        undo.callback(through.close)
        try:
            transport = paramiko.Transport(through)
            undo.callback(transport.close)
            _begin(transport, address, keys, deadline)
            keys.check(address, transport.get_remote_server_key())
            _authenticate(transport, address, identity, deadline)
        except (paramiko.SSHException, EOFError, OSError) as error:
            raise Transient(f"{address} does not speak SSH with us: {reason(error)}") from None
        undo.pop_all()
    transport.set_keepalive(KEEPALIVE_S)
    return transport


def _begin(transport: paramiko.Transport, address: Address, keys: HostKeys, deadline: Deadline) -> None:
    transport.banner_timeout = transport.handshake_timeout = transport.auth_timeout = max(deadline.left(), 0.01)
    options = transport.get_security_options()
    wanted = [name for name in keys.algorithms(address) if name in options.key_types]
    options.key_types = (*wanted, *(name for name in options.key_types if name not in wanted))
    with Guard(deadline, transport.close):
        transport.start_client(timeout=max(deadline.left(), 0.01))


def _authenticate(transport: paramiko.Transport, address: Address, identity: Identity, deadline: Deadline) -> None:
    with identity.proofs() as keys, Guard(deadline, transport.close):
        if any(_accepted(transport, address, identity, key) for key in keys):
            return
    raise Denied(
        f"{address} does not let {identity} in: put the public key (or trust the certificate's authority) there, and see that "
        f"certificate and account have not run out"
    )


def _accepted(transport: paramiko.Transport, address: Address, identity: Identity, key: paramiko.PKey) -> bool:
    try:
        still = transport.auth_publickey(identity.user, key)
    except paramiko.BadAuthenticationType:
        raise Denied(f"{address} takes no keys from {identity.user}; allow PubkeyAuthentication there") from None
    except paramiko.AuthenticationException:
        if not transport.is_active():
            raise paramiko.SSHException("it hung up while we told who we are") from None
        return False
    if still:
        raise Denied(f"{address} wants more than the key from {identity.user}: {printable(', '.join(still))}")
    return True


def reason(error: BaseException) -> str:
    """A foreign error in a few printable words."""
    return printable(str(error) or type(error).__name__)


def printable(said: str) -> str:
    """What the other side said, bounded, on one line, without control characters."""
    return "".join(char if char.isprintable() else " " for char in said)[:120].strip()
