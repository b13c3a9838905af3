"""The course of a job: how far it came, when progress stopped, how it ended."""

import itertools
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from enum import StrEnum
from statistics import median
from typing import NamedTuple

from rerail.case import Case
from rerail.readers.joblog import Point
from rerail.readers.progress import Phase
from rerail.records import Role


class Ending(StrEnum):
    """How the attempt ended, by the scheduler's word; UNTOLD without one."""

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"
    PREEMPTED = "preempted"
    REQUEUED = "requeued"
    HELD = "held"
    OUT_OF_MEMORY = "out_of_memory"
    NODE_FAIL = "node_fail"
    RUNNING = "running"
    UNTOLD = "untold"


_ENDINGS = {
    "COMPLETED": Ending.COMPLETED,
    "FAILED": Ending.FAILED,
    "BOOT_FAIL": Ending.NODE_FAIL,
    "NODE_FAIL": Ending.NODE_FAIL,
    "CANCELLED": Ending.CANCELLED,
    "REVOKED": Ending.CANCELLED,
    "TIMEOUT": Ending.TIMEOUT,
    "DEADLINE": Ending.TIMEOUT,
    "PREEMPTED": Ending.PREEMPTED,
    "REQUEUED": Ending.REQUEUED,
    "REQUEUE_HOLD": Ending.HELD,
    "SPECIAL_EXIT": Ending.HELD,
    "OUT_OF_MEMORY": Ending.OUT_OF_MEMORY,
    "RUNNING": Ending.RUNNING,
    "COMPLETING": Ending.RUNNING,
    "STOPPED": Ending.RUNNING,
    "SUSPENDED": Ending.RUNNING,
}

RANKS_APART = 3
"""Ranks print their steps in any order, at most this far apart."""

SILENCE = timedelta(seconds=30)
MEDIANS = 5.0
LONG_PHASE = timedelta(minutes=15)


class Course(NamedTuple):
    """What became of progress."""

    ending: Ending
    points: tuple[Point, ...]
    """Progress lines of the most trusted reader."""
    last: Point | None
    last_at: datetime | None
    """When the last progress was made, as well as it can be told."""
    gap_s: float | None
    """Usual seconds between progress lines."""
    trouble_line: int | None
    """First line after the last progress that is known, and no noise."""
    trouble_at: datetime | None
    until: datetime | None
    """The end of what can be known."""
    silent_s: float | None
    """Seconds from the last progress to the first trouble, or to the end of what can be known."""
    phase: Phase

    @property
    def stopped(self) -> bool:
        """True when progress had clearly stopped before anything else was seen."""
        return self.silent_s is not None and self.silent_s > limit(self).total_seconds()

    @property
    def failed_at(self) -> datetime | None:
        """The best guess of when it went wrong."""
        return self.last_at or self.trouble_at or self.until


SURVIVED = 3
"""Progress lines after a line that no job prints after its death: the trouble told there was survived."""


def survived_line(course: Course) -> int:
    """Trouble told up to this line was survived; 0 when none was."""
    return course.points[-SURVIVED - 1].line if len(course.points) > SURVIVED else 0


def limit(course: Course) -> timedelta:
    """The silence that is no longer usual for this job."""
    usual = timedelta(seconds=MEDIANS * (course.gap_s or 0.0))
    floor = SILENCE if course.phase is Phase.STEP else LONG_PHASE
    return max(floor, usual)


def follow(case: Case) -> Course:
    """The course that a case tells of."""
    points = trusted(case.log.points)
    last = points[-1] if points else None
    after = last.line if last else 0
    trouble = _first_trouble(case, after)
    last_at = _last_at(case, points)
    trouble_at = _time_of(case, trouble) if trouble is not None else None
    until = case.scheduler.seen_until if case.scheduler else None
    phase = next((phase for line, phase in reversed(case.log.phases) if line > after), Phase.STEP if points else Phase.STARTUP)
    ended = ending(case)
    told_last = case.log.times[-1][1] if case.log.times else None
    end = (until or told_last) if ended in _SILENT_TO_THE_END else trouble_at or until
    if not points and ended in _SILENT_TO_THE_END:
        last_at = told_last or (case.scheduler.started_at if case.scheduler else None)
    return Course(ended, points, last, last_at, usual_gap(points), trouble, trouble_at, until, _silent(last_at, end), phase)


_SILENT_TO_THE_END = (Ending.RUNNING, Ending.TIMEOUT)


def _time_of(case: Case, line: int) -> datetime | None:
    """The time of a line or of one close behind it."""
    return next((at for number, at in case.log.times if line <= number <= line + 60), None)


def ending(case: Case) -> Ending:
    """How it ended, by the scheduler."""
    if case.scheduler is None:
        return Ending.UNTOLD
    return _ENDINGS.get(case.scheduler.state, Ending.UNTOLD)


def trusted(points: list[Point]) -> tuple[Point, ...]:
    """The progress lines of the one reader that tells most, one rank's only where several ranks print."""
    names: dict[str, int] = {}
    for point in points:
        names[point.mark.reader] = names.get(point.mark.reader, 0) + 1
    if not names:
        return ()
    best = max(names, key=lambda name: (names[name] >= max(2, len(points) // 10), -len(names), names[name]))
    return tuple(_advancing(point for point in points if point.mark.reader == best))


def _advancing(points: Iterable[Point]) -> Iterator[Point]:
    """One point a step, the first that any rank printed."""
    known: float | None = None
    for point in points:
        position = point.mark.step if point.mark.step is not None else point.mark.epoch
        if known is None or position is None or position > known or position < known - RANKS_APART:
            known = position
            yield point


def _first_trouble(case: Case, after: int) -> int | None:
    """The first line after the last progress that tells of trouble."""
    seen = [sight.line for sight in case.log.sightings if sight.line > after and sight.row.role is not Role.NOISE]
    seen += [one.line for one in case.log.tracebacks if one.line > after]
    return min(seen, default=None)


def _last_at(case: Case, points: tuple[Point, ...]) -> datetime | None:
    """When the last progress was made: its own time, else a time told close to it."""
    if not points:
        return None
    last = points[-1]
    if last.mark.at is not None:
        return last.mark.at
    timed = [(point.line, point.mark.at) for point in points if point.mark.at is not None]
    known = [(number, at) for number, at in (timed or case.log.times) if number <= last.line]
    started = case.scheduler.started_at if case.scheduler else None
    if started and last.mark.elapsed and not last.mark.epoch:
        by_bar = started + timedelta(seconds=last.mark.elapsed)
        return max(by_bar, known[-1][1]) if known else by_bar
    if not known or (len(points) > 3 and known[-1][0] < points[-3].line):
        return None  # a time told long before says nothing of the last step
    return known[-1][1]


def usual_gap(points: tuple[Point, ...]) -> float | None:
    """Usual seconds between progress lines: by their times, else by the pace they tell."""
    recent = points[-400:]
    times = [point.mark.at for point in recent if point.mark.at is not None]
    gaps = [(b - a).total_seconds() for a, b in itertools.pairwise(times) if b > a]
    if len(gaps) >= 3:
        return median(gaps)
    numbers = [point.mark.step for point in recent if point.mark.step is not None]
    steps = [b - a for a, b in itertools.pairwise(numbers) if b > a]
    paces = [point.mark.pace for point in recent if point.mark.pace]
    return median(paces) * max(1.0, median(steps) if steps else 1.0) if paces else None


def _silent(last_at: datetime | None, end: datetime | None) -> float | None:
    if last_at is None or end is None:
        return None
    return max(0.0, (end - last_at).total_seconds())
