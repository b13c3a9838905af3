"""What the live watch costs: the detectors of a thousand jobs, as the detect role runs them, on the logs of a healthy cluster.

    python bench/live.py [--jobs 1000] [--lines 20] [--seconds 20] [--rounds 3]

Each sample runs in a process of its own. A job prints so many lines a second in the manner of one training loop and is looked at
once a second: its lines are read, the scheduler's record is taken in, and the state goes to JSON as it does in a heartbeat, every
fifth second. Processor time counts, writing the texts does not. Raw samples go to bench/out/live.json.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from rerail import detectors
from rerail.records import Job, JobState

OUT = Path(__file__).parent / "out" / "live.json"
SEED = 20261201
BEAT_S = 5
"""Seconds between two heartbeats that are sent (workers/assembly.py)."""
RANKS = 8
BEGAN = datetime(2026, 12, 1, tzinfo=UTC)

LOOPS = {
    "megatron": " [2026-12-01 {clock}] iteration {step:8}/  500000 | consumed samples: {k:12}"
    " | elapsed time per iteration (ms): {ms:.1f} | global batch size:  1024 | lm loss: {loss:.6E} | grad norm: 0.470 |",
    "ranks": "{rank}: [2026-12-01 {clock},932][rank {rank}][INFO] step={step} loss={loss:.4f} grad_norm=0.61 compute_s={s:.3f}"
    " sync_s=0.037 step_s={s:.3f}",
    "bar": "\r  9%|#         | {step}/937500 [{clock}<8:50:47,  {s:.2f}s/it, loss={loss:.3f}, lr=2e-5]",
    "trainer": "{{'loss': {loss:.4f}, 'grad_norm': 0.81, 'learning_rate': 1.9e-05, 'epoch': 0.{step:06}}}",
    "chatter": "gpu-{rank:04}:21603:21603 [{rank}] NCCL INFO Channel {rank:02}/16 : 0[0] -> 1[1] via P2P/CUMEM/read",
}
"""One loop a job; the last one prints no progress at all."""


def text(loop: str, second: int, lines: int, dice: random.Random) -> bytes:
    """What a job prints within one second: two steps, each told by as many ranks as there are lines for."""
    clock = (BEGAN + timedelta(seconds=second)).strftime("%H:%M:%S")
    said = []
    for n in range(lines):
        half = 2 * n // lines
        step = 2 * second + half
        form = LOOPS["chatter"] if n % 10 == 9 else LOOPS[loop]
        s = dice.uniform(0.49, 0.51)
        said.append(form.format(clock=clock, step=step, k=step * 1024, ms=s * 1e3, s=s, loss=dice.uniform(1, 3), rank=n % RANKS))
    return ("\n".join(said) + "\n").encode()


def once(jobs: int, lines: int, seconds: int) -> dict[str, Any]:
    """One sample, in this process: processor time by part, and the symptoms, of which a healthy cluster has none."""
    dice = random.Random(SEED)  # noqa: S311  (a reproducible text, no secret)
    loops = list(LOOPS)
    record = Job(cluster="bench", job_id="1", state=JobState.RUNNING, submitted_at=BEGAN, started_at=BEGAN)
    watched = [detectors.begin(BEGAN) for _ in range(jobs)]
    used = {"lines": 0.0, "job": 0.0, "heartbeat": 0.0}
    symptoms = largest = 0
    for second in range(1, seconds + 1):
        now = BEGAN + timedelta(seconds=second)
        texts = [text(loop, second, lines, dice) for loop in loops]
        for n in range(jobs):
            start = time.process_time()
            one, seen = detectors.read_lines(watched[n], texts[n % len(texts)], now)
            read = time.process_time()
            watched[n], more = detectors.see_job(one, record, now)
            looked = time.process_time()
            if (second + n) % BEAT_S == 0:
                largest = max(largest, len(watched[n].model_dump_json()))
            used["lines"] += read - start
            used["job"] += looked - read
            used["heartbeat"] += time.process_time() - looked
            symptoms += len(seen) + len(more)
    return {"jobs": jobs, "lines": lines, "seconds": seconds, "cpu_s": used, "symptoms": symptoms, "largest_state_bytes": largest}


def child(*arguments: str) -> dict[str, Any]:
    """One sample in a process of its own."""
    done = subprocess.run([sys.executable, __file__, "--child", *arguments], check=True, capture_output=True, text=True)
    made: dict[str, Any] = json.loads(done.stdout)
    return made


def main() -> None:
    """See the module."""
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(once(*map(int, sys.argv[2:5]))))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("jobs", 1000), ("lines", 20), ("seconds", 20), ("rounds", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    asked = parser.parse_args()
    samples = [child(str(asked.jobs), str(asked.lines), str(asked.seconds)) for _ in range(asked.rounds)]
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps({"cpus": os.cpu_count(), "samples": samples}, indent=1))
    best = min(samples, key=lambda sample: sum(sample["cpu_s"].values()))
    parts = ", ".join(f"{name} {used / best['seconds']:.2f}" for name, used in best["cpu_s"].items())
    total = sum(best["cpu_s"].values()) / best["seconds"]
    print(f"{best['jobs']} jobs x {best['lines']} lines/s: {total:.2f} of a core ({parts}); {best['symptoms']} symptoms;")
    print(f"the largest state that rides in a heartbeat has {best['largest_state_bytes']} bytes")
    print(f"raw samples: {OUT}")


if __name__ == "__main__":
    main()
