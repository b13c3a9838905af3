"""Judging: the rules that lead from findings to a verdict, in order; the first that speaks decides."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from rerail.attribution import course as courses
from rerail.attribution import hangs, stragglers
from rerail.attribution.course import Course, Ending
from rerail.attribution.findings import Finding, Level, gather
from rerail.attribution.spread import MANY, spread
from rerail.attribution.stragglers import Slowness
from rerail.attribution.weighing import Weighed, weigh
from rerail.attribution.whom import Places
from rerail.case import Case
from rerail.readers import lines
from rerail.readers.progress import Phase
from rerail.records import Advice, Excerpt, FaultClass, Kind, Role, Verdict
from rerail.signatures import Scope

MOST_EVIDENCE = 8
LOG = "job.log"


class Matter(NamedTuple):
    """All that the rules look at."""

    case: Case
    places: Places
    course: Course
    findings: tuple[Finding, ...]
    weighed: Weighed
    hint: Kind | None
    slow: Slowness | None = None


Rule = Callable[[Matter], Verdict | None]


def attribute(case: Case, hint: Kind | None = None) -> Verdict:
    """The verdict on a case. `hint` is what a live detector or a person saw, where somebody did."""
    places, course = Places(case), courses.follow(case)
    findings = [*gather(case, places, course), *hangs.findings(case, places, course)]
    matter = Matter(case, places, course, tuple(findings), weigh(findings, course), hint, stragglers.slowness(course))
    return next(verdict for rule in RULES if (verdict := rule(matter)) is not None)


# --- nothing to recover --------------------------------------------------------------------------------------------------------


def finished(matter: Matter) -> Verdict | None:
    """The job came to its end."""
    scheduled = matter.case.scheduler
    if matter.course.ending is Ending.COMPLETED and scheduled and not scheduled.exit_code:
        return _calm(matter, "completed", "The job completed with exit code 0." + _poisoned(matter.course))
    return None


def _poisoned(course: Course) -> str:
    losses = [point.mark.loss for point in course.points[-5:] if point.mark.loss is not None]
    poisoned = bool(losses) and all(math.isnan(loss) for loss in losses)
    return " Its loss is not a number at the end: look at the run and its last checkpoints." if poisoned else ""


def by_will(matter: Matter) -> Verdict | None:
    """Somebody or the scheduler ended it, and it had been moving."""
    said = _WILLS.get(matter.course.ending)
    if said is None or _node_to_blame(matter) or (matter.hint in (Kind.CRASH, Kind.HANG) and matter.course.stopped):
        return None
    if matter.course.ending in (Ending.CANCELLED, Ending.TIMEOUT) and (matter.course.stopped or _stuck(matter)):
        return None
    return _calm(matter, *said)


_WILLS = {
    Ending.CANCELLED: ("user_cancel", "The job was cancelled on purpose; what died then died by that."),
    Ending.PREEMPTED: ("preempted", "The scheduler preempted the job and requeues it by itself where it is set up so."),
    Ending.REQUEUED: ("operator_requeue", "The job was requeued on purpose; nothing failed."),
    Ending.TIMEOUT: ("time_limit", "The job was moving until its time limit ended it."),
}


def _node_to_blame(matter: Matter) -> bool:
    """A requeue that the scheduler did because of a node is no one's will."""
    return matter.course.ending in (Ending.REQUEUED, Ending.HELD) and any(one.level is Level.SCHEDULER for one in matter.findings)


def _stuck(matter: Matter) -> bool:
    """Where times are missing: the log's last words are trouble that stops a job, not progress."""
    course = matter.course
    if course.silent_s is not None or course.trouble_line is None:
        return False
    waits = [one for one in matter.findings if one.kind is Kind.HANG and one.line is not None and one.line >= course.trouble_line]
    return bool(waits) and course.ending is not Ending.CANCELLED


