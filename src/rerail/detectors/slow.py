"""The symptom "progress goes on, but clearly slower than before": change against the job's own baseline, then who."""

from rerail.detectors.watched import Symptom, Watched
from rerail.readers.progress import Mark


def took(watched: Watched, mark: Mark, pace: float) -> Watched:
    """Take in how long a step took, in seconds."""
    return watched


def by_the_baseline(watched: Watched) -> Symptom | None:
    """Clearly slower than its own baseline, steadily."""
    return None
