"""What a watch remembers of one attempt, and what it tells."""

from datetime import datetime

from rerail.readers.progress import Phase
from rerail.records import JobState, Kind, Record

MOST_GAPS = 50
"""Step durations remembered: the window of the threshold T in the field's own practice (median of the last 50 steps)."""

MOST_WORKERS = 32
"""Ranks whose work of a half-told step is carried from one reading to the next."""

LONGEST_SENTENCE = 240
"""Characters of a quoted line or a `why`."""


class Watched(Record):
    """One attempt so far. Rides in heartbeats: kept under 2 KB as JSON."""

    began_at: datetime
    """When the watch of this attempt began."""
    floor_s: float | None = None
    """A site's own floor of the step phase, in seconds; None for the default."""
    steps: str = ""
    """A site's own pattern of progress lines."""
    read_at: datetime
    """Last time that lines or the scheduler could be read."""
    clock_at: datetime
    """Where the count of silence began: the last progress, or the end of a blindness."""
    progress_at: datetime | None = None
    """Last time that a new step was seen."""
    reader: str = ""
    """Which reader of `rerail.readers.progress` reads this job's steps."""
    last_step: int | None = None
    """The highest step of the attempt."""
    position: float | None = None
    """Where the counter stands: the step, or the epoch where a loop prints only that. It may fall when a new epoch begins."""
    advances: int = 0
    """How many progress lines were seen."""
    checkpoint_step: int | None = None
    resumed_step: int | None = None
    phase: Phase = Phase.STARTUP
    phase_at: datetime
    gaps: tuple[float, ...] = ()
    """Seconds between the last progress lines, newest last; at most MOST_GAPS."""
    paces: tuple[float, ...] = ()
    """Seconds a step, as the loop itself says or as its time stamps say; newest last; at most MOST_GAPS."""
    stamped: datetime | None = None
    """The loop's own time of its last progress line."""
    longest: dict[Phase, float] = {}
    """Learnt: the longest silence in each phase that was followed by progress, in seconds."""
    baseline: float | None = None
    """Seconds a step when the job ran well, once learnt."""
    slow_sum: float = 0.0
    """How much slower than the baseline the last steps were, summed; see `slow`."""
    slow_since: datetime | None = None
    slow_steps: int = 0
    """Progress lines in a row that were clearly slower than the baseline."""
    prints_work: bool = False
    """True when ranks print their own computing time apart from waiting."""
    work: dict[int, float] = {}
    """What ranks have said of their own work in `work_step` so far, in seconds; at most MOST_WORKERS."""
    work_step: int | None = None
    workers: int = 0
    """The most ranks that told their work in one step."""
    suspects: dict[int, int] = {}
    """Ranks that worked clearly longer than their peers, and in how many of the last steps, about; at most 8."""
    restarts_itself: bool = False
    """The launcher said that it restarts its workers by itself."""
    ending: bool = False
    """The log said that the scheduler or a person ends the job: what dies now dies by their will."""
    fatal: str = ""
    """The first line that only a dying process makes; bounded."""
    fatal_at: datetime | None = None
    fatal_ranks: tuple[int, ...] = ()
    fatal_step: float | None = None
    """Where the counter stood at that line."""
    certain: bool = False
    """True when the fatal line leaves no doubt."""
    job_state: JobState = JobState.UNKNOWN
    told: tuple[Kind, ...] = ()
    """Kinds that were told already."""


class Symptom(Record):
    """What a detector saw: told once per attempt and kind."""

    kind: Kind
    detector: str
    """exited, stalled or slow."""
    why: str
    """One sentence, bounded."""
    symptom_at: datetime | None = None
    last_step: int | None = None
    checkpoint_step: int | None = None
    ranks: tuple[int, ...] = ()


def symptom(  # noqa: PLR0917
    watched: Watched, kind: Kind, detector: str, why: str, at: datetime | None, ranks: tuple[int, ...] = ()
) -> Symptom:
    """A symptom with what the watch knows of the attempt's progress."""
    return Symptom(
        kind=kind,
        detector=detector,
        why=why[:LONGEST_SENTENCE],
        symptom_at=at,
        last_step=watched.last_step,
        checkpoint_step=watched.checkpoint_step,
        ranks=ranks[:8],
    )
