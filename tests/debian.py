"""Debian packages that some tests need: installed where the user may, else those tests are skipped with the command to type."""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

LOCK = Path(tempfile.gettempdir()) / "rerail-tests-apt.lock"
"""Workers of pytest-xdist, and two test runs, must not call apt-get at once."""

LOCK_WAIT_S = 600
"""How long dpkg's own lock is waited for, held by whatever else installs packages on this machine."""


def needs(package: str, binary: str, mark: str) -> None:
    """Return once `binary` is there, installing `package` if need be; else skip the tests of `mark`; with CI=true fail them."""
    if why := ensure({package: binary}):
        skip(f"{mark}: {why}")


def skip(why: str) -> None:
    """Skip with the reason; a failure with CI=true, where a skip would hide that nothing was tested."""
    import pytest

    if os.environ.get("CI") == "true":
        pytest.fail(f"CI=true allows no skip: {why}", pytrace=False)
    pytest.skip(why)


def ensure(programs: Mapping[str, str]) -> str:
    """Install the packages whose program is missing (package: path); empty when all are there, else why not and what to type."""
    if not missing(programs):
        return ""
    if why := hindrance():
        return f"{told(missing(programs))} missing, and {why}; run `{command(programs)}`"
    with LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if missing(programs) and not _install(programs):
            _apt("update")
            _install(programs)
    if left := missing(programs):
        return f"{told(left)} could not be installed; run `{command(programs)}` and read what apt-get says"
    return ""


def missing(programs: Mapping[str, str]) -> tuple[str, ...]:
    """The packages whose program isn't there. Quick: no package tool is asked. An empty path is taken for there."""
    return tuple(package for package, path in programs.items() if path and not Path(path).exists())


def hindrance() -> str:
    """Why nothing can be installed here; empty when it can."""
    if os.geteuid() != 0:
        return "only root may install packages"
    if not shutil.which("apt-get"):
        return "there is no apt-get: this needs Debian or Ubuntu"
    return ""


def told(packages: tuple[str, ...]) -> str:
    noun = "package" if len(packages) == 1 else "packages"
    return f"Debian's {noun} {', '.join(packages)}"


def command(programs: Mapping[str, str]) -> str:
    """What a person types to get them all."""
    return f"sudo apt-get install -y --no-install-recommends {' '.join(programs)}"


def _install(packages: Iterable[str]) -> bool:
    """All of them: those that bring no program of their own too."""
    return _apt("install", "-y", "--no-install-recommends", *packages)


def _apt(*words: str) -> bool:
    """One apt-get call; True when it went well, else its last words go to standard error."""
    argv = ["apt-get", "-q", "-o", f"DPkg::Lock::Timeout={LOCK_WAIT_S}", *words]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(argv, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stderr[-2000:], file=sys.stderr)
    return done.returncode == 0
