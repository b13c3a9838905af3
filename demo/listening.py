"""TCP ports of this machine: which are free, and whether it is really our process that listens."""

import os
import socket
from contextlib import ExitStack, suppress
from pathlib import Path

HOST = "127.0.0.1"
USUAL = (7233, 8233)
"""Temporal's own ports for gRPC and for its Web UI: what every guide says, so taken when they are free."""

LISTEN = "0A"
"""The state in Linux's /proc/net/tcp."""


def ports() -> tuple[int, int]:
    """A port for Temporal and one for its Web UI: the usual ones when both are free, else two free ones."""
    return USUAL if all(is_free(port) for port in USUAL) else two_free()


def is_free(port: int) -> bool:
    """True when nobody listens there, on this or on all addresses."""
    with suppress(OSError), socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections that linger don't make a port busy
        probe.bind((HOST, port))
        return True
    return False


def two_free() -> tuple[int, int]:
    """Two ports that the system hands out; both are held until both are known."""
    with ExitStack() as held:
        probes = [held.enter_context(socket.socket()) for _ in range(2)]
        for probe in probes:
            probe.bind((HOST, 0))
        first, second = (int(probe.getsockname()[1]) for probe in probes)
    return first, second


def listens(pid: int, port: int) -> bool:
    """True when that very process listens at the port: two demos that start in the same moment never mistake each other."""
    return bool(_listeners(port) & _sockets(pid))


def _listeners(port: int) -> set[str]:
    """Inodes of the sockets that listen at the port, over IPv4."""
    rows = (line.split() for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:])
    return {row[9] for row in rows if row[3] == LISTEN and int(row[1].rpartition(":")[2], 16) == port}


def _sockets(pid: int) -> set[str]:
    """Inodes of the sockets that a process holds; none once it has ended."""
    folder, found = f"/proc/{pid}/fd", set()
    with suppress(OSError):
        for name in os.listdir(folder):
            with suppress(OSError):
                kind, _, inode = os.readlink(f"{folder}/{name}").partition(":")
                if kind == "socket":
                    found.add(inode.strip("[]"))
    return found
