"""Weighing: which of the findings is the root, by order of trust, then by order in time."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import NamedTuple

from rerail.attribution.course import Course, Ending, survived_line
from rerail.attribution.findings import Finding, Level
from rerail.records import Advice, FaultClass, Kind, Role
from rerail.signatures import Scope

REACH = timedelta(seconds=60)
"""Two candidates within this time of each other are both told: clocks differ, and logs are buffered."""


class Weighed(NamedTuple):
    """The root, if any; what is within reach of it; and the echoes."""

    root: Finding | None
    rivals: tuple[Finding, ...]
    echoes: tuple[Finding, ...]


def weigh(findings: list[Finding], course: Course) -> Weighed:
    """Pick the root."""
    candidates = [one for one in findings if _can_be_root(one) and not _survived(one, course)]
    ordered = sorted(candidates, key=lambda one: _order(one, course))
    root = ordered[0] if ordered else None
    echoes = [one for one in findings if one is not root and (one.role is Role.CASCADE or one in candidates)]
    rivals = [one for one in ordered[1:] if root is not None and _within_reach(root, one)]
    return Weighed(root, tuple(rivals), tuple(echoes))


def _can_be_root(one: Finding) -> bool:
    return one.role is Role.ROOT and one.level > Level.ECHO and one.fault is not FaultClass.NONE


def _survived(one: Finding, course: Course) -> bool:
    """True for trouble in the log that training went on after."""
    if one.last_line is None or one.level not in (Level.LOG, Level.EXCEPTION, Level.SUMMARY):
        return False
    return one.last_line <= survived_line(course)


def _blames_node(one: Finding) -> bool:
    return one.scope is Scope.NODE and one.fault in (FaultClass.HARDWARE, FaultClass.SYSTEM)


def _unsure(one: Finding) -> bool:
    """The program's, by what the line says, with a race or a broken device within reach."""
    return one.fault is FaultClass.APPLICATION and one.advice is Advice.RESTART


_LOST = (Ending.NODE_FAIL, Ending.REQUEUED, Ending.HELD)

TRUST: tuple[tuple[int, Callable[[Finding, Course], bool]], ...] = (
    (12, lambda one, _: one.kind is Kind.STRAGGLER and one.level is Level.KERNEL),  # slowness ends no job
    (10, lambda one, _: one.kind is Kind.STRAGGLER),
    (38, lambda one, _: "aside" in one.tags),  # the job went on after it, or it came after the job's end
    (70, lambda one, _: one.level is Level.KERNEL and _blames_node(one)),  # the node itself says so: refines "node failed", too
    (45, lambda one, _: one.level is Level.KERNEL and one.fault is FaultClass.SYSTEM),
    (30, lambda one, _: one.level is Level.KERNEL),  # the driver's echo of what a program did
    (65, lambda one, course: one.level is Level.SCHEDULER and course.ending in _LOST),
    (55, lambda one, _: one.level is Level.SCHEDULER),
    (33, lambda one, _: "waits" in one.tags),  # who died or raised comes before who waited
    (40, lambda one, _: one.level is Level.LOG and one.general),
    (47, lambda one, _: one.level is Level.LOG and _unsure(one)),
    (50, lambda one, _: one.level is Level.LOG),
    (40, lambda one, _: one.level is Level.EXCEPTION),
    (35, lambda one, _: one.level is Level.PROCESS),
    (25, lambda one, _: one.level is Level.STATE),
    (20, lambda one, _: one.level is Level.SUMMARY),
)
"""The order of trust of docs/diagnosis.md as numbers, of which only the order counts; the first row that fits decides."""


def trust(one: Finding, course: Course) -> int:
    """How far a finding is believed, higher first; 0 for an echo."""
    return next((number for number, fits in TRUST if fits(one, course)), 0)


def _order(one: Finding, course: Course) -> tuple[int, int, datetime, int]:
    severity = 0 if one.fault is FaultClass.HARDWARE else 1
    if one.level is Level.KERNEL:
        return -trust(one, course), severity, one.at or datetime.max, 0  # noqa: DTZ901
    return -trust(one, course), 0, datetime.min, one.line if one.line is not None else 0  # noqa: DTZ901


def _within_reach(root: Finding, other: Finding) -> bool:
    """True for another cause that the order alone does not rule out."""
    if other.cause == root.cause or other.level < root.level or (other.fault is root.fault and other.nodes == root.nodes):
        return False
    if root.at is None or other.at is None:
        return True
    return abs(root.at - other.at) <= REACH
