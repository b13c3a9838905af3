"""What a command costs over SSH: ours on a warm connection, with and without the gate, beside `ssh` with ControlMaster.

    python bench/ssh.py [--runs 100]

Milliseconds, p50 and p95, of `true` and of `squeue --json` on a real Slurm of six nodes on this machine with 100 waiting jobs;
also how long a first connection takes, and a small read of a log over SFTP. The ways take turns, so that all see the same busy
machine. Raw samples go to bench/out/ssh.json. Needs root and Debian's packages; says so where they can't be had.
"""

import argparse
import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from adapters.logs.sftp import SftpLogs
from adapters.schedulers.slurm.over_ssh import OverSsh
from adapters.ssh.command import run
from adapters.ssh.connection import Connection
from adapters.ssh.files import RemoteFiles
from rerail import gate
from tests.slurm.login import Login
from tests.testbed import packages, slots
from tests.testbed.cluster import Cluster
from tests.testbed.settings import OPERATOR

OUT = Path(__file__).parent / "out" / "ssh.json"
JOBS = 100
SQUEUE = ("squeue", "--all", "--states=all", "--json")
DEADLINE_S = 60.0

Ways = dict[str, Callable[[], object]]


def ways(cluster: Cluster, login: Login, control: Path) -> Ways:
    """Each by name; a call is one sample."""
    plain, gated = login.sshd.connection(), login.way(gate.READER)
    bare = OverSsh({gate.READER: plain}, gated=False, slurm_conf=str(cluster.slurm_conf))
    behind = OverSsh({gate.READER: gated}, gated=True)
    local, remote = SftpLogs(RemoteFiles(plain, gated=False)), SftpLogs(RemoteFiles(gated, gated=True))
    log = cluster.shared / "some.log"
    log.write_text("step 1\n" * 20_000)
    ssh = openssh(login, control)
    conf = f"SLURM_CONF={cluster.slurm_conf}"
    return {
        "true: ours": lambda: run(plain, "true", DEADLINE_S),
        "true: ssh with ControlMaster": lambda: subprocess.run([*ssh, "true"], check=True, capture_output=True),
        "squeue: ours": lambda: bare.run(SQUEUE, DEADLINE_S),
        "squeue: ours through the gate": lambda: behind.run(SQUEUE, DEADLINE_S),
        "squeue: ssh with ControlMaster": lambda: subprocess.run([*ssh, conf, *SQUEUE], check=True, capture_output=True),
        "squeue: on the host itself": lambda: cluster.run(SQUEUE),
        "connect and true: ours": lambda: connected(login),
        "connect and true: ssh": lambda: subprocess.run([*openssh(login, None), "true"], check=True, capture_output=True),
        "64 KiB of a log: sshd's SFTP": lambda: local.read(str(log), 1000, 65_536),
        "64 KiB of a log: the gate's SFTP": lambda: remote.read(str(log), 1000, 65_536),
    }


def connected(login: Login) -> None:
    way: Connection = login.sshd.connection()
    run(way, "true", DEADLINE_S)
    way.close()


def openssh(login: Login, control: Path | None) -> list[str]:
    """OpenSSH's client with the same key to the same host."""
    shared = ["-o", "ControlMaster=auto", "-o", f"ControlPath={control}", "-o", "ControlPersist=600"] if control else []
    own = ["-i", str(login.sshd.folder / "user"), "-p", str(login.sshd.port), "-o", "BatchMode=yes", "-F", "none"]
    return ["ssh", *own, "-o", f"UserKnownHostsFile={login.sshd.folder}/known_hosts", *shared, f"{OPERATOR}@127.0.0.1"]


def sampled(chosen: Ways, runs: int) -> dict[str, list[float]]:
    """Milliseconds, turn by turn; the first turn warms up and isn't counted."""
    found: dict[str, list[float]] = {name: [] for name in chosen}
    for turn in range(runs + 1):
        for name, way in chosen.items():
            began = time.perf_counter()
            way()
            if turn:
                found[name].append((time.perf_counter() - began) * 1000)
    return found


def told(samples: dict[str, list[float]]) -> str:
    lines = [f"{'':34}{'p50 ms':>9}{'p95 ms':>9}"]
    for name, values in samples.items():
        p95 = statistics.quantiles(values, n=20)[-1]
        lines.append(f"{name:34}{statistics.median(values):9.1f}{p95:9.1f}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    runs: int = parser.parse_args().runs
    if why := packages.ensure(packages.SLURM):
        print(f"left out: {why}")
        return
    with slots.running() as cluster, tempfile.TemporaryDirectory() as folder:
        login = Login.start(cluster)
        login.sshd.authorize(login.sshd.folder / "user.pub")
        script = cluster.shared / "wait.sh"
        script.write_text("#!/bin/sh\nsleep 600\n")
        for _ in range(JOBS):
            cluster.sbatch("--hold", str(script))
        control = Path(folder) / "control"
        try:
            samples = sampled(ways(cluster, login, control), runs)
        finally:
            subprocess.run([*openssh(login, control), "-O", "exit"], capture_output=True, check=False)
            login.sshd.stop()
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps({"unit": "ms", "jobs": JOBS, "samples": samples}, indent=1))
    print(told(samples))


if __name__ == "__main__":
    main()
