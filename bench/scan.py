"""How fast a log is read: the signatures' scan by engine and the whole `rerail diagnose`, each beside ripgrep on the same file.

    python bench/scan.py [--megabytes 200] [--rounds 3]

Each sample runs in a process of its own and measures wall time, processor time and the highest resident memory, compilation of
the automaton included; of `diagnose`, Python's start and all imports, too. A small case is diagnosed as well. What the live watch
costs is measured by live.py. Raw samples go to bench/out/scan.json. For scale: NVIDIA's restart agent 0.7.0 reads 0.74 MB/s.
"""

import argparse
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rerail.signatures import ALL, scan_stream
from rerail.signatures.engine import installed, plain

OUT = Path(__file__).parent / "out" / "scan.json"
SEED = 20261201
SHARES = {"healthy": 0.001, "failing": 0.03}
"""Share of lines that a signature hits: a long healthy run with a line of any family now and then, and a log of which one line in
thirty is an echo of one failure."""
ECHOES = ("torch.", "nccl.", "slurm.")
SMALL = b"step=1 loss=2.1\n" * 400 + b"Traceback (most recent call last):\nKeyError: 'lr'\n"
"""A small log, for what a diagnosis costs at least."""

LIMITS = ("--regex-size-limit=1G", "--dfa-size-limit=1G")
"""As much memory for ripgrep's automaton as it likes."""

HEALTHY = (
    " [2025-03-11 {h:02}:{m:02}:{s:02}.251981] iteration {n:8}/  500000 | consumed samples: {k:12} | elapsed time per iteration "
    "(ms): {t:.1f} | throughput per GPU (TFLOP/s/GPU): {f:.1f} | learning rate: 3.000000E-04 | global batch size:  1024 | "
    "lm loss: {l:.6E} | loss scale: 1.0 | grad norm: 0.470 | number of skipped iterations:   0 | number of nan iterations:   0 |",
    "gpu-{m:04}:21603:21603 [{s}] NCCL INFO Channel {m:02}/16 : {s}[0] -> {h}[1] via P2P/CUMEM/read",
    "  9%|#         | {n}/9375 [{m:02}:{s:02}<8:50:47,  3.34s/it, loss={l:.3f}, lr=2e-5]",
    "0: [2026-12-01 {h:02}:{m:02}:{s:02},932][rank 2][INFO] step={n} loss={l:.4f} grad_norm=0.61 compute_s=0.250 step_s=0.287",
    "[default5]:INFO:megatron.core.utils:[2025-06-03 08:17:44] | MnRtt: {t:.2f}ms/7 | MxRtt/Rnk: {t:.2f}ms/30 | MxTmp: 64C/{s}",
    "{{'loss': {l:.4f}, 'grad_norm': 0.81, 'learning_rate': 1.9e-05, 'epoch': {s}.{m}}}",
)


def healthy_line(dice: random.Random) -> str:
    """One line of a run that gets on."""
    n = dice.randrange(1, 500_000)
    return dice.choice(HEALTHY).format(
        h=n % 24, m=n % 60, s=n % 61, n=n, k=n * 1024, t=dice.uniform(2000, 6000), f=dice.uniform(380, 400), l=dice.uniform(1, 9)
    )


def write_log(path: Path, size: int, share: float) -> int:
    """A log of `size` bytes in which `share` of the lines are examples of signatures; returns the number of lines."""
    dice = random.Random(SEED)  # noqa: S311  (a reproducible text, no secret)
    echoes = ECHOES if share > SHARES["healthy"] else ("",)
    examples = [line for row in ALL if row.id.startswith(echoes) for line in row.spoken]
    written = lines = 0
    with path.open("w") as file:
        while written < size:
            line = dice.choice(examples) if dice.random() < share else healthy_line(dice)
            written += file.write(line + "\n")
            lines += 1
    return lines


def scan_once(engine: str, path: str) -> dict[str, Any]:
    """One sample, in this process."""
    started, used = time.perf_counter(), time.process_time()
    with Path(path).open("rb") as file:
        hits = sum(1 for _ in scan_stream(file, ALL, engine))
    return sample(started, used) | {"hits": hits}


