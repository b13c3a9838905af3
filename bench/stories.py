"""How fast the story is, fault by fault, on the scheduler `local` and on a real Slurm of six nodes on this machine.

    python bench/stories.py [--runs 5] [--faults crash killed hang bug] [--on local slurm]

Per fault, median and maximum in seconds of at least five runs: fault to detected (durable in Temporal), to recommended (the plan
is made), approval to action accepted (the scheduler shows it), fault to training past the failed step (a bug: to stopped). The
person of these runs approves as soon as asked. Real training, real faults. Raw samples go to bench/out/stories.json.
Slurm needs root and Debian's packages; it is left out, and says so, where they can't be had.
"""

import argparse
import asyncio
import contextlib
import json
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from temporalio.client import Client

from adapters.schedulers.local import LocalScheduler
from demo import faults
from rerail import names
from rerail.client import Rerail
from rerail.errors import RerailError
from rerail.records import Incident, Stage
from tests.mortal import Mortal
from tests.stage import CLUSTER, NODES
from tests.stage import Stage as LocalStage
from tests.temporal import dev_server
from tests.testbed import packages, slots
from tests.testbed.cluster import Cluster
from tests.testbed.training import Training

OUT = Path(__file__).parent / "out" / "stories.json"
FAULTS = ("crash", "killed", "hang", "bug")
MEASURES = ("detected", "recommended", "accepted after approval", "past the failed step")
RANK, BUG_STEP = 2, 15
STORY_S = 300.0
"""A run that is not over by then is counted as a miss."""


@dataclass(frozen=True)
class Broken:
    """A job that was hurt: its id, and when."""

    job_id: str
    at: datetime
    finish: Callable[[], object]
    """Ends the job, so that the next one finds free nodes."""


Break = Callable[[str, int], Broken]


@contextmanager
def on_local(folder: Path) -> Iterator[tuple[str, str, Break]]:
    """The cluster's name, its part of the settings, and what starts a job and hurts it."""
    scheduler = LocalScheduler.create(folder / CLUSTER, CLUSTER, NODES)

    def hurt(fault: str, run: int) -> Broken:
        work = folder / f"{fault}-{run}"
        work.mkdir()
        options = faults.bug_options(BUG_STEP, RANK) if fault == "bug" else []
        stage = LocalStage(client=None, ui="", folder=work, scheduler=scheduler)  # type: ignore[arg-type]
        job_id = stage.train(*options)
        if fault == "bug":
            return Broken(job_id, wait_for_text(stage.training_log, "Traceback"), lambda: None)
        inject = {"crash": faults.inject_crash, "killed": faults.inject_killed, "hang": faults.inject_hang}[fault]
        return Broken(job_id, inject(scheduler, job_id, RANK).at, lambda: scheduler.cancel(job_id))

    try:
        yield CLUSTER, f"    scheduler: {{local: {{folder: {folder / CLUSTER}}}}}\n", hurt
    finally:
        scheduler.shut_down()


@contextmanager
def on_slurm(_folder: Path) -> Iterator[tuple[str, str, Break]]:
    """The same on a real Slurm."""
    if why := packages.ensure((*packages.SLURM, *packages.TORCH)):
        raise RuntimeError(why)
    with slots.running(nodes=6) as cluster:
        settings = f'    scheduler: {{slurm: {{conf: {cluster.slurm_conf}}}}}\n    kernel_log: "{cluster.kernel_log_template}"\n'
        yield "testbed", settings, lambda fault, run: hurt_on_slurm(cluster, fault, run)


def hurt_on_slurm(cluster: Cluster, fault: str, run: int) -> Broken:
    bug = f" --bad-batch-at {BUG_STEP}" if fault == "bug" else ""
    job = Training.submit(cluster, f"bench-{fault}-{run}", arguments=f"--steps 400 --checkpoint-every 10{bug}")
    if fault == "bug":
        return Broken(job.job_id, wait_for_text(job.log, "Traceback"), lambda: None)
    job.wait_for_step(12)
    node, _ = job.where(RANK)
    if fault == "crash":
        cluster.kernel_line(node, faults.XID_79)
    at = datetime.now(UTC)
    job.signal(RANK, "STOP" if fault == "hang" else "KILL")
    return Broken(job.job_id, at, lambda: cluster.run(["scancel", job.job_id]))


def wait_for_text(log: Path, text: str) -> datetime:
    """When the log says it."""
    until = time.monotonic() + STORY_S
    while not (log.exists() and text in log.read_text(errors="replace")):
        if time.monotonic() > until:
            raise TimeoutError(f"no {text!r} in {log}")
        time.sleep(0.02)
    return datetime.now(UTC)


