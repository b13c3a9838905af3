"""Who is slow: a rank's own work against that of its peers, never the step time, which a straggler raises for all alike."""

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median

DEVIATIONS = 3.5
"""Robust deviations from the median of the peers: with it the slow worker of a real trace stood out in 44 of 44 steps, an
imbalance of sequence lengths in at most 1 of 43."""

CLEARLY = 1.1
"""And so much slower than the median: equal peers have hardly any deviation, and noise would look like one."""

NEEDED, WINDOW = 5, 8
"""A rank is slow when it stands out in so many of the last so many steps."""

FEWEST_PEERS = 3
MAD_TO_SIGMA = 1.4826


def outliers(work: Mapping[int, float], stages: Mapping[int, int] | None = None, clearly: float = CLEARLY) -> tuple[int, ...]:
    """Ranks whose work (seconds of one step) stands out among the peers of their pipeline stage. Two peers say nothing."""
    groups: dict[int, list[int]] = {}
    for rank in work:
        groups.setdefault(stages.get(rank, 0) if stages else 0, []).append(rank)
    return tuple(sorted(rank for ranks in groups.values() for rank in _of_one_stage(work, ranks, clearly)))


def _of_one_stage(work: Mapping[int, float], ranks: list[int], clearly: float) -> list[int]:
    if len(ranks) < FEWEST_PEERS:
        return []
    middle = median(work[rank] for rank in ranks)
    spread = MAD_TO_SIGMA * median(abs(work[rank] - middle) for rank in ranks)
    return [rank for rank in ranks if work[rank] > clearly * middle and work[rank] - middle > DEVIATIONS * spread]


def slow(
    steps: Sequence[Mapping[int, float]], stages: Mapping[int, int] | None = None, clearly: float = CLEARLY
) -> tuple[int, ...]:
    """Ranks that stand out in NEEDED of the last WINDOW steps, each step a mapping of rank to its own work in seconds."""
    counts = Counter(rank for work in steps[-WINDOW:] for rank in outliers(work, stages, clearly))
    return tuple(sorted(rank for rank, count in counts.items() if count >= NEEDED))
