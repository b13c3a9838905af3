"""How soon a job's end is known on a real Slurm, by hook and by poll, and what the looking costs slurmctld.

    python bench/slurm.py [--jobs 100] [--every-s 1.5] [--interval-s 1] [--pending 10000] [--approvals 10] [--minute-s 60]

Three parts, all with the whole service on a Slurm 22.05 of six nodes on this machine: (1) from a job's exit, as written down by
the job itself, to its incident in Temporal, over `--jobs` jobs, once by the hooks and once by looking alone; (2) calls to
slurmctld and CPU time a minute with `--pending` jobs waiting, quiet and with an event every half second; (3) approval to
accepted, with those jobs still waiting. Raw samples go to bench/out/slurm.json. It needs root and Debian's Slurm.
"""

import argparse
import asyncio
import contextlib
import json
import os
import re
import shutil
import socket
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from temporalio.client import Client, WorkflowExecution
from temporalio.service import RPCError

from adapters.schedulers.slurm import table
from rerail import names
from rerail.client import Rerail
from rerail.errors import RerailError
from rerail.records import Incident, Stage
from tests.mortal import Mortal
from tests.temporal import dev_server
from tests.testbed import packages, slots
from tests.testbed.cluster import Cluster

OUT = Path(__file__).parent / "out" / "slurm.json"
HOOKS = Path(__file__).parents[1] / "deploy" / "slurm" / "hooks"
PATIENCE_S = 120.0
TICKS = os.sysconf("SC_CLK_TCK")
CALL = re.compile(r"(REQUEST_\w+)\s+\(\s*\d+\) count:(\d+)\s+ave_time:\d+\s+total_time:(\d+)")

JOB = """\
#!/bin/sh
[ -n "$SLURM_RESTART_COUNT" ] && exit 0
sleep "$1"
date +%s.%N >"exit-$SLURM_JOB_ID"
exit 7
"""
"""Says when it ends; started again, it ends well at once."""


@dataclass
class Site:
    """A cluster with our hooks, a Temporal server, and the raw samples."""

    cluster: Cluster
    folder: Path
    shared: Path
    hooks: Path
    client: Client
    interval_s: float
    samples: dict[str, Any] = field(default_factory=dict)

    @property
    def intake(self) -> Path:
        return self.hooks / "in.sock"

    @contextmanager
    def service(self, *, hooks: bool) -> Iterator[Mortal]:
        """The whole service; without `hooks` it has no intake, so that it looks and nothing else."""
        settings = self.folder / "rerail.yaml"
        address = self.client.service_client.config.target_host
        settings.write_text(
            f'state: ./state\ntemporal: {{address: "{address}"}}\n'
            + (f"intake: {{socket: {self.intake}, group: slurm}}\n" if hooks else "")
            + f"clusters:\n  testbed:\n    interval_s: {self.interval_s}\n"
            + f"    scheduler: {{slurm: {{conf: {self.cluster.slurm_conf}}}}}\n    approval: {{expires_s: 86400}}\n"
        )
        service = Mortal(settings, [])
        service.log.write_text("")
        try:
            wait(lambda: "ready" in service.log.read_text(errors="replace"), "the service")
            yield service
        finally:
            service.end()

    def submit(self, seconds: float) -> str:
        return self.cluster.sbatch("--output=/dev/null", "job.sh", str(seconds), folder=self.shared)

    def exited_at(self, job_id: str) -> float | None:
        file = self.shared / f"exit-{job_id}"
        text = file.read_text().strip() if file.exists() else ""
        return float(text) if text else None


def wait(holds: Any, what: str) -> None:
    until = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > until:
            raise TimeoutError(f"no {what} within {PATIENCE_S:.0f} s")
        time.sleep(0.05)


def hooks_folder() -> Path:
    """A copy of the hooks where SlurmUser can read."""
    hooks = Path(tempfile.mkdtemp(prefix="bench-", dir=slots.HOME))
    hooks.chmod(0o755)
    shutil.copytree(HOOKS, hooks, dirs_exist_ok=True)
    (hooks / "hook.conf").write_text(f"SOCKET={hooks}/in.sock\n")
    return hooks


