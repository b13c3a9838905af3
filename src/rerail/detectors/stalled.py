"""The symptom "progress stopped": watch progress, not silence.

    T = max(floor of the phase, MEDIANS x median of the last 50 gaps, SLACK x longest silence of this phase that ended by itself)

The aim: a hang is told within the longer of 8 steps and 45 s. Per-phase floors because a checkpoint, an evaluation, a compile
or a slow first step is no hang.
"""

from datetime import datetime, timedelta
from statistics import median

from rerail.detectors.watched import Symptom, Watched, symptom
from rerail.readers.progress import Phase
from rerail.records import Job, JobState, Kind

MEDIANS = 5.0
"""None in 3,105 real steps of seven series was longer than 5 medians; 3 medians gave 24 false alarms on shared GPUs."""

SLACK = 1.5
"""A pause of half again the longest one is still believed to be a pause."""

FLOORS: dict[Phase, timedelta] = {
    Phase.STARTUP: timedelta(
        minutes=30
    ),  # NVRx waits 30 min for a first heartbeat; loading a large model is silent for many minutes
    Phase.COMPILE: timedelta(minutes=30),  # torch.compile with autotuning of a large model
    Phase.STEP: timedelta(seconds=30),  # 45 s less the lag of logs, of polling and of confirmation
    Phase.CHECKPOINT: timedelta(minutes=7),  # Megatron Bridge: 420 s
    Phase.EVALUATION: timedelta(minutes=30),
    Phase.SHUTDOWN: timedelta(minutes=10),
}

WARM_UP = 5
"""Progress lines before the pace counts: NVRx ignores five, and first steps compile, allocate and fill caches."""

WARM_UP_FLOOR = timedelta(minutes=5)

FORGOTTEN = timedelta(hours=2)
"""In the phases where any output counts as life, this is the end of patience without a step."""

_OUTPUT_IS_LIFE = (Phase.STARTUP, Phase.COMPILE, Phase.CHECKPOINT, Phase.EVALUATION)


def threshold(watched: Watched) -> timedelta:
    """How long this job, in its current phase, may be silent."""
    floor = FLOORS[watched.phase]
    if watched.phase is not Phase.STEP:
        return max(floor, _learnt(watched))
    if watched.floor_s is not None:
        floor = timedelta(seconds=watched.floor_s)
    if watched.advances < WARM_UP:
        floor = WARM_UP_FLOOR
    usual = timedelta(seconds=MEDIANS * median(watched.gaps)) if watched.gaps else WARM_UP_FLOOR
    return max(floor, usual, _learnt(watched))


def _learnt(watched: Watched) -> timedelta:
    return timedelta(seconds=SLACK * watched.longest.get(watched.phase, 0.0))


def heard(watched: Watched, now: datetime) -> Watched:
    """Output that is no step: a sign of life in phases that have no steps, for a bounded time."""
    if watched.phase not in _OUTPUT_IS_LIFE or watched.fatal or (watched.advances and now - watched.phase_at > FORGOTTEN):
        return watched
    return watched.model_copy(update={"clock_at": now})


def by_silence(watched: Watched, job: Job, now: datetime) -> Symptom | None:
    """No progress for longer than the threshold while the job is said to run."""
    if job.state is not JobState.RUNNING or job.completing or watched.ending:
        return None
    silent, limit = now - watched.clock_at, threshold(watched)
    if silent <= limit:
        return None
    return symptom(watched, Kind.HANG, "stalled", _said(watched, silent, limit), watched.progress_at or watched.clock_at)


def by_the_time_limit(watched: Watched, job: Job) -> Symptom | None:
    """The time limit ended a job that had stopped moving long before."""
    if job.state not in (JobState.TIMEOUT, JobState.DEADLINE) or watched.progress_at is None:
        return None
    ended = job.ended_at or watched.read_at
    silent = ended - watched.clock_at
    if silent <= threshold(watched):
        return None
    return symptom(
        watched,
        Kind.HANG,
        "stalled",
        _said(watched, silent, threshold(watched)) + "; then its time limit ended it",
        watched.progress_at,
    )


def _said(watched: Watched, silent: timedelta, limit: timedelta) -> str:
    after = f" after step {watched.last_step}" if watched.last_step is not None else ""
    usual = f"; its steps usually come every {median(watched.gaps):.1f} s" if watched.gaps else ""
    what = "no progress" if watched.advances else "no first step and no output"
    return (
        f"{what} for {silent.total_seconds():.0f} s{after} in phase {watched.phase} (limit {limit.total_seconds():.0f} s){usual}"
    )