def by_its_own_word(matter: Matter) -> Verdict | None:
    """Without a scheduler's record: the log itself says that it was ended on purpose, or that all went well."""
    course = matter.course
    if (
        course.ending is not Ending.UNTOLD
        or matter.weighed.root is not None
        or course.stopped
        or matter.hint in (Kind.CRASH, Kind.HANG)
    ):
        return None
    after = courses.survived_line(course)
    wills = [
        one for one in matter.findings if one.fault is FaultClass.NONE and one.role is Role.ROOT and (one.last_line or 0) > after
    ]
    if wills:
        return _calm(matter, wills[0].cause, wills[0].why)
    if course.points and course.trouble_line is None:
        done = course.phase is Phase.SHUTDOWN
        why = (
            "The log says that training finished."
            if done
            else f"The log ends in progress{_at_step(course)}; it shows no trouble."
        )
        return _calm(matter, "completed" if done else "healthy_running", why)
    return None


def straggling(matter: Matter) -> Verdict | None:
    """Progress goes on, but clearly slower than before, or a measurement names who holds it up."""
    course = matter.course
    if course.stopped or course.ending not in (Ending.RUNNING, Ending.UNTOLD) or matter.hint in (Kind.CRASH, Kind.HANG):
        return None
    measured = [one for one in matter.findings if one.kind is Kind.STRAGGLER and one.role is Role.ROOT and one.level is Level.LOG]
    named = bool(stragglers.suspects(matter.case, course))
    if matter.hint is not Kind.STRAGGLER and not measured and not named and _by_plan(matter):
        return None
    much = matter.slow is not None and matter.slow.now_s > stragglers.UNNAMED * matter.slow.usual_s
    if matter.hint is not Kind.STRAGGLER and (not (much or measured or named) or _broken(matter)):
        return None
    who = stragglers.blame(matter.case, matter.places, course, list(matter.findings), matter.slow)
    told = [*stragglers.evidence(matter.case, course, matter.slow), *(line for one in who.findings for line in one.evidence[:1])]
    return Verdict(
        kind=Kind.STRAGGLER,
        fault=who.fault,
        cause=who.cause,
        culprit_nodes=who.nodes,
        culprit_ranks=who.ranks,
        advice=who.advice,
        confidence=0.8 if who.nodes else 0.6 if who.ranks else 0.4,
        evidence=_in_order(told[:MOST_EVIDENCE]),
        why=who.why,
        unknowns=matter.case.missing,
    )


AROUND = 20
"""Lines around the turn of the pace in which a change of what a step has to do is told."""


def _by_plan(matter: Matter) -> bool:
    """True when the pace changed where the log says that a step has something else to do from there on."""
    slow = matter.slow
    changes = [seen.line for seen in matter.case.log.sightings if seen.row.cause == "work_changed"]
    return slow is not None and any(abs(line - slow.since_line) <= AROUND for line in changes)


def _broken(matter: Matter) -> bool:
    """True when something ended or stopped a job of which no scheduler tells: trouble after its last progress."""
    return matter.course.ending is Ending.UNTOLD and (matter.course.trouble_line is not None or not matter.course.points)


def moving(matter: Matter) -> Verdict | None:
    """A running job that makes progress at its usual pace."""
    course = matter.course
    if course.ending is not Ending.RUNNING or course.stopped or not course.points or matter.hint in (Kind.CRASH, Kind.HANG):
        return None
    if _hang_words(matter) or _held_by_a_service(matter):
        return None
    return _calm(matter, "healthy_running", f"The job is running and makes progress{_at_step(course)}.")


def starting(matter: Matter) -> Verdict | None:
    """A running job without a first step yet, that is not silent for longer than a start may be."""
    course, scheduled = matter.course, matter.case.scheduler
    if (
        course.ending is not Ending.RUNNING
        or course.points
        or matter.weighed.root is not None
        or matter.hint in (Kind.CRASH, Kind.HANG)
    ):
        return None
    last = max((at for _, at in matter.case.log.times), default=scheduled.started_at if scheduled else None)
    if course.until is None or last is None or course.until - last > courses.LONG_PHASE:
        return None
    return _calm(matter, "starting_up", "The job is running and has not reached its first step yet.")


def _hang_words(matter: Matter) -> bool:
    root = matter.weighed.root
    return root is not None and root.line is not None and root.line > (matter.course.last.line if matter.course.last else 0)


def _held_by_a_service(matter: Matter) -> bool:
    """Where the log tells no times: the kernel says that a service blocks, and processes wait for it, at the end."""
    root = matter.weighed.root
    if root is None or root.level is not Level.KERNEL or root.kind is not Kind.HANG or matter.course.silent_s is not None:
        return False
    held = set(_still_without(matter, root))
    return any(one.cause in _BLOCKED and set(one.nodes) & held for one in matter.findings)