@asynccontextmanager
async def site(interval_s: float) -> AsyncIterator[Site]:
    """All of it, gone at the end."""
    hooks = hooks_folder()
    extra = f"EpilogSlurmctld={hooks}/epilog-slurmctld\nPrologSlurmctld={hooks}/prolog-slurmctld\n"
    with (
        tempfile.TemporaryDirectory(prefix="rerail-bench-") as folder,
        slots.running(nodes=6, extra=f"{extra}MaxJobCount=50000\nMaxArraySize=30001") as cluster,
    ):
        server = await dev_server(
            dev_server_database_filename=f"{folder}/temporal.db",
            dev_server_extra_args=["--sqlite-pragma", "journal_mode=WAL", "--sqlite-pragma", "synchronous=NORMAL"],
        )
        shared = cluster.folder("bench")
        (shared / "job.sh").write_text(JOB)
        try:
            yield Site(cluster, Path(folder), shared, hooks, server.client, interval_s)
        finally:
            await server.shutdown()
            shutil.rmtree(hooks)


# -- 1. Exit to durable anomaly ---------------------------------------------------------------------------------------


async def ends(site: Site, way: str, jobs: int, every_s: float) -> None:
    """Jobs that end one after the other; None for a job whose incident never came. The load says what else the machine did."""
    with site.service(hooks=way == "hook"):
        loads = {}
        for number in range(jobs):
            # Long enough to be seen running; fractions, so that ends fall anywhere in an interval.
            job_id = await asyncio.to_thread(site.submit, 6 + (number * 0.37) % 3)
            loads[job_id] = os.getloadavg()[0]
            await asyncio.sleep(every_s)
        samples = [{"job": job_id, "s": await seen_after(site, job_id), "load": load} for job_id, load in loads.items()]
    site.samples[f"exit to durable anomaly by {way}, a look each {site.interval_s:g} s"] = samples


async def seen_after(site: Site, job_id: str) -> float | None:
    """Seconds from the job's own last word to the start of its incident, by Temporal's clock (this machine's)."""
    query, until = f"WorkflowType = '{names.REMEDIATE_JOB}' AND {names.SA_JOB} = '{job_id}'", time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        exited_at = site.exited_at(job_id)
        found = [one.start_time.timestamp() for one in await listed(site.client, query)]
        if exited_at and found:
            return min(found) - exited_at
        await asyncio.sleep(0.2)
    return None


async def listed(client: Client, query: str) -> list[WorkflowExecution]:
    """None while the server is too busy to say."""
    try:
        return [one async for one in client.list_workflows(query)]
    except RPCError:
        return []


# -- 2. What looking costs --------------------------------------------------------------------------------------------


def fill(cluster: Cluster, jobs: int) -> None:
    """Held jobs with a record each: an update of its tasks takes an array apart."""
    array = cluster.sbatch("--hold", f"--array=0-{jobs}", "--output=/dev/null", "--wrap=sleep 1")
    cluster.run(["scontrol", "update", f"jobid={array}_[0-{jobs - 1}]", "Comment=apart"])


async def minute(site: Site, what: str, service: Mortal, seconds: float, *, events: bool) -> None:
    """Calls and CPU time in a while, per minute."""
    controller = site.cluster.processes.pid("slurmctld")
    assert controller
    site.cluster.run(["sdiag", "--reset"])
    before = (cpu(controller), cpu(service.process.pid), time.monotonic())
    while time.monotonic() - before[2] < seconds:
        if events:
            with contextlib.suppress(OSError):
                tell(site.intake)
        await asyncio.sleep(0.5)
    took = time.monotonic() - before[2]
    after = (cpu(controller), cpu(service.process.pid))
    calls = {name: int(count) for name, count, _ in CALL.findall(site.cluster.run(["sdiag"]))}
    a_minute = 60 / took
    site.samples[f"a minute with jobs waiting, {what}"] = {
        "calls": {name: round(count * a_minute, 1) for name, count in calls.items() if name != "REQUEST_STATS_INFO"},
        "slurmctld CPU s": round(sum(after[0]) * a_minute - sum(before[0]) * a_minute, 2),
        "service CPU s": round((after[1][0] - before[1][0]) * a_minute, 2),
        "its commands CPU s": round((after[1][1] - before[1][1]) * a_minute, 2),
    }


