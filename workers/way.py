"""How a cluster is reached: one way in for its scheduler's commands, its jobs' logs and its nodes' kernel logs."""

from dataclasses import dataclass

from adapters.hosts.files import KernelLogFiles
from adapters.hosts.sftp import SftpKernelLogs
from adapters.hosts.silent import SilentHosts
from adapters.logs.files import FileLogs
from adapters.logs.sftp import SftpLogs
from adapters.regular_file import Opener, opened
from adapters.schedulers.local import LocalScheduler
from adapters.schedulers.slurm import InCluster, Runner, SlurmScheduler
from adapters.schedulers.slurm.in_cluster import SEARCH_PATH
from adapters.schedulers.slurm.over_ssh import OverSsh
from adapters.ssh.address import Address
from adapters.ssh.connection import Connection
from adapters.ssh.files import RemoteFiles
from adapters.ssh.hostkeys import HostKeys
from adapters.ssh.identity import Identity
from adapters.ssh.link import Jump
from rerail import gate
from rerail.ports import Hosts, Logs, Scheduler
from workers.settings import ClusterSettings, Ssh, SshIdentity
from workers.settings import LocalScheduler as LocalSettings
from workers.settings import SlurmScheduler as SlurmSettings


@dataclass(frozen=True)
class Way:
    """Adapters that share what they go over."""

    scheduler: Scheduler
    logs: Logs
    runner: Runner | None = None
    """Slurm's commands; None for another scheduler."""
    files: RemoteFiles | None = None
    """Files over SSH; None where they lie here."""

    @property
    def opener(self) -> Opener:
        """Opens the files that the logs are."""
        return self.files.opened if self.files else opened

    def hosts(self, template: str | None) -> Hosts:
        """Kernel logs by the path of one, with `{node}` in it; None is silence."""
        if template is None:
            return SilentHosts()
        return SftpKernelLogs(template, self.files) if self.files else KernelLogFiles(template)


def way(name: str, cluster: ClusterSettings) -> Way:
    """That of one cluster. Nothing is connected yet."""
    chosen = cluster.scheduler
    if isinstance(chosen, LocalSettings):
        return Way(LocalScheduler(name, chosen.folder), FileLogs())
    if chosen.ssh:
        return over_ssh(name, chosen, chosen.ssh)
    runner = InCluster(slurm_conf=str(chosen.conf or ""), search_path=f"{chosen.bin}:{SEARCH_PATH}")
    return Way(SlurmScheduler(name, runner, effect_deadline_s=chosen.deadline_s), FileLogs(), runner)


def over_ssh(name: str, slurm: SlurmSettings, ssh: Ssh) -> Way:
    """Commands and files over the same connections; identities that are the same share one."""
    roles = {gate.READER: ssh.reader, gate.OPERATOR: ssh.operator, gate.ADMIN: ssh.admin}
    set_up = {role: identity(one) for role, one in roles.items() if one}
    connections = {who: connection(ssh, who) for who in set_up.values()}
    ways = {role: connections[who] for role, who in set_up.items()}
    conf, path = str(slurm.conf or ""), f"{slurm.bin}:{SEARCH_PATH}"
    runner = OverSsh(ways, gated=ssh.gate, slurm_conf=conf, search_path=path)
    files = RemoteFiles(ways[gate.READER], gated=ssh.gate)
    return Way(SlurmScheduler(name, runner, effect_deadline_s=slurm.deadline_s), SftpLogs(files), runner, files)


def identity(settings: SshIdentity) -> Identity:
    """As the adapter takes it."""
    return Identity(settings.user, settings.key, settings.certificate, settings.agent)


def connection(ssh: Ssh, who: Identity) -> Connection:
    """The way in of one identity."""
    jump = Jump(Address.parse(ssh.jump.host), identity(ssh.jump)) if ssh.jump else None
    hosts = [Address.parse(host) for host in ssh.hosts]
    return Connection(hosts, who, HostKeys(ssh.known_hosts), jump=jump, sessions=ssh.sessions, connect_s=ssh.connect_s)
