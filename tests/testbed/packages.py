"""The Debian packages of the testbed: found, installed where that is possible, or named with the command that gets them."""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

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


def missing(packages: Sequence[str]) -> tuple[str, ...]:
    """Those whose program isn't there. Quick: no package tool is asked."""
    return tuple(name for name in packages if _PROGRAMS[name] and not Path(_PROGRAMS[name]).exists())


def hindrance() -> str:
    """Why nothing can be installed or started here; empty when it can."""
    if os.geteuid() != 0:
        return "needs root"
    if not shutil.which("apt-get"):
        return "needs Debian or Ubuntu (apt-get)"
    return ""


def ensure(packages: Sequence[str]) -> str:
    """Install what is missing; empty when all is there, else one sentence that says why not and what to type."""
    if why := hindrance():
        return f"the Slurm testbed {why}; run `{INSTALL_COMMAND}` there"
    if not missing(packages):
        return ""
    with alone():
        if missing(packages) and not _apt_install(packages):
            _apt("update")
            _apt_install(packages)
    if left := missing(packages):
        return f"packages {', '.join(left)} could not be installed; run `{INSTALL_COMMAND}` and read what apt-get says"
    return ""


def _apt_install(packages: Sequence[str]) -> bool:
    return _apt("install", "-y", "--no-install-recommends", *packages)


def _apt(*words: str) -> bool:
    """One apt-get call; True when it went well. Another apt may hold the lock: wait for it."""
    argv = ["apt-get", "-q", "-o", "DPkg::Lock::Timeout=600", *words]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(argv, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stderr[-2000:])
    return done.returncode == 0
