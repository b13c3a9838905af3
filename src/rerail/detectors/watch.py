"""The watch of one attempt: new lines and the scheduler's record go in, symptoms come out."""

import re
from datetime import datetime, timedelta
from itertools import pairwise

from rerail.detectors import exited, slow, stalled
from rerail.detectors.watched import MOST_GAPS, Symptom, Watched
from rerail.readers import lines, progress
from rerail.readers.progress import Mark, Phase
from rerail.records import Job, JobState, Kind

FRESH = timedelta(seconds=15)
"""Two readings further apart than this tell nothing of the time between the lines in them."""

RANKS_APART = 3
"""Ranks of one job print their steps in any order, at most this far apart; a counter that falls further has begun anew."""


def begin(now: datetime, floor_s: float | None = None, steps: str = "") -> Watched:
    """The watch of a new attempt. `floor_s`: silence shorter than this is never a hang while it steps; None for the default.

    `steps` is a site's own pattern of progress lines; see `progress.mark`.
    """
    return Watched(began_at=now, read_at=now, clock_at=now, phase_at=now, floor_s=floor_s, steps=steps)


def was_blind(watched: Watched, now: datetime) -> Watched:
    """Log or scheduler could not be read until now: silence is counted from now on. Silence isn't health, nor is it a hang."""
    return watched.model_copy(update={"clock_at": now, "read_at": now})


def read_lines(watched: Watched, data: bytes, now: datetime) -> tuple[Watched, tuple[Symptom, ...]]:
    """Take in whole lines of the job's log (bytes that end with a newline), read at `now`. Many lines are one reading."""
    marks: list[Mark] = []
    works: dict[int, dict[int, float]] = {}
    before = watched
    for line in data.split(b"\n"):
        if line:
            watched, mark = _line(watched, line, now, works)
            if mark is not None:
                marks.append(mark)
    watched = _progressed(watched, marks, before, now) if marks else stalled.heard(watched, now)
    watched = slow.worked(watched, works).model_copy(update={"read_at": now})
    return _told(watched, exited.by_the_log(watched, now), _slowness(watched))


def see_job(watched: Watched, job: Job, now: datetime) -> tuple[Watched, tuple[Symptom, ...]]:
    """Take in the scheduler's current record, read at `now`."""
    held = job.state in (JobState.SUSPENDED, JobState.PENDING)
    watched = watched.model_copy(update={"job_state": job.state, "read_at": now, "clock_at": now if held else watched.clock_at})
    if job.state.ended:
        return _told(watched, exited.by_the_scheduler(watched, job), stalled.by_the_time_limit(watched, job))
    return _told(watched, exited.by_the_log(watched, now), stalled.by_silence(watched, job, now), _slowness(watched))


def _slowness(watched: Watched) -> Symptom | None:
    return slow.by_the_baseline(watched) or slow.by_its_peers(watched)


def _told(watched: Watched, *symptoms: Symptom | None) -> tuple[Watched, tuple[Symptom, ...]]:
    """Tell each kind once. A crash after a hang that was told is the hang's end, and a hang after a crash is its echo."""
    news: list[Symptom] = []
    for symptom in symptoms:
        told = {*watched.told, *(new.kind for new in news)}
        if symptom is not None and symptom.kind not in told and not (told & {Kind.CRASH, Kind.HANG}):
            news.append(symptom)
    return watched.model_copy(update={"told": watched.told + tuple(new.kind for new in news)}) if news else watched, tuple(news)


_MORE_THAN_A_STEP = re.compile(rb"heckpoint|ckpt|napshot|rror|xcept|illed|ailed|SIG")
"""A line with one of these may name a step and say something else."""