def diagnose_once(path: str) -> dict[str, Any]:
    """One diagnosis by the command itself, in a process of its own."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    subprocess.run([sys.executable, "-m", "rerail.cli", "diagnose", path], check=True, stdout=subprocess.DEVNULL)
    wall = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"wall_s": wall, "cpu_s": cpu, "rss_mb": after.ru_maxrss / 1024}


def sample(started: float, used: float) -> dict[str, Any]:
    """Seconds since, and the highest memory so far."""
    return {
        "wall_s": time.perf_counter() - started,
        "cpu_s": time.process_time() - used,
        "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def child(*arguments: str) -> dict[str, Any]:
    """One sample in a process of its own."""
    done = subprocess.run([sys.executable, __file__, "--child", *arguments], check=True, capture_output=True, text=True)
    made: dict[str, Any] = json.loads(done.stdout)
    return made


def ripgrep(path: Path, patterns: Path) -> dict[str, Any]:
    """The same file and patterns through ripgrep on one thread."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    argv = ["rg", "-j1", "--text", "--no-unicode", "--no-config", "--count", *LIMITS, "--file", str(patterns), str(path)]
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    wall = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "wall_s": wall,
        "cpu_s": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "lines": int(done.stdout),
    }


def measure(folder: Path, megabytes: int, rounds: int) -> list[dict[str, Any]]:
    """All samples: engines and ripgrep in turn, so that a busy machine hits all alike."""
    patterns = folder / "patterns"
    patterns.write_bytes(b"\n".join(plain(row.pattern) for row in ALL) + b"\n")
    samples: list[dict[str, Any]] = []
    for shape, share in SHARES.items():
        log = folder / f"{shape}.log"
        lines = write_log(log, megabytes * 1_000_000, share)
        about = {"shape": shape, "bytes": log.stat().st_size, "log_lines": lines}
        for _ in range(rounds):
            samples += [about | {"engine": name} | child("scan", name, str(log)) for name in installed()]
            samples.append(about | {"engine": "diagnose"} | child("diagnose", str(log)))
            if shutil.which("rg"):
                samples.append(about | {"engine": "ripgrep"} | ripgrep(log, patterns))
        log.unlink()
    small = folder / "small.log"
    small.write_bytes(SMALL)
    about = {"shape": "small", "engine": "diagnose", "bytes": len(SMALL)}
    return samples + [about | child("diagnose", str(small)) for _ in range(rounds)]


def best(samples: list[dict[str, Any]], shape: str, engine: str) -> dict[str, Any] | None:
    """The sample with the least processor time: the one least disturbed."""
    own = [s for s in samples if s["shape"] == shape and s["engine"] == engine]
    return min(own, key=lambda s: float(s["cpu_s"]), default=None)


def report(samples: list[dict[str, Any]]) -> None:
    """The table for people."""
    print(f"{len(ALL)} signatures; best of each, on processor time (wall time beside it)")
    for shape in SHARES:
        rg = best(samples, shape, "ripgrep")
        for engine in (*installed(), "diagnose", "ripgrep"):
            if one := best(samples, shape, engine):
                ratio = f"  {rg['cpu_s'] / one['cpu_s']:.2f} x ripgrep" if rg else "  (ripgrep is not installed)"
                memory = f"  {one['rss_mb']:.0f} MB" if "rss_mb" in one else ""
                speed = one["bytes"] / 1e6 / one["cpu_s"]
                print(f"{shape:8} {engine:9} {speed:7.0f} MB/s  {one['cpu_s']:5.2f} s ({one['wall_s']:.2f} s){ratio}{memory}")
    if one := best(samples, "small", "diagnose"):
        print(f"small    diagnose  {one['cpu_s']:5.2f} s ({one['wall_s']:.2f} s)  {one['rss_mb']:.0f} MB")


def main() -> None:
    """See the module."""
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(scan_once(*sys.argv[3:]) if sys.argv[2] == "scan" else diagnose_once(*sys.argv[3:])))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rerail-bench-") as folder:
        samples = measure(Path(folder), asked.megabytes, asked.rounds)
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps({"cpus": os.cpu_count(), "signatures": len(ALL), "samples": samples}, indent=1))
    report(samples)
    print(f"raw samples: {OUT}")


if __name__ == "__main__":
    main()