@asynccontextmanager
async def serving(folder: Path, cluster: str, scheduler: str) -> AsyncIterator[Client]:
    """A Temporal server and the service."""
    pragmas = ["--sqlite-pragma", "journal_mode=WAL", "--sqlite-pragma", "synchronous=NORMAL"]
    server = await dev_server(dev_server_database_filename=str(folder / "temporal.db"), dev_server_extra_args=pragmas)
    settings = folder / "rerail.yaml"
    address = server.client.service_client.config.target_host
    settings.write_text(f'state: ./state\ntemporal: {{address: "{address}"}}\nclusters:\n  {cluster}:\n{scheduler}')
    service = Mortal(settings, [])
    try:
        await asyncio.to_thread(wait_for_text, service.log, "ready")
        yield server.client
    finally:
        service.end()
        await server.shutdown()


async def told(client: Client, job_id: str) -> Incident:
    """The closed incident of a job, approved on the way."""
    person, until = Rerail(client, by="bench"), time.monotonic() + STORY_S
    query = f"WorkflowType = '{names.REMEDIATE_JOB}' AND {names.SA_JOB} = '{job_id}'"
    while time.monotonic() < until:
        async for found in client.list_workflows(query):
            with contextlib.suppress(RerailError):
                incident = await person.explain(found.id)
                assert isinstance(incident, Incident)
                if incident.stage is Stage.AWAITING_APPROVAL and incident.decided is None:
                    await person.approve(found.id, reason="measured")
                if incident.outcome:
                    return incident
        await asyncio.sleep(0.05)
    raise TimeoutError(f"the story of job {job_id} was not over within {STORY_S:.0f} s")


def sample(fault: str, broken: Broken, incident: Incident) -> dict[str, Any]:
    """The seconds of one run."""
    assert incident.outcome
    marks = incident.outcome.marks
    end = marks.get("accepted" if fault == "bug" else "past")
    return {
        "detected": (marks["detected"] - broken.at).total_seconds(),
        "recommended": (marks["plan"] - broken.at).total_seconds(),
        "accepted after approval": (marks["accepted"] - marks["decided"]).total_seconds() if "accepted" in marks else None,
        "past the failed step": (end - broken.at).total_seconds() if end else None,
        "result": str(incident.outcome.result),
        "why": incident.outcome.why,
    }


async def measure(where: str, chosen: list[str], runs: int) -> list[dict[str, Any]]:
    """All runs on one scheduler."""
    samples: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="rerail-bench-") as name:
        folder = Path(name)
        with {"local": on_local, "slurm": on_slurm}[where](folder) as (cluster, settings, hurt):
            async with serving(folder, cluster, settings) as client:
                for fault in chosen:
                    for run in range(runs):
                        broken = await asyncio.to_thread(hurt, fault, run)
                        incident = await told(client, broken.job_id)
                        await asyncio.to_thread(broken.finish)
                        samples.append({"on": where, "fault": fault, "run": run, **sample(fault, broken, incident)})
                        print(".", end="", flush=True)
    return samples


def table(samples: list[dict[str, Any]]) -> str:
    """Median and maximum of each measure; misses are counted, never dropped."""
    lines = [f"{'':<16}" + "".join(f"{m:>26}" for m in MEASURES) + f"{'ended as':>16}"]
    for where, fault in dict.fromkeys((s["on"], s["fault"]) for s in samples):
        rows = [s for s in samples if (s["on"], s["fault"]) == (where, fault)]
        cells = "".join(f"{cell([r[m] for r in rows]):>26}" for m in MEASURES)
        results = ", ".join(sorted({r["result"] for r in rows}))
        lines.append(f"{where:<6}{fault:<10}{cells}{results:>16}")
    return "\n".join(lines)


def cell(values: list[float | None]) -> str:
    known = [v for v in values if v is not None]
    if not known:
        return "-"
    missed = f" ({len(values) - len(known)} missed)" if len(known) < len(values) else ""
    return f"{statistics.median(known):.2f} / {max(known):.2f}{missed}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--faults", nargs="+", choices=FAULTS, default=list(FAULTS))
    parser.add_argument("--on", nargs="+", choices=("local", "slurm"), default=["local", "slurm"])
    args = parser.parse_args()
    samples: list[dict[str, Any]] = []
    for where in args.on:
        try:
            samples += asyncio.run(measure(where, args.faults, args.runs))
        except RuntimeError as error:
            print(f"{where} is left out: {error}")
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(samples, indent=1) + "\n")
    print(f"\nseconds, median / maximum of {args.runs} runs; raw samples in {OUT.relative_to(OUT.parent.parent.parent)}")
    print(table(samples))


if __name__ == "__main__":
    main()
