"""One real Slurm cluster on this machine: up, down, and all that can be done to its nodes, its controller, its login node."""

import json
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from tests.testbed.packages import alone
from tests.testbed.processes import SEARCH_PATH, Processes, wait_until
from tests.testbed.settings import OPERATOR, OWNER, Settings

READY_S = 30.0
"""Longest wait for the nodes to be idle; 1 s is usual, a loaded machine takes more."""
COMMAND_S = 30.0
"""Longest time for one client command of the testbed itself."""


@dataclass(frozen=True)
class Cluster:
    """A cluster by its settings; all that lives of it stands in its root folder, so that any process can go on with it."""

    settings: Settings

    @classmethod
    def at(cls, root: Path) -> "Cluster":
        """The cluster that `up` made in this folder."""
        saved = json.loads((root / "settings.json").read_text())
        return cls(Settings(**{**saved, "root": root}))

    # -- as a whole ---------------------------------------------------------------------------------------------------

    def up(self) -> None:
        """Start all and wait until every node is idle. Anything left of an earlier cluster in this folder is ended first."""
        self.clean()
        try:
            self._prepare()
            self._start_munge()
            if self.settings.accounting:
                self._start_accounting()
            self.start_controller()
            for node in self.settings.node_names:
                self.start_node(node)
            if self.settings.login:
                self.start_login()
            wait_until(self._all_idle, READY_S, f"{self.settings.nodes} idle nodes (logs in {self.settings.log})")
            if self.settings.accounting:
                wait_until(self._is_registered, READY_S, "slurmctld known to slurmdbd: before that, jobs leave no trace there")
        except BaseException:
            self.down()
            raise

    def down(self) -> None:
        """End every process; the folder stays for reading."""
        first = ("login", "slurmctld", *self.settings.node_names)
        for name in first:
            self.processes.stop(name, signal.SIGKILL)
        for name in sorted(self.processes.names(), key=("slurmdbd", "mariadb", "munged").index):
            self.processes.stop(name)

    def clean(self) -> None:
        """End every process and remove the folder."""
        if self.settings.run.exists():
            self.down()
        shutil.rmtree(self.settings.root, ignore_errors=True)

    @property
    def environment(self) -> dict[str, str]:
        """What a client command needs."""
        return {"PATH": SEARCH_PATH, "SLURM_CONF": str(self.slurm_conf), "LC_ALL": "C", "HOME": str(self.shared)}

    @property
    def slurm_conf(self) -> Path:
        """Its slurm.conf."""
        return self.settings.etc / "slurm.conf"

    @property
    def shared(self) -> Path:
        """The file system that all nodes share; anybody may write."""
        return self.settings.root / "shared"

    @property
    def exports(self) -> dict[str, str]:
        """What a person or another program needs to use the cluster."""
        etc = self.settings.etc
        return {
            "SLURM_CONF": str(self.slurm_conf),
            "TESTBED_ROOT": str(self.settings.root),
            "TESTBED_SHARED": str(self.shared),
            "TESTBED_KERNEL_LOGS": self.kernel_log_template,
            "TESTBED_SSH_PORT": str(self.settings.ssh_port),
            "TESTBED_SSH_USER": OPERATOR,
            "TESTBED_SSH_KEY": str(etc / "id_operator"),
            "TESTBED_SSH_KNOWN_HOSTS": str(etc / "known_hosts"),
        }

    # -- commands -----------------------------------------------------------------------------------------------------

    def run(self, argv: Sequence[str], *, user: str | None = None, folder: Path | None = None, check: bool = True) -> str:
        """Run a client command against this cluster, as root or as one of its users; its standard output."""
        done = subprocess.run(
            list(argv),
            env=self.environment,
            cwd=folder or self.shared,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=COMMAND_S,
            check=False,
            user=user,
            group=user,
            extra_groups=[] if user else None,
        )
        if check and done.returncode:
            raise RuntimeError(f"{argv[0]} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
        return done.stdout

    def sbatch(self, *words: str, folder: Path | None = None, environment: Mapping[str, str] | None = None) -> str:
        """Submit a batch job as the owner of the training jobs; its job id."""
        export = ",".join(["ALL", *(f"{name}={value}" for name, value in (environment or {}).items())])
        argv = ["sbatch", "--parsable", f"--export={export}", *words]
        return self.run(argv, user=OWNER, folder=folder).strip().partition(";")[0]

    def exec(self, node: str, argv: Sequence[str]) -> str:
        """Run a command as root inside a node, with its process numbers and hostname."""
        done = subprocess.run(
            self.processes.enter(node, argv), env=self.environment, capture_output=True, text=True, timeout=COMMAND_S, check=True
        )
        return done.stdout

    def folder(self, name: str) -> Path:
        """A new folder on the shared file system that belongs to the owner of the training jobs."""
        path = self.shared / name
        path.mkdir()
        owner = pwd.getpwnam(OWNER)
        os.chown(path, owner.pw_uid, owner.pw_gid)
        return path

    # -- faults -------------------------------------------------------------------------------------------------------

    def kill_node(self, node: str) -> None:
        """Power loss."""
        self.processes.stop(node, signal.SIGKILL)

    def start_node(self, node: str) -> None:
        """Boot. A diskless node: nothing survives."""
        spool = self.settings.root / "spool" / node
        shutil.rmtree(spool, ignore_errors=True)
        spool.mkdir(parents=True)
        self.processes.start_node(node, self.settings.etc, ["slurmd", "-D", "-N", node], self.environment)

    def freeze_node(self, node: str) -> None:
        """Stop every process of the node but its first."""
        self._signal_all(node, "STOP")

    def thaw_node(self, node: str) -> None:
        """Let them go on."""
        self._signal_all(node, "CONT")

    def kill_slurmd(self, node: str) -> None:
        """Only slurmd dies; steps go on."""
        self.exec(node, ["bash", "-c", 'kill -9 "$(cat "$1")"', "kill", str(self.settings.run / f"slurmd.{node}.nspid")])

    def start_slurmd(self, node: str) -> None:
        """Start it again in the living node."""
        self.exec(node, ["bash", "-c", 'setsid slurmd -N "$1" </dev/null >/dev/null 2>&1', "start", node])

    def kill_controller(self) -> None:
        """slurmctld dies."""
        self.processes.stop("slurmctld", signal.SIGKILL)

    def start_controller(self) -> None:
        """slurmctld with the state it had."""
        self.processes.start("slurmctld", ["slurmctld", "-D"], self.environment)

    def state_saved_since(self, moment: float) -> bool:
        """True when slurmctld has written its jobs down after that time (seconds since 1970). It does so every few seconds: a
        job submitted just before it dies is unknown to the next one."""
        file = self.settings.root / "state" / "job_state"
        return file.exists() and file.stat().st_mtime > moment

    def controller_answers(self) -> bool:
        """True when it can be read."""
        return "is UP" in self.run(["scontrol", "ping"], check=False)

    def kill_login(self) -> None:
        """Power loss of the login node."""
        self.processes.stop("login", signal.SIGKILL)

    def start_login(self) -> None:
        """An sshd whose host key is pinned in the known_hosts file; the operator enters by key."""
        etc = self.settings.etc
        _ssh_key(etc / "ssh_host_ed25519_key")
        _ssh_key(etc / "id_operator")
        for folder in (Path("/run/sshd"), etc / "authorized_keys"):
            folder.mkdir(mode=0o755, exist_ok=True)
        shutil.copy(etc / "id_operator.pub", etc / "authorized_keys" / OPERATOR)
        (etc / "sshd_config").write_text(self.settings.sshd_config())
        host_key = (etc / "ssh_host_ed25519_key.pub").read_text().rsplit(" ", 1)[0]
        (etc / "known_hosts").write_text(f"[127.0.0.1]:{self.settings.ssh_port} {host_key}\n")
        self.processes.start_node("login", etc, ["/usr/sbin/sshd", "-D", "-e", "-f", str(etc / "sshd_config")], self.environment)
        wait_until(lambda: _listens(self.settings.ssh_port), 10, "sshd")

    # -- kernel logs --------------------------------------------------------------------------------------------------

    @property
    def kernel_log_template(self) -> str:
        """Path of a node's kernel log, as a central syslog keeps it."""
        return str(self.settings.root / "kern" / "{node}.log")

    def kernel_line(self, node: str, text: str) -> None:
        """The node's kernel says something."""
        stamp = datetime.now(UTC).isoformat(timespec="microseconds")
        with Path(self.kernel_log_template.format(node=node)).open("a") as log:
            log.write(f"{stamp} {node} kernel: {text}\n")

    # -- its parts ----------------------------------------------------------------------------------------------------

    @property
    def processes(self) -> Processes:
        """Its daemons."""
        return Processes(self.settings.run, self.settings.log)

    def _signal_all(self, node: str, name: str) -> None:
        loop = 'cd /proc; for p in [0-9]*; do [ "$p" = 1 ] || [ "$p" = $$ ] || kill -"$1" "$p" 2>/dev/null || :; done'
        self.exec(node, ["bash", "-c", loop, "signal", name])

    def _is_registered(self) -> bool:
        """True when slurmdbd knows where slurmctld is."""
        return bool(self.run(["sacctmgr", "-n", "-P", "show", "cluster", "format=ControlHost"], check=False).strip())

    def _all_idle(self) -> bool:
        return self.run(["sinfo", "-h", "-N", "-o", "%T"], check=False).split() == ["idle"] * self.settings.nodes

    def _prepare(self) -> None:
        root, run, log, etc = self.settings.root, self.settings.run, self.settings.log, self.settings.etc
        for folder in (
            root,
            run,
            run / "munge",
            run / "slurm",
            log,
            etc,
            root / "state",
            root / "spool",
            root / "dev",
            root / "kern",
        ):
            folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        self.shared.mkdir()
        self.shared.chmod(0o1777)
        shutil.chown(run / "munge", "munge")
        for folder in (root / "state", log, run / "slurm"):
            shutil.chown(folder, "slurm")
        for user in (OPERATOR, OWNER):
            _user(user)
        self._write_files()

    def _write_files(self) -> None:
        settings, etc = self.settings, self.settings.etc
        (settings.root / "settings.json").write_text(json.dumps(asdict(settings), default=str))
        (etc / "hosts").write_text(settings.hosts())
        (etc / "slurm.conf").write_text(settings.slurm_conf())
        (etc / "gres.conf").write_text(settings.gres_conf())
        _secret(etc / "munge.key", secrets.token_bytes(128), "munge")
        for number in range(8):  # /dev/null by another name: Slurm wants device files
            os.mknod(settings.root / "dev" / f"gpu{number}", 0o666 | 0o020000, os.makedev(1, 3))
        for node in settings.node_names:
            Path(self.kernel_log_template.format(node=node)).touch(0o644)

    def _start_munge(self) -> None:
        folder = self.settings.run / "munge"
        argv = ["munged", "--foreground", f"--key-file={self.settings.etc}/munge.key", f"--socket={folder}/munge.sock"]
        argv += [f"--pid-file={folder}/munged.pid", f"--log-file={folder}/munged.log", f"--seed-file={folder}/munged.seed"]
        apart = ["setpriv", "--reuid", "munge", "--regid", "munge", "--clear-groups", *argv]
        self.processes.start("munged", apart, self.environment)
        wait_until((folder / "munge.sock").exists, 10, "munged")

    def _start_accounting(self) -> None:
        """MariaDB, slurmdbd, and the two users in it. The password lives in files that only their reader can open."""
        settings, folder = self.settings, self.settings.root / "db"
        secret = secrets.token_hex(16)
        folder.mkdir()
        shutil.chown(folder, "slurm")
        _secret(settings.etc / "slurmdbd.conf", settings.slurmdbd_conf(secret).encode(), "slurm")
        _secret(settings.etc / "database.sql", settings.database(secret).encode(), "slurm")
        self.run(["mariadb-install-db", "--no-defaults", "--user=slurm", f"--datadir={folder}", "--skip-test-db"])
        self.processes.start("mariadb", _mariadb(folder, settings.db_port, settings.etc / "database.sql"), self.environment)
        wait_until(lambda: _listens(settings.db_port), 60, "MariaDB")
        self.processes.start("slurmdbd", ["slurmdbd", "-D"], self.environment)
        wait_until(lambda: _listens(settings.dbd_port), 60, "slurmdbd")
        self.run(["sacctmgr", "-i", "add", "cluster", "testbed"])
        self.run(["sacctmgr", "-i", "add", "account", "main", "Cluster=testbed"])
        self.run(["sacctmgr", "-i", "add", "user", f"{OPERATOR},{OWNER}", "Account=main", "Cluster=testbed"])
        self.run(["sacctmgr", "-i", "modify", "user", OPERATOR, "set", "AdminLevel=Operator"])


def _mariadb(folder: Path, port: int, first: Path) -> list[str]:
    small = ["--innodb-buffer-pool-size=64M", "--innodb-log-file-size=16M", "--performance-schema=OFF"]
    fast = ["--innodb-flush-log-at-trx-commit=0", "--innodb-lock-wait-timeout=900", "--skip-name-resolve"]
    where = [
        f"--datadir={folder}",
        "--bind-address=127.0.0.1",
        f"--port={port}",
        f"--socket={folder}/my.sock",
        f"--pid-file={folder}/my.pid",
    ]
    return ["mariadbd", "--no-defaults", "--user=slurm", *where, *small, *fast, f"--init-file={first}"]


def _secret(path: Path, content: bytes, owner: str) -> None:
    """A file that only its owner can read, from its first moment."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    shutil.chown(path, owner)


def _ssh_key(path: Path) -> None:
    if not path.exists():
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", path.name, "-f", str(path)], check=True)


def _user(name: str) -> None:
    """A user of this machine without password; `*` and not `!`, for sshd refuses locked accounts."""
    with alone():
        try:
            pwd.getpwnam(name)
        except KeyError:
            subprocess.run(["useradd", "-M", "-d", "/", "-s", "/bin/bash", "-p", "*", name], check=True)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0
