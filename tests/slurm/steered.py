"""The testbed as a site of the schedulers' contract, whatever the way in."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

from adapters.schedulers.slurm import SlurmScheduler
from tests.testbed.cluster import Cluster

numbers = count()


@dataclass
class SlurmSite:
    """The testbed, where jobs are batch scripts with one task on each of their nodes."""

    cluster: Cluster
    scheduler: SlurmScheduler
    deadline_s: float = 60.0

    @property
    def nodes(self) -> Sequence[str]:
        return self.cluster.settings.node_names

    def drain_by_hand(self, node: str, reason: str) -> None:
        self.cluster.run(["scontrol", "update", f"nodename={node}", "state=drain", f"reason={reason}"])

    def submit(self, argv: Sequence[str], *, nodes: int = 1, requeue: bool = True, exclude: Sequence[str] = ()) -> str:
        script = self.cluster.folder(f"contract-{next(numbers)}") / "job.sh"
        script.write_text(f"#!/bin/sh\nexec srun --kill-on-bad-exit=1 {shlex.join(argv)}\n")
        options = [f"--nodes={nodes}", "--ntasks-per-node=1", "--requeue" if requeue else "--no-requeue"]
        options += [f"--exclude={','.join(exclude)}"] if exclude else []
        return self.cluster.sbatch(*options, str(script))
