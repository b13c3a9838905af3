"""A place for one cluster: a root folder and a range of ports that no other living process uses."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.testbed.cluster import Cluster
from tests.testbed.settings import PORTS_EACH, Settings

HOME = Path("/var/lib/rerail-testbed")
"""Below root's own folders: munged refuses a socket whose parents others can write to, and job owners can enter it."""
FIRST_PORT = 27_800
"""Below the range from which the kernel takes ports of its own (32768 up)."""
SLOTS = 16


@contextmanager
def running(nodes: int = 6, *, accounting: bool = False, login: bool = False, extra: str = "") -> Iterator[Cluster]:
    """A cluster of one's own, up, in the first free place; ended and removed at the end.

    The lock goes with its process: what a killed test run left behind is ended by the next one.
    """
    with _slot() as slot:
        settings = Settings(root_of(slot), port_of(slot), nodes=nodes, accounting=accounting, login=login, extra=extra)
        cluster = Cluster(settings)
        cluster.up()
        try:
            yield cluster
        finally:
            cluster.clean()


def root_of(slot: int) -> Path:
    """The root folder of a place."""
    return HOME / str(slot)


def port_of(slot: int) -> int:
    """Its first port."""
    return FIRST_PORT + slot * PORTS_EACH


@contextmanager
def _slot() -> Iterator[int]:
    HOME.mkdir(mode=0o755, exist_ok=True)
    for slot in range(1, SLOTS):  # place 0 is the command line's
        lock = os.open(HOME / f"{slot}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            continue
        try:
            yield slot
        finally:
            os.close(lock)
        return
    raise RuntimeError(f"all {SLOTS - 1} places for test clusters are taken; see {HOME}")
