"""The Debian packages of the testbed: found, installed where that is possible, or named with the command that gets them."""

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests import debian

SLURM = ("slurmctld", "slurmd", "slurm-client", "slurm-wlm-basic-plugins", "munge", "openssh-server")
ACCOUNTING = ("slurmdbd", "slurm-wlm-mysql-plugin", "mariadb-server-core", "mariadb-client-core")
TORCH = ("python3-torch",)
"""Debian's CPU build: gloo and torchrun work, and every user of the test cluster can run it."""

INSTALL_COMMAND = "sudo python3 -m tests.testbed install"
LOCK = Path("/var/lock/rerail-testbed.lock")

_PROGRAMS = {
    "slurmctld": "/usr/sbin/slurmctld",
    "slurmd": "/usr/sbin/slurmd",
    "slurm-client": "/usr/bin/squeue",
    "slurm-wlm-basic-plugins": "",
    "munge": "/usr/sbin/munged",
    "openssh-server": "/usr/sbin/sshd",
    "slurmdbd": "/usr/sbin/slurmdbd",
    "slurm-wlm-mysql-plugin": "",
    "mariadb-server-core": "/usr/sbin/mariadbd",
    "mariadb-client-core": "",
    "python3-torch": "/usr/lib/python3/dist-packages/torch/__init__.py",
}


@contextmanager
def alone() -> Iterator[None]:
    """While this machine's packages or users are changed: two test workers must not do it at once."""
    with LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def hindrance() -> str:
    """Why no cluster can be started here; empty when it can."""
    if os.geteuid() != 0:
        return "needs root"
    return debian.hindrance()


def ensure(packages: Sequence[str]) -> str:
    """Install what is missing; empty when all is there, else one sentence that says why not and what to type."""
    if why := hindrance():
        return f"the Slurm testbed: {why}; run `{INSTALL_COMMAND}` there"
    return debian.ensure({name: _PROGRAMS[name] for name in packages})
