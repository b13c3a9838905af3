"""What one story costs by itself, without people and scheduler: from the anomaly to the closed incident, in seconds.

    python bench/overhead.py [--runs 20]

A real Temporal server on a SQLite file, the real workflows, guard and audit file; the sentences that look at a cluster or act on
it answer at once, and in autonomous mode nobody is asked. Aim: a median under 1 s. Raw samples go to bench/out/overhead.json.
"""

import argparse
import asyncio
import json
import shutil
import statistics
import sysconfig
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from activities.messaging import Messaging
from activities.recording import Recording
from activities.search import ALL
from adapters.audit.store import AuditStore
from rerail import names
from rerail.client import DATA_CONVERTER
from rerail.records import Attempt, JobKey, Outcome, Result
from tests.workflows.players import ACT, AT, CLUSTER, CONTROL, DETECT, ELSEWHERE, Players, Theatre, anomaly, proposes
from workers.assembly import WORKFLOWS

OUT = Path(__file__).parent / "out" / "overhead.json"
AIM_S = 1.0
WARM_UP = 2
"""Runs that are not counted: the first one loads what all share."""


async def play(theatre: Theatre, runs: int) -> list[float]:
    """Seconds of each story."""
    await theatre.guard()
    samples = []
    for number in range(runs + WARM_UP):
        job = JobKey(cluster=CLUSTER, job_id=str(number), submitted_at=AT)
        attempt = Attempt(job=job, number=1, submitted_at=AT, started_at=AT)
        began = time.perf_counter()
        played = await theatre.incident(anomaly(attempt=attempt), tells=False)
        outcome = Outcome.model_validate(await played.handle.result())
        samples.append(time.perf_counter() - began)
        assert outcome.result is Result.RECOVERED, outcome.why
    return samples[WARM_UP:]


def instant(client: Client, folder: Path) -> Players:
    """The world answers at once; record and guard are real."""
    players = Players()
    recording = Recording(AuditStore(f"sqlite:///{folder}/audit.db"), (), client)
    players.answers["propose"] = proposes(ELSEWHERE.model_copy(update={"ask": False}))
    players.answers["ask_guard"] = Messaging(client).ask_guard
    players.answers["record_decision"] = recording.record_decision
    players.answers["close"] = recording.close
    return players


async def measure(runs: int) -> list[float]:
    folder = Path(tempfile.mkdtemp(prefix="rerail-overhead-"))
    pragmas = ["--sqlite-pragma", "journal_mode=WAL", "--sqlite-pragma", "synchronous=NORMAL"]
    server = await WorkflowEnvironment.start_local(
        dev_server_existing_path=shutil.which("temporal", path=sysconfig.get_path("scripts")),
        dev_server_database_filename=str(folder / "temporal.db"),
        dev_server_extra_args=pragmas,
        dev_server_log_level="error",
        data_converter=DATA_CONVERTER,
        search_attributes=list(ALL),
    )
    players = instant(server.client, folder)
    queues: dict[str, dict[str, Any]] = {
        names.CONTROL_QUEUE: {"activities": players.activities(CONTROL), "workflows": WORKFLOWS},
        names.detect_queue(CLUSTER): {"activities": players.activities(DETECT)},
        names.act_queue(CLUSTER): {"activities": players.activities(ACT)},
    }
    try:
        with ThreadPoolExecutor(8) as threads:
            workers = [Worker(server.client, task_queue=q, activity_executor=threads, **what) for q, what in queues.items()]
            running = [asyncio.create_task(worker.run()) for worker in workers]
            samples = await play(Theatre(server.client, players), runs)
            await asyncio.gather(*(worker.shutdown() for worker in workers))
            await asyncio.gather(*running)
    finally:
        await server.shutdown()
        shutil.rmtree(folder, ignore_errors=True)
    return samples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    samples = asyncio.run(asyncio.wait_for(measure(parser.parse_args().runs), timedelta(minutes=10).total_seconds()))
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps({"seconds": [round(sample, 4) for sample in samples]}, indent=1) + "\n")
    median, most = statistics.median(samples), max(samples)
    told = f"median {median:.2f} s, maximum {most:.2f} s of {len(samples)} runs (aim: median under {AIM_S:g} s)"
    print(f"a story's own overhead: {told}")


if __name__ == "__main__":
    main()