def _line(watched: Watched, line: bytes, now: datetime, works: dict[int, dict[int, float]]) -> tuple[Watched, Mark | None]:
    """Take in one line; a mark when it is progress. `works` gathers what ranks say of their own work, by step."""
    said = lines.plain(line)
    step = progress.step_by(watched.reader, said, watched.steps) if watched.reader else None
    if step is not None and watched.prints_work:
        _work(works, step, said)
    same = step is not None and watched.position is not None and watched.position - RANKS_APART <= step <= watched.position
    if same and not _MORE_THAN_A_STEP.search(said):
        return watched, None  # another rank's line of the same step
    mark = progress.mark(line, watched.steps)
    if mark is not None:
        if step is None and mark.step is not None:
            _work(works, mark.step, said)
        return _advanced(watched, mark, now)
    watched = exited.read_line(watched, line, now)
    return _announced(watched, line, now), None


def _work(works: dict[int, dict[int, float]], step: int, said: bytes) -> None:
    told = progress.worked(said)
    if told is not None:
        works.setdefault(step, {})[told[0]] = told[1]


def _advanced(watched: Watched, mark: Mark, now: datetime) -> tuple[Watched, Mark | None]:
    """A progress line: is it further than where the counter stood?"""
    position = mark.step if mark.step is not None else mark.epoch
    if position is None or (
        watched.reader and mark.reader != watched.reader and not progress.trusted_more(mark.reader, watched.reader)
    ):
        return watched, None
    known = watched.position if mark.reader == watched.reader else None
    if known is not None and known - RANKS_APART <= position <= known:
        return watched, None
    highest = mark.step if watched.last_step is None or mark.step is None else max(mark.step, watched.last_step)
    news: dict[str, object] = {
        "reader": mark.reader,
        "position": position,
        "last_step": highest if highest is not None else watched.last_step,
    }
    news |= {
        "advances": watched.advances + 1,
        "prints_work": watched.prints_work or (mark.work is not None and mark.rank is not None),
    }
    if watched.phase is not Phase.STEP:
        news |= {"phase": Phase.STEP, "phase_at": now}
    return exited.cleared(watched.model_copy(update=news)), mark


def _announced(watched: Watched, line: bytes, now: datetime) -> Watched:
    """A line that names a checkpoint or a phase."""
    news: dict[str, object] = {}
    saved, resumed = progress.saved_step(line), progress.resumed_step(line)
    if saved is not None:
        news["checkpoint_step"] = saved
    elif resumed is not None:
        news["resumed_step"] = resumed
    phase = progress.phase(line)
    if phase is not None and phase is not watched.phase and (phase is not Phase.STEP or watched.advances):
        news |= {"phase": phase, "phase_at": now}
    return watched.model_copy(update=news) if news else watched


def _progressed(watched: Watched, marks: list[Mark], before: Watched, now: datetime) -> Watched:
    """Progress was read: learn its pace, and count silence from now on."""
    fresh = now - before.read_at <= FRESH
    silent = (now - before.clock_at).total_seconds()
    news: dict[str, object] = {"progress_at": now, "clock_at": now, "stamped": marks[-1].at}
    if fresh and before.advances >= stalled.WARM_UP:
        news["longest"] = {**before.longest, before.phase: round(max(silent, before.longest.get(before.phase, 0.0)), 3)}
    gaps = _stamped_gaps(before.stamped, marks)
    if not gaps and fresh and before.advances and silent > 0:  # two pieces of one reading tell no time
        gaps = [silent / len(marks)] * len(marks)
    news["gaps"] = (*watched.gaps, *(round(gap, 3) for gap in gaps))[-MOST_GAPS:]
    watched = watched.model_copy(update=news)
    if before.advances >= stalled.WARM_UP:
        for mark, gap in zip(marks, [None] * (len(marks) - len(gaps)) + list(gaps), strict=True):
            watched = slow.took(watched, mark.pace or gap or 0.0, now)
    return watched


def _stamped_gaps(last: datetime | None, marks: list[Mark]) -> list[float]:
    """Seconds between progress lines by the loop's own time stamps; empty when it prints none."""
    times = [mark.at for mark in marks]
    if any(at is None for at in times):
        return []
    known = [last, *times] if last is not None else times
    pairs = pairwise(known)
    return [max(0.0, (b - a).total_seconds()) for a, b in pairs if a is not None and b is not None]