def _still_without(matter: Matter, service: Finding) -> list[str]:
    """Nodes whose kernel did not say afterwards that the service answers again."""
    back = {matter.places.known(node) or node: log for node, log in matter.case.kernel.items()}
    return [
        node
        for node in service.nodes
        if node in back and any(line.line > back[node].back_line for line in back[node].known if line.row.cause == service.cause)
    ]


_BLOCKED = ("process_blocked", "nfs_blocked")
"""What the kernel says of processes that wait for something that doesn't come."""


def _at_step(course: Course) -> str:
    step = course.last.mark.step if course.last else None
    return f" (step {step})" if step is not None else ""


def _calm(matter: Matter, cause: str, why: str) -> Verdict:
    return Verdict(
        kind=Kind.NONE,
        fault=FaultClass.NONE,
        cause=cause,
        advice=Advice.NO_ACTION,
        confidence=0.9,
        why=why,
        evidence=_last_progress(matter),
        unknowns=matter.case.missing,
    )


# --- a failure -----------------------------------------------------------------------------------------------------------------


def rooted(matter: Matter) -> Verdict | None:
    """There is a root: told with its spread."""
    root = matter.weighed.root
    if root is None:
        return None
    one = _repeated(spread(root, matter.places, matter.findings, moved=bool(matter.course.points)), matter)
    kind = _kind(matter, one)
    return Verdict(
        kind=kind,
        fault=one.fault,
        cause=one.cause,
        culprit_nodes=one.nodes if one.advice is Advice.RESTART_EXCLUDING_NODES else (),
        culprit_ranks=_ranks(matter, one),
        advice=one.advice or Advice.RESTART,
        confidence=_confidence(one, matter.weighed),
        evidence=_evidence(matter, one),
        why=_why(matter, one, kind),
        unknowns=matter.case.missing,
        rivals=tuple(_rival(rival) for rival in matter.weighed.rivals[:2]),
    )


def _ranks(matter: Matter, one: Finding) -> tuple[int, ...]:
    """Ranks of the root; with a node at fault, those on it that showed it first."""
    if one.ranks or not one.nodes or one.advice is not Advice.RESTART_EXCLUDING_NODES:
        return one.ranks
    others = [rank for other in matter.findings if other.role is Role.ROOT and other.level > Level.ECHO for rank in other.ranks]
    return tuple(sorted({rank for rank in others if matter.places.node_of(rank) in one.nodes}))


def _kind(matter: Matter, one: Finding) -> Kind:
    """Crash when a process died or raised first; hang when progress stopped although nothing had died."""
    if one.kind in (Kind.HANG, Kind.STRAGGLER):
        return Kind.HANG
    course = matter.course
    silent_first = course.stopped and not one.in_traceback and not _died(matter)
    if silent_first and course.ending in (Ending.RUNNING, Ending.TIMEOUT, Ending.CANCELLED):
        return Kind.HANG
    waited = any(other.kind is Kind.HANG for other in matter.findings if other.role is Role.CASCADE)
    if one.level is Level.LOG and course.stopped and waited and not one.in_traceback:
        return Kind.HANG
    died = [other for other in matter.findings if other.death and other.role is Role.ROOT and other.level > Level.ECHO]
    if one.death or died:
        return Kind.CRASH
    if matter.hint in (Kind.CRASH, Kind.HANG):
        return matter.hint
    return Kind.HANG if course.ending is not Ending.NODE_FAIL and course.stopped and waited else Kind.CRASH


def _died(matter: Matter) -> bool:
    """True when some process is known to have died or raised after the last progress, not by the job's end."""
    after = matter.course.last.line if matter.course.last else 0
    raised = [one for one in matter.findings if one.in_traceback and (one.last_line or 0) > after and one.role is Role.ROOT]
    exits = [one for one in matter.case.log.failures if one.line > after and one.exit_code not in (-15, 143, 0)]
    dead = [one for one in matter.case.processes if one.exit_signal or one.exit_code]
    return bool(raised or dead or (exits and matter.course.ending is Ending.RUNNING))