def tell(path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        sender.sendto(b"ended testbed 1", str(path))


def cpu(pid: int) -> tuple[float, float]:
    """CPU seconds of a process, and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS, (int(fields[13]) + int(fields[14])) / TICKS


def once(cluster: Cluster, argv: list[str]) -> dict[str, float]:
    """One read in the given way: CPU seconds of the command and of slurmctld, and the wall clock."""
    controller = cluster.processes.pid("slurmctld")
    assert controller
    began, ctld, mine = time.monotonic(), sum(cpu(controller)), os.times()
    size = len(cluster.run(argv))
    now = os.times()
    command = now.children_user + now.children_system - mine.children_user - mine.children_system
    return {
        "MB": size / 1e6,
        "wall s": time.monotonic() - began,
        "CPU s": command,
        "slurmctld CPU s": sum(cpu(controller)) - ctld,
    }


# -- 3. Approval to accepted ------------------------------------------------------------------------------------------


async def approvals(site: Site, count: int) -> None:
    """One job after the other, each approved once it is asked for."""
    samples = []
    for _ in range(count):
        job_id = await asyncio.to_thread(site.submit, 4)
        incident = await told(site.client, job_id)
        marks = incident.outcome.marks if incident and incident.outcome else {}
        took = (marks["accepted"] - marks["decided"]).total_seconds() if "accepted" in marks else None
        samples.append(
            {"job": job_id, "s": took, "result": str(incident.outcome.result) if incident and incident.outcome else ""}
        )
    site.samples["approval to accepted"] = samples


async def told(client: Client, job_id: str) -> Incident | None:
    """The closed incident, approved on the way."""
    person, until = Rerail(client, by="bench"), time.monotonic() + PATIENCE_S
    query = f"WorkflowType = '{names.REMEDIATE_JOB}' AND {names.SA_JOB} = '{job_id}'"
    while time.monotonic() < until:
        for found in await listed(client, query):
            with contextlib.suppress(RerailError):  # a busy service may not answer in time
                incident = await person.explain(found.id)
                assert isinstance(incident, Incident)
                if incident.stage is Stage.AWAITING_APPROVAL and incident.decided is None:
                    await person.approve(found.id, reason="measured")
                if incident.outcome:
                    return incident
        await asyncio.sleep(0.1)
    return None


# -- All --------------------------------------------------------------------------------------------------------------


async def measure(args: argparse.Namespace) -> dict[str, Any]:
    async with site(args.interval_s) as here:
        for way in args.ways:
            await ends(here, way, args.jobs, args.every_s)
            save(here.samples)
        if not args.pending:
            return here.samples
        await asyncio.to_thread(fill, here.cluster, args.pending)
        for way in ("table", "json"):
            here.samples[f"one read of all by {way}"] = await asyncio.to_thread(once, here.cluster, read_by(way))
        with here.service(hooks=True) as service:
            await minute(here, "starting", service, 5, events=False)
            await minute(here, "quiet", service, args.minute_s, events=False)
            await minute(here, "an event each half second", service, args.minute_s, events=True)
            save(here.samples)
            await approvals(here, args.approvals)
        return here.samples


def read_by(way: str) -> list[str]:
    words = ["--json"] if way == "json" else ["--noheader", f"--Format={table.asked(table.new_word())}"]
    return ["squeue", "--all", "--states=all", *words]


def save(samples: dict[str, Any]) -> None:
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps({"load average": os.getloadavg(), "cores": os.cpu_count(), **samples}, indent=1) + "\n")


def line(name: str, sample: Any) -> str:
    if isinstance(sample, dict):
        return f"{name}: " + ", ".join(
            f"{key} {value if isinstance(value, dict) else round(value, 2)}" for key, value in sample.items()
        )
    known = sorted(one["s"] for one in sample if one["s"] is not None)
    if not known:
        return f"{name}: none of {len(sample)} came"
    p95 = known[min(len(known) - 1, round(0.95 * len(known)))]
    missed = len(sample) - len(known)
    return (
        f"{name}: n {len(sample)}, missed {missed}, p50 {statistics.median(known):.2f} s, p95 {p95:.2f} s, max {known[-1]:.2f} s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--every-s", type=float, default=1.5)
    parser.add_argument("--interval-s", type=float, default=1.0)
    parser.add_argument("--pending", type=int, default=10_000, help="0 leaves the second and the third part out")
    parser.add_argument("--approvals", type=int, default=10)
    parser.add_argument("--minute-s", type=float, default=60)
    parser.add_argument("--ways", nargs="+", choices=("hook", "poll"), default=["hook", "poll"])
    args = parser.parse_args()
    if why := packages.ensure(packages.SLURM):
        print(f"left out: {why}")
        return
    samples = asyncio.run(measure(args))
    save(samples)
    print("\n".join(line(name, sample) for name, sample in samples.items()))
    print(f"raw samples in bench/out/{OUT.name}; load average at the end {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
