"""A real sshd of one's own on 127.0.0.1, with keys, that can be killed, frozen and restarted."""

import getpass
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from adapters.ssh.address import Address
from adapters.ssh.connection import Connection
from adapters.ssh.hostkeys import HostKeys
from adapters.ssh.identity import Identity
from tests import debian
from tests.testbed.processes import wait_until

PROGRAM = "/usr/sbin/sshd"

_CONFIG = """\
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host
PidFile none
AuthorizedKeysFile {folder}/authorized/%u
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
PrintMotd no
Subsystem sftp internal-sftp
{extra}
"""


def needed() -> None:
    """Skip, with the command to type, where there is no sshd and none can be installed."""
    debian.needs("openssh-server", PROGRAM, "ssh")


def key(path: Path, kind: str = "ed25519") -> Path:
    """A new key pair at `path` and `path`.pub."""
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", path.name, "-f", str(path)], check=True)
    return path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Sshd:
    """One login node. `user` (the one that runs the tests, by default) enters by the key `user`; `command` is forced on it."""

    folder: Path
    extra: str = ""
    user: str = field(default_factory=getpass.getuser)
    command: str = ""
    port: int = field(default_factory=free_port)
    _process: "subprocess.Popen[bytes] | None" = None

    def start(self) -> "Sshd":
        """Up, with the host key it had."""
        (self.folder / "authorized").mkdir(parents=True, exist_ok=True)
        for name in ("host", "user"):
            if not (self.folder / name).exists():
                key(self.folder / name)
        if not (self.folder / "authorized" / self.user).exists():
            self.authorize(self.folder / "user.pub", self.command)
        self.pin()
        (self.folder / "sshd_config").write_text(_CONFIG.format(port=self.port, folder=self.folder, extra=self.extra))
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        with (self.folder / "sshd.log").open("ab") as log:
            argv = [PROGRAM, "-D", "-e", "-f", str(self.folder / "sshd_config")]
            self._process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        wait_until(self.listens, 15, f"sshd at {self.port}")
        return self

    def authorize(self, public: Path, command: str = "", user: str = "") -> None:
        """Let another key in, perhaps with a command forced on it."""
        options = f'restrict,command="{command}" ' if command else ""
        with (self.folder / "authorized" / (user or self.user)).open("a") as file:
            file.write(options + public.read_text())

    def pin(self, host_key: str = "") -> None:
        """The known_hosts file says that this is the host's key; by default its own."""
        line = host_key or (self.folder / "host.pub").read_text().rsplit(" ", 1)[0]
        (self.folder / "known_hosts").write_text(f"[127.0.0.1]:{self.port} {line}\n")

    def listens(self) -> bool:
        with socket.socket() as probe:
            probe.settimeout(1)
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self) -> None:
        """Dead at once, with every session; commands that they started go on."""
        if self._process:
            self._signal(signal.SIGKILL)
            self._process.wait(10)
            self._process = None

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def restart(self) -> None:
        self.stop()
        self.start()

    def sessions(self) -> int:
        """Living connections."""
        return len(self._daemons()) - 1

    def _signal(self, number: int) -> None:
        for pid in self._daemons():
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue

    def _daemons(self) -> list[int]:
        """The listener and its children, as far as they are sshd."""
        assert self._process
        found = [self._process.pid]
        for pid in found:
            found += [child for child in children(pid) if name_of(child) == "sshd"]
        return found

    @property
    def address(self) -> Address:
        return Address("127.0.0.1", self.port)

    @property
    def identity(self) -> Identity:
        return Identity(self.user, self.folder / "user")

    @property
    def keys(self) -> HostKeys:
        return HostKeys(self.folder / "known_hosts")

    def connection(self, **more: object) -> Connection:
        """A way in, with the right key to the right host unless told otherwise."""
        values = {"hosts": [self.address], "identity": self.identity, "keys": self.keys} | more
        return Connection(**values)  # type: ignore[arg-type]


def children(pid: int) -> Sequence[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


Start = Callable[..., Sshd]
