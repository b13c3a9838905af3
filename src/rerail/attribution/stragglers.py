"""Stragglers after the fact: is the job slower than it was, and who holds it up?"""

import itertools
import re
from collections import Counter
from datetime import datetime, timedelta
from statistics import median
from typing import NamedTuple

from rerail import peers
from rerail.attribution.course import Course
from rerail.attribution.findings import Finding, Level
from rerail.attribution.whom import Places
from rerail.case import Case
from rerail.readers import lines
from rerail.records import Advice, Excerpt, FaultClass, Kind, Role

SLOWER = 1.25
"""The last steps against the first ones; less is the weather of a shared network."""

FEWEST = 20
"""Progress lines needed to speak of a pace at all."""

UNNAMED = 1.4
"""Slower than this before it is called a straggler's work although nobody can be named: sequences grow, and data may be slow."""

LOW_SCORE = 0.75
"""A rank's speed relative to the others below which NVRx calls it a straggler."""


class Slowness(NamedTuple):
    """How the pace changed."""

    usual_s: float
    now_s: float
    since_line: int
    since: datetime | None


def slowness(course: Course) -> Slowness | None:
    """The change of pace, when the last steps are clearly slower than the job's own earlier ones, and stayed so."""
    paces = [(point.line, point.mark.at, pace) for point, pace in zip(course.points, _paces(course), strict=True) if pace]
    paces = paces[3:]  # first steps compile and fill caches
    if len(paces) < FEWEST:
        return None
    tail = max(5, min(len(paces) // 10, 50))
    now = median(pace for _, _, pace in paces[-tail:])
    split = _split([pace for _, _, pace in paces])
    usual = median(pace for _, _, pace in paces[:split]) if split else now
    if split < 5 or len(paces) - split < 5 or now < SLOWER * usual:
        return None
    return Slowness(usual, now, paces[split][0], paces[split][1])


def _paces(course: Course) -> list[float | None]:
    """Seconds a step for each progress line: as the loop says it, else by its times."""
    points = course.points
    told = [point.mark.pace for point in points]
    if sum(pace is not None for pace in told) > len(points) // 2:
        return told
    gaps: list[float | None] = [None]
    for a, b in itertools.pairwise(points):
        if a.mark.at and b.mark.at and a.mark.step is not None and b.mark.step is not None and b.mark.step > a.mark.step:
            gaps.append((b.mark.at - a.mark.at).total_seconds() / (b.mark.step - a.mark.step))
        else:
            gaps.append(None)
    return gaps[: len(points)]


def _split(paces: list[float]) -> int:
    """Where the pace changed: the first of a run of steps, to the end, of which nearly all are clearly slower than before."""
    low = sorted(paces[: max(5, len(paces) // 4)])
    usual = low[len(low) // 2]
    slow = [pace > (1 + SLOWER) / 2 * usual for pace in paces]
    at = len(paces)
    while at > 0 and sum(slow[max(0, at - 5) : at]) >= 4:
        at -= 1
    return at if at < len(paces) else 0


# --- who -----------------------------------------------------------------------------------------------------------------------

_SCORE = re.compile(rb"(?i)\brank[ =:]{0,2}(\d{1,7})\b.{0,60}?\bscore[ =:]{0,2}([01]?\.\d+|[01])\b")
_LONGEST = re.compile(rb"MnRtt/Rnk: ([\d.]+)ms/\d+.{0,40}?MxRtt/Rnk: ([\d.]+)ms/(\d{1,7})")
_AFFECTED = re.compile(rb"StragglerId\(rank=(\d{1,7})")


def suspects(case: Case, course: Course) -> tuple[int, ...]:
    """Ranks that hold the job up, by their own work, by scores and by timers that the log prints."""
    return _by_work(case) or _by_scores(case)


def _by_work(case: Case) -> tuple[int, ...]:
    steps: dict[int, dict[int, float]] = {}
    for point in case.log.points[-8 * 2048 :]:
        mark = point.mark
        if mark.work is not None and mark.rank is not None and mark.step is not None:
            steps.setdefault(mark.step, {})[mark.rank] = mark.work
    complete = [work for _, work in sorted(steps.items()) if len(work) >= peers.FEWEST_PEERS]
    if not complete:
        return ()
    ranks = peers.slow(complete, clearly=SLOWER)
    return ranks if len(ranks) <= max(2, len(complete[-1]) // 8) else ()  # many at once are a stage's or the data's matter


def _by_scores(case: Case) -> tuple[int, ...]:
    """Ranks with a low score, or the longest round trip by far, in most of the last reports."""
    votes: list[int] = []
    reports = case.log.scores[-64:]
    for raw in reports:
        if (score := _SCORE.search(raw)) and float(score[2]) < LOW_SCORE:
            votes.append(int(score[1]))
        elif (timer := _LONGEST.search(raw)) and float(timer[2]) > SLOWER * float(timer[1]):
            votes.append(int(timer[3]))
        elif affected := _AFFECTED.findall(raw):
            votes += map(int, affected)
    counts = Counter(votes[-24:])
    most = max(counts.values(), default=0)
    ranks = tuple(sorted(rank for rank, count in counts.items() if count >= 2 and count >= most / 2))
    return ranks if len(ranks) <= 2 else ()


def evidence(case: Case, course: Course, slow: Slowness | None) -> tuple[Excerpt, ...]:
    """Where it became slow, and the last report that names somebody."""
    told = [raw for raw in case.log.scores if ((m := _SCORE.search(raw)) and float(m[2]) < LOW_SCORE) or _AFFECTED.search(raw)]
    found = []
    if slow is not None:
        text = f"from here on a step takes {slow.now_s:.3g} s in place of {slow.usual_s:.3g} s"
        found.append(Excerpt(source=case.log.name, line=slow.since_line, text=text, role=Role.ROOT, at=slow.since))
    found += [Excerpt(source=case.log.name, text=lines.excerpt(raw)) for raw in told[-1:]]
    return tuple(found)


class Slowpoke(NamedTuple):
    """A straggler's verdict in parts."""

    fault: FaultClass
    cause: str
    nodes: tuple[str, ...]
    ranks: tuple[int, ...]
    advice: Advice
    why: str
    findings: tuple[Finding, ...]


def blame(case: Case, places: Places, course: Course, found: list[Finding], slow: Slowness | None) -> Slowpoke:
    """Who it is, and whether the node itself gives evidence: only then is it excluded."""
    told = [one for one in found if one.kind is Kind.STRAGGLER and one.role is Role.ROOT]
    ranks = suspects(case, course) or tuple(dict.fromkeys(rank for one in told if one.level is Level.LOG for rank in one.ranks))
    nodes = tuple(dict.fromkeys(filter(None, (places.node_of(rank) for rank in ranks))))
    own = [
        one for one in told if one.level is Level.KERNEL and len(one.nodes) == 1 and (not nodes or set(one.nodes) & set(nodes))
    ]
    own = own or ([] if nodes else _at_the_turn(found, slow))
    nodes = nodes or (own[0].nodes if own else next((one.nodes for one in told if one.nodes), ()))
    measured = bool(own) or any(one.level is Level.LOG for one in told) or bool(_by_scores(case))
    if len(nodes) == 1 and measured:
        first = next((one for one in (*own, *told) if one in own or one.level is Level.LOG), None)
        cause = first.cause if first else "slow_gpu"
        why = f"{_pace_words(slow)}{nodes[0]} is what holds it up{_rank_words(ranks)}."
        return Slowpoke(FaultClass.HARDWARE, cause, nodes, ranks, Advice.RESTART_EXCLUDING_NODES, why, tuple(told))
    why = f"{_pace_words(slow)}" + (
        f"Rank {', '.join(map(str, ranks[:4]))} does more work than its peers" if ranks else "No rank can be told from the others"
    )
    return Slowpoke(FaultClass.UNKNOWN, "slow_rank" if ranks else "slow_job", (), ranks, Advice.RESTART, why + ".", tuple(told))


TURN = timedelta(minutes=5)
"""A node's complaint this close to the change of pace belongs to it; a long average may show the change late."""


def _at_the_turn(found: list[Finding], slow: Slowness | None) -> list[Finding]:
    """What one node's kernel told of its hardware when the pace changed, where no other node's did."""
    if slow is None or slow.since is None:
        return []
    since = slow.since
    near = [
        one
        for one in found
        if one.fault is FaultClass.HARDWARE and one.line is None and one.nodes and one.at and abs(one.at - since) <= TURN
    ]
    return near if len({node for one in near for node in one.nodes}) == 1 else []


def _pace_words(slow: Slowness | None) -> str:
    return f"Steps take {slow.now_s:.3g} s in place of {slow.usual_s:.3g} s. " if slow else ""


def _rank_words(ranks: tuple[int, ...]) -> str:
    return f" (rank {', '.join(map(str, ranks[:4]))})" if ranks else ""
