"""The symptom "progress goes on, but clearly slower than before": change against the job's own baseline, then who.

A one-sided CUSUM over the pace in units of the baseline: what exceeds SLOWER is summed, and the sum falls when the pace recovers.
Single pauses are capped, so that a checkpoint is no slowness.
"""

from datetime import datetime
from statistics import median

from rerail import peers
from rerail.detectors.watched import MOST_GAPS, MOST_WORKERS, Symptom, Watched, symptom
from rerail.records import Kind

SLOWER = 1.25
"""Slower than this against the baseline counts: shorter swings are the weather of a shared network."""

CAP = 1.0
"""The most that one step adds: one long pause is no slowness."""

ENOUGH = 2.0
"""The sum at which slowness is told: 5 steps at twice the time, 20 at a third more."""

IN_A_ROW = 5
LEARNT = 10
"""Paces needed before there is a baseline."""

MOST_SUSPECTS = 8
MOST_SLOW = 2
"""More slow ranks at once, unless they are few among many, are an imbalance of stages or data, not bad nodes."""


def took(watched: Watched, pace: float, now: datetime) -> Watched:
    """Take in how long a step took, in seconds."""
    if pace <= 0:
        return watched
    if watched.baseline is None or watched.slow_sum == 0.0:
        baseline = median(watched.paces) if len(watched.paces) >= LEARNT else None
        watched = watched.model_copy(update={"baseline": round(baseline, 4) if baseline else None})
    paces = (*watched.paces, round(pace, 3))[-MOST_GAPS:]
    return watched.model_copy(update={"paces": paces, **_summed(watched, pace, now)})


def _summed(watched: Watched, pace: float, now: datetime) -> dict[str, object]:
    if watched.baseline is None:
        return {}
    excess = min(CAP, pace / watched.baseline - SLOWER)
    total = max(0.0, watched.slow_sum + excess)
    if total == 0.0:
        return {"slow_sum": 0.0, "slow_steps": 0, "slow_since": None}
    steps = watched.slow_steps + 1 if excess > 0 else 0
    return {"slow_sum": round(min(total, 2 * ENOUGH), 3), "slow_steps": steps, "slow_since": watched.slow_since or now}


def worked(watched: Watched, steps: dict[int, dict[int, float]]) -> Watched:
    """Take in what ranks said of their own work, by step, in seconds: who stands out step after step is suspected.

    The last step may be told by halves: it is kept until the next one, or until all ranks have told.
    """
    if watched.work_step is not None and steps:
        steps = {watched.work_step: {**watched.work, **steps.get(watched.work_step, {})}, **_without(steps, watched.work_step)}
    if not steps:
        return watched
    workers = max(watched.workers, *(len(work) for work in steps.values()))
    last = max(steps)
    whole = len(steps[last]) >= watched.workers > 0 or len(steps[last]) > MOST_WORKERS
    suspects = dict(watched.suspects)
    for step, work in sorted(steps.items()):
        if step != last or whole:
            suspects = _suspected(suspects, work)
    kept = {} if whole else steps[last]
    news = {"suspects": suspects, "workers": workers, "work": kept, "work_step": None if whole else last}
    return watched.model_copy(update=news)


def _without(steps: dict[int, dict[int, float]], step: int) -> dict[int, dict[int, float]]:
    return {number: work for number, work in steps.items() if number != step}


def _suspected(suspects: dict[int, int], work: dict[int, float]) -> dict[int, int]:
    """One step's outliers rise, all others fall; the most suspected are kept."""
    out = peers.outliers(work, clearly=SLOWER)
    counts = {rank: count - 1 for rank, count in suspects.items() if rank not in out and count > 1}
    counts |= {rank: min(suspects.get(rank, 0) + 1, peers.WINDOW) for rank in out}
    return dict(sorted(counts.items(), key=lambda item: -item[1])[:MOST_SUSPECTS])


def by_its_peers(watched: Watched) -> Symptom | None:
    """A few ranks that do clearly more work than their peers, step after step. Many at once are a stage or a data matter."""
    ranks = tuple(sorted(rank for rank, count in watched.suspects.items() if count >= peers.NEEDED))
    if not ranks or len(ranks) > max(MOST_SLOW, watched.workers // 8):
        return None
    who = ", ".join(map(str, ranks))
    why = f"rank {who} computes clearly longer than its peers in {peers.NEEDED} of the last {peers.WINDOW} steps"
    return symptom(watched, Kind.STRAGGLER, "slow", why, watched.progress_at, ranks)


def by_the_baseline(watched: Watched) -> Symptom | None:
    """Clearly slower than its own baseline, steadily."""
    if watched.baseline is None or watched.slow_sum < ENOUGH or watched.slow_steps < IN_A_ROW:
        return None
    ranks = tuple(sorted(rank for rank, count in watched.suspects.items() if count >= IN_A_ROW - 2))
    recent = median(watched.paces[-IN_A_ROW:])
    who = f"; rank {', '.join(map(str, ranks))} works longer than its peers" if ranks else "; no rank can be told from the others"
    why = f"a step takes {recent:.3g} s, {recent / watched.baseline:.2g} times the usual {watched.baseline:.3g} s{who}"
    return symptom(watched, Kind.STRAGGLER, "slow", why, watched.slow_since, ranks)
