"""A data-parallel training job on the testbed: submitted, watched by its log, hurt by signals."""

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.testbed.cluster import Cluster
from tests.testbed.processes import wait_until

JOBS: Final = Path(__file__).parent.parent / "slurm" / "jobs"
PATIENCE_S = 120.0
"""Longest wait for a job to come to a step: torch needs 10 s to start on two idle cores, much more on busy ones."""

_STEP = re.compile(r"\[rank (\d+)\].* step=(\d+) loss=(\S+)")
_START = re.compile(r"\[rank (\d+)\].* start host=(\S+) pid=(\d+)")


@dataclass(frozen=True)
class Training:
    """One job of `tests/slurm/jobs`."""

    cluster: Cluster
    job_id: str
    folder: Path

    @classmethod
    def submit(
        cls, cluster: Cluster, name: str, *words: str, nodes: int = 4, ranks_per_node: int = 1, arguments: str = ""
    ) -> "Training":
        """Submit it to `nodes` nodes from a new folder of that name. `words`: options of sbatch; `arguments`: train.py's."""
        folder = cluster.folder(name)
        for file in ("ddp.sh", "train.py"):
            shutil.copy(JOBS / file, folder / file)
        environment = {"TRAIN_ARGS": arguments, "RANKS_PER_NODE": str(ranks_per_node), "MEET_AT": str(cluster.settings.job_port)}
        job_id = cluster.sbatch(f"--nodes={nodes}", *words, "ddp.sh", folder=folder, environment=environment)
        return cls(cluster, job_id, folder)

    @property
    def log(self) -> Path:
        """Where the job prints; a requeue truncates it."""
        return self.folder / f"ddp-{self.job_id}.log"

    def text(self) -> str:
        """What it printed so far."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def losses(self, rank: int = 0) -> dict[int, float]:
        """Loss by step, as printed by one rank."""
        return {int(step): float(loss) for by, step, loss in _STEP.findall(self.text()) if int(by) == rank}

    def step(self) -> int:
        """The last step that rank 0 finished; -1 before the first."""
        return max(self.losses(), default=-1)

    def wait_for_step(self, step: int) -> None:
        """Until rank 0 finished that step."""
        self.wait(lambda: self.step() >= step, f"step {step} of job {self.job_id}")

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Until a condition of this job holds."""
        wait_until(condition, PATIENCE_S, f"{what} (log: {self.text()[-300:]!r})")

    def where(self, rank: int) -> tuple[str, int]:
        """Node and pid (as seen on the node) of a rank."""
        for by, node, pid in _START.findall(self.text()):
            if int(by) == rank:
                return node, int(pid)
        raise LookupError(f"rank {rank} of job {self.job_id} has not started")

    def signal(self, rank: int, name: str = "KILL") -> str:
        """Send a signal to a rank; the node it ran on."""
        node, pid = self.where(rank)
        self.cluster.exec(node, ["kill", f"-{name}", str(pid)])
        return node