def _repeated(one: Finding, matter: Matter) -> Finding:
    """The same failure in several attempts that one log tells: a program that fails again at the same place has to be changed."""
    starts = [line for line, phase in matter.case.log.phases if phase is Phase.STARTUP]
    lines = [
        line
        for other in matter.findings
        if other.cause == one.cause
        for line in (*other.lines, *(() if other.line is None else (other.line,)))
    ]
    episodes = {sum(start < line for start in starts) for line in lines}
    apart = [sum(point.line < line for point in matter.course.points) for line in lines]
    if one.fault is FaultClass.APPLICATION and one.advice is Advice.RESTART and len(episodes) > 1 and max(apart) - min(apart) > 2:
        return replace(one, advice=Advice.STOP, why=f"{one.why} It came back in the next attempt.")
    return one


def unexplained(matter: Matter) -> Verdict:
    """No root: unknown is an honest answer, and isolates nobody."""
    course = matter.course
    waited = [one for one in matter.findings if one.role is Role.CASCADE and one.kind is Kind.HANG and one.line is not None]
    echoes = [one for one in matter.findings if one.role is Role.CASCADE and one.kind is Kind.CRASH]
    hang = matter.hint is Kind.HANG or (
        matter.hint is None and (course.stopped or (bool(waited) and not _lost_first(waited, echoes)))
    )
    kind = Kind.HANG if hang else Kind.CRASH
    hang = hang or (matter.hint is None and course.ending is Ending.RUNNING and not _died(matter))
    cause = ("nccl_timeout_unexplained" if waited else "silent_wedge") if hang else "unknown"
    kind = Kind.HANG if hang else Kind.CRASH
    service = _blocked_service(matter) if hang and not waited else None
    if service is not None:
        return _waiting_for(matter, service)
    why = _silence(course) if hang else "The job failed, and what is there shows only consequences of something that is not told."
    return Verdict(
        kind=kind,
        fault=FaultClass.UNKNOWN,
        cause=cause,
        advice=Advice.RESTART,
        confidence=0.4,
        why=why,
        evidence=_evidence(matter, None),
        unknowns=(*matter.case.missing, "no line that tells a root"),
    )


def _blocked_service(matter: Matter) -> Finding | None:
    """A shared service that kernels of most nodes complain of while progress stands."""
    nodes = len(matter.places.nodes)
    said = [one for one in matter.findings if one.scope is Scope.SERVICE and one.fault is FaultClass.SYSTEM and one.line is None]
    return next((one for one in said if one.kind is Kind.HANG and len(_still_without(matter, one)) > MANY * nodes), None)


def _waiting_for(matter: Matter, service: Finding) -> Verdict:
    return Verdict(
        kind=Kind.HANG,
        fault=service.fault,
        cause=service.cause,
        advice=Advice.RESTART,
        confidence=0.5,
        why=f"{_silence(matter.course)} Kernels of {len(service.nodes)} nodes say: {service.why}",
        evidence=_in_order([*_last_progress(matter), *service.evidence][:MOST_EVIDENCE]),
        unknowns=(*matter.case.missing, "whether the service answers again"),
    )


def _everywhere(matter: Matter, echoes: list[Finding]) -> bool:
    """True when all ranks or all nodes, several, tell of the same trouble."""
    world, nodes = len(matter.case.rank_nodes), len(matter.places.nodes)
    many = max(4, 2 * nodes)  # where nobody can be told apart, so many voices are everybody
    return any(
        len(one.ranks) >= 0.9 * world > 1 or (nodes > 1 and len(one.nodes) >= nodes) or (not one.ranks and len(one.lines) >= many)
        for one in echoes
    )


def _never_started(matter: Matter) -> Verdict:
    """A failure before the first step on all nodes comes back at the next start: the set-up has to change."""
    why = "The job failed before its first step on all its ranks alike: its configuration or environment, not a node."
    return Verdict(
        kind=Kind.CRASH,
        fault=FaultClass.APPLICATION,
        cause="never_started",
        advice=Advice.STOP,
        confidence=0.5,
        why=why,
        evidence=_evidence(matter, None),
        unknowns=(*matter.case.missing, "no line that tells a root"),
    )


def _lost_first(waited: list[Finding], echoes: list[Finding]) -> bool:
    """True when somebody lost a peer before anybody had waited too long."""
    first = min((one.line or 0 for one in waited), default=0)
    return any((one.line or 0) < first and one.cause == "peer_lost" for one in echoes)


