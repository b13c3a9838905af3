"""The configuration files of the testbed, written for one root folder and one range of ports."""

import socket
from dataclasses import dataclass
from pathlib import Path

PORTS_EACH = 100
"""Ports that one cluster may use from its first one on."""

OPERATOR = "rerailop"
"""The user whose rights rerail has; with accounting its AdminLevel is Operator."""
OWNER = "rerailjob"
"""The user who owns the training jobs."""

_SLURM_CONF = """\
ClusterName=testbed
SlurmctldHost={host}(127.0.0.1)
SlurmUser=slurm
SlurmctldPort={ctld_port}
SlurmdPort={slurmd_port}
AuthType=auth/munge
AuthInfo=socket={run}/munge/munge.sock,cred_expire=40
CredType=cred/munge
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool/%n
SlurmctldPidFile={run}/slurm/slurmctld.nspid
SlurmdPidFile={run}/slurmd.%n.nspid
SlurmctldLogFile={log}/slurmctld.log
SlurmdLogFile={log}/slurmd.%n.log
SlurmctldDebug=verbose
SlurmdDebug=verbose
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
GresTypes=gpu
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=1
JobRequeue=1
ReturnToService=1
SlurmctldTimeout=10
SlurmdTimeout=5
MessageTimeout=2
TCPTimeout=2
InactiveLimit=0
BatchStartTimeout=5
KillWait=3
UnkillableStepTimeout=15
CompleteWait=0
MinJobAge=600
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0,sched_min_interval=0
{accounting}
{extra}
NodeName=DEFAULT CPUs=8 RealMemory=16000 Gres=gpu:8 State=UNKNOWN
{nodes}
PartitionName=main Nodes=ALL Default=YES DefMemPerCPU=500 MaxTime=INFINITE State=UP
"""

_NO_ACCOUNTING = "AccountingStorageType=accounting_storage/none"

_ACCOUNTING = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={dbd_port}
AccountingStoragePass={run}/munge/munge.sock
AccountingStorageTRES=gres/gpu
AccountingStoreFlags=job_comment"""

_SLURMDBD_CONF = """\
AuthType=auth/munge
AuthInfo=socket={run}/munge/munge.sock
DbdHost={host}
DbdAddr=127.0.0.1
DbdPort={dbd_port}
SlurmUser=slurm
DebugLevel=verbose
LogFile={log}/slurmdbd.log
PidFile={run}/slurm/slurmdbd.nspid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={db_port}
StorageUser=slurm
StoragePass={secret}
StorageLoc=slurm_acct_db
CommitDelay=1
"""

_DATABASE = """\
CREATE DATABASE IF NOT EXISTS slurm_acct_db;
CREATE OR REPLACE USER 'slurm'@'127.0.0.1' IDENTIFIED BY '{secret}';
GRANT ALL ON slurm_acct_db.* TO 'slurm'@'127.0.0.1';
"""

_SSHD_CONFIG = """\
Port {ssh_port}
ListenAddress 127.0.0.1
HostKey {etc}/ssh_host_ed25519_key
PidFile {run}/sshd.nspid
AuthorizedKeysFile {etc}/authorized_keys/%u
AllowUsers {operator} {owner}
PermitRootLogin no
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
SetEnv SLURM_CONF={etc}/slurm.conf PATH=/usr/bin:/bin
Subsystem sftp internal-sftp
LogLevel VERBOSE
"""


@dataclass(frozen=True)
class Settings:
    """Where one cluster lives and how big it is."""

    root: Path
    port: int
    """First of PORTS_EACH ports on 127.0.0.1."""
    nodes: int = 6
    accounting: bool = False
    """With MariaDB and slurmdbd; several seconds more."""
    login: bool = False
    """With an sshd as login node."""
    extra: str = ""
    """More lines for slurm.conf."""

    @property
    def node_names(self) -> tuple[str, ...]:
        """node1, node2 ..."""
        return tuple(f"node{number}" for number in range(1, self.nodes + 1))

    @property
    def etc(self) -> Path:
        """Configuration and keys."""
        return self.root / "etc"

    @property
    def run(self) -> Path:
        """Sockets and pid files."""
        return self.root / "run"

    @property
    def log(self) -> Path:
        """What the daemons write."""
        return self.root / "log"

    @property
    def job_port(self) -> int:
        """First of 40 ports at which jobs may meet: those of two clusters share the addresses of their nodes."""
        return self.port + 60

    @property
    def ssh_port(self) -> int:
        """Of the login node."""
        return self.port + 22

    @property
    def db_port(self) -> int:
        """Of MariaDB."""
        return self.port + 20

    @property
    def dbd_port(self) -> int:
        """Of slurmdbd."""
        return self.port + 19

    def hosts(self) -> str:
        """/etc/hosts of every node."""
        nodes = [f"127.0.0.{10 + number} {name}" for number, name in enumerate(self.node_names, 1)]
        return "\n".join(["127.0.0.1 localhost", f"127.0.0.1 login {_host()}", *nodes]) + "\n"

    def slurm_conf(self) -> str:
        """slurm.conf."""
        nodes = [
            f"NodeName={name} NodeHostname={name} NodeAddr=127.0.0.{10 + number} Port={self.port + 30 + number}"
            for number, name in enumerate(self.node_names, 1)
        ]
        accounting = self._fill(_ACCOUNTING) if self.accounting else _NO_ACCOUNTING
        return self._fill(_SLURM_CONF, accounting=accounting, extra=self.extra, nodes="\n".join(nodes))

    def gres_conf(self) -> str:
        """gres.conf: a count alone would drain the nodes, so device files stand for the GPUs."""
        return f"Name=gpu File={self.root}/dev/gpu[0-7]\n"

    def slurmdbd_conf(self, secret: str) -> str:
        """slurmdbd.conf; `secret` is made at run time."""
        return self._fill(_SLURMDBD_CONF, secret=secret)

    def database(self, secret: str) -> str:
        """What MariaDB runs first."""
        return _DATABASE.format(secret=secret)

    def sshd_config(self) -> str:
        """sshd_config of the login node."""
        return self._fill(_SSHD_CONFIG, operator=OPERATOR, owner=OWNER)

    def _fill(self, text: str, **more: str) -> str:
        return text.format(
            host=_host(),
            root=self.root,
            etc=self.etc,
            run=self.run,
            log=self.log,
            ctld_port=self.port + 17,
            slurmd_port=self.port + 18,
            dbd_port=self.dbd_port,
            db_port=self.db_port,
            ssh_port=self.ssh_port,
            **more,
        )


def _host() -> str:
    return socket.gethostname().partition(".")[0]
