"""Live detectors, one symptom a file: exited, stalled, slow. Incremental: a small record rides from reading to reading.

Who may live here: pure functions of a `Watched`, new lines or a scheduler's record, and the time. They say that something is
wrong, never what: the cause is attribution's matter, and nobody acts on a detector alone.
"""

from rerail.detectors.watch import begin, read_lines, see_job, was_blind
from rerail.detectors.watched import Symptom, Watched

__all__ = ["Symptom", "Watched", "begin", "read_lines", "see_job", "was_blind"]