def _silence(course: Course) -> str:
    silent = f" for {course.silent_s:.0f} s" if course.silent_s else ""
    return f"Progress stopped{_at_step(course)}{silent}, nothing is known to have died, and no rank or node can be blamed."


# --- words ---------------------------------------------------------------------------------------------------------------------

_TRUST = {
    Level.SCHEDULER: 0.9,
    Level.KERNEL: 0.9,
    Level.LOG: 0.8,
    Level.EXCEPTION: 0.7,
    Level.PROCESS: 0.7,
    Level.STATE: 0.7,
    Level.SUMMARY: 0.6,
    Level.ECHO: 0.4,
}


def _confidence(one: Finding, weighed: Weighed) -> float:
    confidence = _TRUST[one.level] - 0.15 * min(len(weighed.rivals), 2) - (0.1 if one.general else 0.0)
    agreeing = any(other.cause == one.cause and other.level is not one.level for other in weighed.echoes)
    return round(min(0.97, max(0.1, confidence + (0.05 if agreeing else 0.0))), 2)


def _why(matter: Matter, one: Finding, kind: Kind) -> str:
    where = f" Culprit: {', '.join(one.nodes[:4])}." if one.nodes and one.advice is Advice.RESTART_EXCLUDING_NODES else ""
    stopped = f" Progress stopped{_at_step(matter.course)}." if kind is Kind.HANG else ""
    said = f" It says: {lines.excerpt(one.text.splitlines()[0], 140)}" if one.general and one.text else ""
    return f"{one.why}{said}{where}{stopped}"


def _rival(one: Finding) -> str:
    place = f" ({', '.join(one.nodes[:2])})" if one.nodes else ""
    settle = "a second failure of the same node would settle it" if one.nodes else "a restart elsewhere would settle it"
    return f"{one.cause}{place}: {settle}"


def _evidence(matter: Matter, one: Finding | None) -> tuple[Excerpt, ...]:
    """The few lines that tell, in order of time where it is known and of lines where not."""
    told = [*_last_progress(matter), *(one.evidence if one else ())]
    agreeing = [
        other
        for other in matter.weighed.echoes
        if one is not None and other.role is Role.ROOT and set(other.nodes) & set(one.nodes)
    ]
    for other in agreeing[:2]:
        told += other.evidence[:1]
    echoes = [other for other in matter.findings if other.role is Role.CASCADE and other.line is not None]
    telling = [echo for echo in echoes if not echo.text.lstrip().startswith("Traceback") and ": Traceback" not in echo.text[:60]]
    for echo in sorted(telling or echoes, key=lambda other: other.line or 0)[:2]:
        told += [excerpt.model_copy(update={"role": Role.CASCADE}) for excerpt in echo.evidence[:1]]
    return _in_order(told[:MOST_EVIDENCE])


def _in_order(told: list[Excerpt]) -> tuple[Excerpt, ...]:
    """By time when all tell one; else the log by its lines, with what other sources tell behind the last progress."""
    times = [excerpt.at for excerpt in told if excerpt.at is not None]
    if len(times) == len(told):
        return tuple(
            excerpt for _, _, excerpt in sorted(zip(times, range(len(told)), told, strict=True), key=lambda item: item[:2])
        )
    log = sorted((excerpt for excerpt in told if excerpt.source == LOG), key=lambda excerpt: excerpt.line or 0)
    others = [excerpt for excerpt in told if excerpt.source != LOG]
    progress = [excerpt for excerpt in log if excerpt.role is Role.NOISE]
    return (*progress, *others, *(excerpt for excerpt in log if excerpt.role is not Role.NOISE))


def _last_progress(matter: Matter) -> tuple[Excerpt, ...]:
    last = matter.course.last
    if last is None:
        return ()
    text = f"last progress: step {last.mark.step}" if last.mark.step is not None else "last progress"
    return (Excerpt(source=matter.case.log.name, line=last.line, text=text, role=Role.NOISE, at=last.mark.at),)


RULES: tuple[Rule, ...] = (finished, by_will, by_its_own_word, straggling, moving, starting, rooted, unexplained)
"""In order; the last one always speaks."""
