"""The effects as data: when each is done, when it may be tried, on which attempt, and how it is done."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from activities.asks import EffectAsk
from policies.facts import moved
from rerail.ports import Scheduler
from rerail.records import Job, JobState


@dataclass(frozen=True)
class EffectKind:
    """One kind of effect on a job. All functions but `act` only look at what was freshly read."""

    name: str
    done: Callable[[EffectAsk, Job], bool]
    act: Callable[[EffectAsk, Job, Scheduler], None]
    too_late: Callable[[EffectAsk, Job], str]
    """A sentence when the job is no longer one that this may be done to."""
    ready: Callable[[EffectAsk, Job], bool] = lambda ask, job: True
    patience_s: float = 10.0
    """How long a fresh read may take to show it, before the activity is tried again (and looks first)."""
    after_requeue: bool = False
    """True when the scheduler has to show the requeue before it."""


def restarted(ask: EffectAsk, job: Job) -> bool:
    """True when the job is past the attempt that failed."""
    return job.restarts > ask.attempt.restarts


def not_the_failed_attempt(ask: EffectAsk, job: Job) -> str:
    return moved(job, ask.attempt)


def not_waiting_anew(ask: EffectAsk, job: Job) -> str:
    """Exclusions are for the one attempt that waits after the failed one."""
    if job.restarts == ask.attempt.restarts and job.state is not JobState.CANCELLED:
        return ""  # not yet, or no longer: a controller that was killed comes back with what it had written down
    if job.restarts != ask.attempt.restarts + 1:
        return f"the job is at restart count {job.restarts}, not at the {ask.attempt.restarts + 1} that waits for us"
    if job.state is not JobState.PENDING:
        return f"the job is {job.state} already"
    return ""


def waits_for_time(ask: EffectAsk, job: Job) -> bool:
    return job.begins_at is not None and job.begins_at > datetime.now(UTC)


def send_back(ask: EffectAsk, job: Job, scheduler: Scheduler) -> None:
    """Requeue it; the owner's --no-requeue is lifted first where policy allows that."""
    if ask.lifts and not job.requeue:
        scheduler.permit_requeue(job.job_id)
    scheduler.requeue(job.job_id, running=not job.state.ended)


def excluded(ask: EffectAsk, job: Job) -> set[str]:
    """What the list is to be: the owner's and ours, without what is ours no longer."""
    return {*job.excluded_nodes} - {*ask.ours} | {*ask.nodes}


AFTER_REQUEUE_S = 60.0
"""How long the requeue may not be seen: a controller that came back takes up to half a minute to see that a job is gone."""

REQUEUE = EffectKind(
    name="requeue",
    done=restarted,
    act=send_back,
    too_late=not_the_failed_attempt,
)
EXCLUDE = EffectKind(
    name="exclude",
    done=lambda ask, job: set(job.excluded_nodes) == excluded(ask, job),
    act=lambda ask, job, scheduler: scheduler.exclude(job.job_id, sorted(excluded(ask, job))),
    too_late=not_waiting_anew,
    ready=restarted,
    patience_s=AFTER_REQUEUE_S,
    after_requeue=True,
)
TAKE_BACK = EffectKind(
    name="take_back",
    done=lambda ask, job: not set(ask.nodes) & set(job.excluded_nodes),
    act=lambda ask, job, scheduler: scheduler.exclude(job.job_id, sorted({*job.excluded_nodes} - {*ask.nodes})),
    too_late=not_waiting_anew,
    ready=restarted,
    patience_s=AFTER_REQUEUE_S,
    after_requeue=True,
)
START = EffectKind(
    name="start",
    done=lambda ask, job: (
        restarted(ask, job) and not (job.state is JobState.PENDING and (job.completing or waits_for_time(ask, job)))
    ),
    act=lambda ask, job, scheduler: scheduler.start_now(job.job_id),
    too_late=lambda ask, job: "the job was cancelled meanwhile" if job.state is JobState.CANCELLED else "",
    # A begin time set while the failed attempt is being cleaned up is overwritten when that ends (Slurm 22.05, measured).
    ready=lambda ask, job: restarted(ask, job) and not job.completing,
    after_requeue=True,
    patience_s=100.0,  # KillWait 30 s + UnkillableStepTimeout 60 s are Slurm's defaults for processes that do not want to die
)
STOP = EffectKind(
    name="stop",
    done=lambda ask, job: job.state.ended,
    act=lambda ask, job, scheduler: scheduler.cancel(job.job_id),
    too_late=not_the_failed_attempt,
    patience_s=100.0,
)
