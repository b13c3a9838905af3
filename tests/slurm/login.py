"""A login node of the testbed as an administrator would set it up: three keys, each bound to a copy of the gate."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from adapters.schedulers.slurm.over_ssh import OverSsh
from adapters.ssh.connection import Connection
from adapters.ssh.hostkeys import HostKeys
from adapters.ssh.identity import Identity
from rerail import gate
from tests import sshd
from tests.testbed.cluster import Cluster
from tests.testbed.settings import OPERATOR

USERS = {gate.READER: OPERATOR, gate.OPERATOR: OPERATOR, gate.ADMIN: "root"}
"""Slurm lets root drain nodes as it lets an Administrator."""


@dataclass(frozen=True)
class Login:
    """sshd, the keys of the roles, and the gate's log."""

    cluster: Cluster
    sshd: sshd.Sshd

    @classmethod
    def start(cls, cluster: Cluster, name: str = "login1", path: str = gate.SEARCH_PATH) -> "Login":
        """`path` is where the gate looks for Slurm's commands."""
        made = cls(cluster, sshd.Sshd(cluster.settings.root / name, user=OPERATOR))
        made.sshd.folder.mkdir()
        shutil.copyfile(gate.__file__, made.gate)
        made.gate.chmod(0o755)
        made.log.touch()
        made.log.chmod(0o666)
        for role in gate.ROLES:
            own = f"--path {path} --conf {cluster.slurm_conf} --log {made.log} --read {cluster.settings.root}"
            key = sshd.key(made.sshd.folder / role)
            (made.sshd.folder / "authorized").mkdir(exist_ok=True)
            made.sshd.authorize(key.with_suffix(".pub"), f"{made.gate} --role {role} {own}", USERS[role])
        made.sshd.start()
        return made

    @property
    def gate(self) -> Path:
        return self.sshd.folder / "rerail-gate"

    @property
    def log(self) -> Path:
        return self.sshd.folder / "gate.log"

    def way(self, role: str, **more: object) -> Connection:
        """The connection of one role."""
        return self.sshd.connection(identity=Identity(USERS[role], self.sshd.folder / role), **more)

    def runner(self, *roles: str) -> OverSsh:
        """The ways in of these roles, by default of all."""
        return OverSsh({role: self.way(role) for role in roles or gate.ROLES}, gated=True)


def keys_of(*hosts: Login) -> HostKeys:
    """The pinned keys of several login nodes in one file."""
    file = hosts[0].sshd.folder / "all_known_hosts"
    file.write_text("".join((host.sshd.folder / "known_hosts").read_text() for host in hosts))
    return HostKeys(file)
