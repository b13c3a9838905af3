"""What a story plays on: a Temporal server with its UI, the service, a cluster `local`, and a training job to break."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from temporalio.client import Client

from adapters.schedulers.local import LocalScheduler
from demo.faults import Hit, inject_crash
from rerail.records import Job

ROOT = Path(__file__).parents[1]
CLUSTER = "alpha"
NODES = tuple(f"gpu-{n:02}" for n in range(1, 7))
RANKS = 4
STEPS = 5000
"""More than the test takes, so that the job never ends by itself while somebody looks."""
STEP_S = 0.1
CHECKPOINT_LINE = "saved checkpoint step="
WITHIN_S = 90.0
"""A condition that doesn't come about within this fails the test. Generous: it costs nothing unless something is broken."""


@dataclass(frozen=True)
class Stage:
    """Where everything is: `ui` is the address of the Web UI, `folder` holds the state, the cluster and the job's log."""

    client: Client
    ui: str
    folder: Path
    scheduler: LocalScheduler

    @property
    def settings(self) -> Path:
        return self.folder / "rerail.yaml"

    @property
    def training_log(self) -> Path:
        return self.folder / "train.log"

    def train(self, *options: str) -> str:
        """Submit the demo's training job; its id, once it has a checkpoint to come back to. `options`: more for demo/train.py."""
        argv = [sys.executable, str(ROOT / "demo" / "train.py"), "--dir", str(self.folder)]
        argv += ["--steps", str(STEPS), "--step-s", str(STEP_S), *options]
        job_id = self.scheduler.submit(argv, nodes=RANKS, name="train", folder=self.folder, output=str(self.training_log))
        wait_for(lambda: CHECKPOINT_LINE in text_of(self.training_log), "the job's first checkpoint", self.training_log)
        return job_id

    def crash(self, job_id: str, rank: int) -> Hit:
        """The rank's GPU falls off the bus, and the rank dies."""
        return inject_crash(self.scheduler, job_id, rank)

    def job(self, job_id: str) -> Job:
        """As the scheduler says it now."""
        return self.scheduler.job(job_id)

    @contextmanager
    def service(self) -> Iterator[None]:
        """`python -m workers up`, as an installation runs it; its log is kept in the folder."""
        log = self.folder / "workers.log"
        argv = [sys.executable, "-m", "workers", "--settings", str(self.settings), "up"]
        with log.open("wb") as out:
            process = subprocess.Popen(argv, cwd=ROOT, env=clean_environment(), stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        try:
            wait_for(lambda: process.poll() is not None or "ready" in text_of(log), "answer of the workers", log)
            assert process.poll() is None, f"the workers ended at once:\n{text_of(log)[-2000:]}"
            yield
        finally:
            end(process)


def write_settings(path: Path, server: str, ui: str) -> None:
    """A service of one cluster of the kind `local`, in monitor mode as by default."""
    path.write_text(
        "state: ./state\n"
        f'temporal: {{address: "{server}", ui: "{ui}"}}\n'
        "clusters:\n"
        f"  {CLUSTER}:\n"
        f"    scheduler: {{local: {{folder: ./{CLUSTER}}}}}\n"
        "    hang: {floor_s: 300}\n"  # a machine shared with other tests is silent for long
    )


def clean_environment() -> dict[str, str]:
    """This one, with our code to import and without anybody's Temporal profile, which would win over the settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TEMPORAL_", "RERAIL_"))}
    paths = [str(ROOT), str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**kept, "PYTHONPATH": os.pathsep.join(paths)}


def end(process: "subprocess.Popen[bytes]") -> None:
    """SIGTERM, and SIGKILL to what doesn't listen."""
    process.terminate()
    try:
        process.wait(WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def free_port() -> int:
    """A port of the loopback address that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
    return port


def text_of(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""


def wait_for(holds: Callable[[], bool], what: str, log: Path) -> None:
    """Until it holds; else the end of the log says why not."""
    deadline = time.monotonic() + WITHIN_S
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError(f"no {what} within {WITHIN_S:.0f} s; {log.name} ends with:\n{text_of(log)[-2000:]}")
        time.sleep(0.05)
