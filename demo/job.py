"""The training job of the demonstration: four ranks that average their gradients over sockets and save every tenth step."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from adapters.schedulers.local import LocalScheduler
from demo import train
from demo.places import Places
from rerail.readers import progress
from rerail.records import Job

RANKS = 4
STEP_S = 0.2
SAVED_EVERY = 10
STEPS = 900
"""Three minutes of training: long enough to be looked at, and it ends by itself."""
LATELY = 2 * RANKS
"""Lines of the last two steps."""
LOG_MAX = 1 << 22
"""Bytes of the log that are looked at; a whole run writes less."""


@dataclass(frozen=True)
class Training:
    """One submitted job."""

    scheduler: LocalScheduler
    places: Places
    job_id: str

    @classmethod
    def submit(cls, scheduler: LocalScheduler, places: Places, options: Sequence[str]) -> "Training":
        """Queue it; it starts at once."""
        own = ["--dir", str(places.job), "--steps", str(STEPS), "--step-s", str(STEP_S), "--ckpt-every", str(SAVED_EVERY)]
        job_id = scheduler.submit(
            [sys.executable, train.__file__, *own, *options],
            nodes=RANKS,
            name="train",
            folder=places.job,
            output=places.job_log.name,
            env={"OMP_NUM_THREADS": "1"},  # four ranks share this machine
        )
        return cls(scheduler, places, job_id)

    def read(self) -> Job:
        """What the scheduler says."""
        return self.scheduler.job(self.job_id)

    def pace_s(self) -> float | None:
        """Seconds that a step took lately, as the loop says; None before there are any."""
        try:
            log = self.places.job_log.read_bytes()[-LOG_MAX:]
        except FileNotFoundError:
            return None
        paces = [mark.pace for _, mark in progress.each(log) if mark and mark.pace]
        return median(paces[-LATELY:]) if paces else None

    def progress(self) -> progress.Story:
        """What the log of the current attempt tells."""
        try:
            with self.places.job_log.open("rb") as log:
                return progress.summary(log.read(LOG_MAX))
        except FileNotFoundError:
            return progress.Story()
