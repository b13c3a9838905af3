"""Findings: each source's candidates for the root, in one form, so that they can be weighed against each other."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import IntEnum, StrEnum
from typing import TypeVar

from rerail import signatures
from rerail.attribution.course import Course, Ending, survived_line
from rerail.attribution.whom import Places, Whom
from rerail.case import Case
from rerail.readers import lines
from rerail.readers.joblog import Failure, Sighting
from rerail.readers.kernel import KernelLine
from rerail.readers.scheduler import Scheduled
from rerail.readers.tracebacks import Traceback
from rerail.records import Advice, Excerpt, FaultClass, Kind, Rank, Role
from rerail.signatures import Scope, Signature

T = TypeVar("T")


class Level(IntEnum):
    """How far a source is believed; the order of trust."""

    ECHO = 0
    SUMMARY = 1
    """A launcher's word about an exit code or signal."""
    STATE = 2
    """The job's state in the scheduler, without a node."""
    PROCESS = 3
    """The state of a process."""
    EXCEPTION = 4
    """An exception that no row knows."""
    LOG = 5
    """A root-capable line of the job's log."""
    KERNEL = 6
    """A kernel line with its node."""
    SCHEDULER = 7
    """The scheduler's own record of a node."""


@dataclass(frozen=True)
class Finding:
    """One candidate for the root."""

    level: Level
    cause: str
    fault: FaultClass
    kind: Kind
    scope: Scope
    advice: Advice | None
    why: str
    ranks: tuple[int, ...] = ()
    nodes: tuple[str, ...] = ()
    line: int | None = None
    """First line in the job's log."""
    last_line: int | None = None
    at: datetime | None = None
    evidence: tuple[Excerpt, ...] = ()
    signature: str = ""
    role: Role = Role.ROOT
    general: bool = False
    death: bool = True
    """True when a process died or raised by it."""
    text: str = ""
    lines: tuple[int, ...] = ()
    """All its lines in the job's log."""
    in_traceback: bool = False
    tags: frozenset[str] = field(default_factory=frozenset)


MOST_EVIDENCE = 3
BEFORE_START = timedelta(minutes=2)
"""Clocks of nodes and of the scheduler differ by less; older kernel lines belong to an earlier job."""

NEAR = timedelta(minutes=30)
"""A kernel line this long before the failure can still be its cause; one of hours before did not stop the job then."""

CLOCKS = timedelta(minutes=2)
"""How far clocks of nodes, and what buffers hold back, may be apart."""

GAPS = 5
"""Usual steps that a job may still make after its node said that something broke."""


def gather(case: Case, places: Places, course: Course) -> list[Finding]:
    """All findings of a case, echoes included."""
    found = [
        *_from_scheduler(case, places),
        *_from_state(case, course),
        *_from_kernels(case, places, course),
        *_from_log(case, places, course),
        *_from_tracebacks(case, places, course),
        *_from_error_files(case, places),
        *_from_failures(case, places, course),
        *_from_processes(case, places),
    ]
    return [one for one in found if one is not None]


def _excerpt(  # noqa: PLR0917
    case: Case, line: int, raw: bytes | str, role: Role, whom: Whom, signature: str = "", at: datetime | None = None
) -> Excerpt:
    return Excerpt(
        source=case.log.name,
        line=line,
        text=lines.excerpt(raw),
        role=role,
        signature=signature,
        node=whom.nodes[0] if len(whom.nodes) == 1 else "",
        rank=whom.ranks[0] if len(whom.ranks) == 1 else None,
        at=at,
    )


# --- the scheduler -------------------------------------------------------------------------------------------------------------

_BAD_STATE = re.compile(r"(?i)^\W*(?:down|fail|unknown|error|not_?responding|reboot)|not responding|\bunexpectedly rebooted")
_SICK_REASON = re.compile(
    r"(?i)drain.*\b(?:gpu|gres|nvidia|xid|ecc|health|nhc|memory|prolog|epilog|kill task|dimm|nvlink|ib|link)\b"
)


def bad_nodes(case: Case) -> dict[str, str]:
    """Nodes of the job that the scheduler calls down, failed or sick, with its words."""
    states = case.scheduler.node_states if case.scheduler else {}
    return {node: said for node, said in states.items() if _BAD_STATE.search(said) or _SICK_REASON.search(said)}


def _from_scheduler(case: Case, places: Places) -> list[Finding]:
    bad = bad_nodes(case)
    if not bad or case.scheduler is None:
        return []
    nodes = tuple(places.known(node) or node for node in bad)
    said = "; ".join(f"{node}: {state}" for node, state in list(bad.items())[:3])
    excerpt = Excerpt(source="scheduler.json", text=lines.excerpt(f"state {case.scheduler.state}; {said}"), node=nodes[0])
    why = f"The scheduler calls {', '.join(nodes[:3])} {_word(next(iter(bad.values())))}."
    return [
        Finding(
            Level.SCHEDULER,
            "node_failure",
            FaultClass.SYSTEM,
            Kind.CRASH,
            Scope.NODE,
            Advice.RESTART_EXCLUDING_NODES,
            why,
            nodes=nodes,
            at=case.scheduler.ended_at,
            evidence=(excerpt,),
        )
    ]


_STATES: dict[Ending, tuple[str, str, Scope, Advice]] = {
    Ending.OUT_OF_MEMORY: (
        "host_oom_kill",
        "The scheduler says that the job ran out of host memory.",
        Scope.RANK,
        Advice.RESTART,
    ),
    Ending.NODE_FAIL: ("node_failure", "The scheduler says that a node failed, and not which.", Scope.JOB, Advice.RESTART),
    Ending.HELD: ("launch_failure", "The scheduler could not launch the job and holds it.", Scope.JOB, Advice.RESTART),
}
_NOT_STARTED = (126, 127)
"""What a shell says of a program that can't be run or isn't there."""
_OOM_SIGNAL = 125
"""Slurm's dummy signal for a memory kill, in the signal half of its exit code."""


def _from_state(case: Case, course: Course) -> list[Finding]:
    """What the job's state alone tells, where nothing tells more."""
    scheduled = case.scheduler
    ending = Ending.OUT_OF_MEMORY if scheduled and scheduled.exit_signal == _OOM_SIGNAL else course.ending
    if scheduled is not None and scheduled.exit_code in _NOT_STARTED and not course.points:
        return [_not_started(scheduled)]
    if scheduled is None or ending not in _STATES:
        return []
    cause, why, scope, advice = _STATES[ending]
    text = lines.excerpt(
        f"state {scheduled.state}, exit code {scheduled.exit_code}:{scheduled.exit_signal}, reason {scheduled.reason}"
    )
    evidence = (Excerpt(source="scheduler.json", text=text),)
    return [
        Finding(Level.STATE, cause, FaultClass.SYSTEM, Kind.CRASH, scope, advice, why, at=scheduled.ended_at, evidence=evidence)
    ]


def _not_started(scheduled: Scheduled) -> Finding:
    why = f"Exit code {scheduled.exit_code}: the program could not be run or was not found."
    evidence = (Excerpt(source="scheduler.json", text=f"exit code {scheduled.exit_code}"),)
    return Finding(
        Level.STATE,
        "program_not_found",
        FaultClass.APPLICATION,
        Kind.CRASH,
        Scope.JOB,
        Advice.STOP,
        why,
        at=scheduled.ended_at,
        evidence=evidence,
    )


def _word(state: str) -> str:
    return lines.excerpt(state, 60).lower()


# --- kernel logs ---------------------------------------------------------------------------------------------------------------


class When(StrEnum):
    """Where a kernel line stands against the failure."""

    AT = "at"
    ASIDE = "aside"
    """So long before it that the job went on afterwards, or so long after it that it may be its consequence."""
    FAR = "far"


def _from_kernels(case: Case, places: Places, course: Course) -> list[Finding]:
    """One finding for each cause, over the nodes whose kernel tells it near the failure."""
    groups: dict[tuple[str, When], list[tuple[str, KernelLine]]] = {}
    for node, log in case.kernel.items():
        for line in log.known:
            if _belongs(case, line):
                groups.setdefault((line.row.id, _when(course, line)), []).append((places.known(node) or node, line))
    return [_kernel_finding(seen, when) for (_, when), seen in groups.items()]


def _belongs(case: Case, line: KernelLine) -> bool:
    """False for lines from before the attempt began: they must not convict."""
    started = case.scheduler.started_at if case.scheduler else None
    ended = case.scheduler.seen_until if case.scheduler else None
    if line.at is None:
        return started is None
    return (started is None or line.at >= started - BEFORE_START) and (ended is None or line.at <= ended + NEAR)


def _when(course: Course, line: KernelLine) -> When:
    failed = course.failed_at
    if failed is None or line.at is None or line.row.kind is Kind.STRAGGLER:
        return When.AT
    slack = max(CLOCKS, timedelta(seconds=GAPS * (course.gap_s or 0)))
    if line.at < failed - NEAR - slack:
        return When.FAR
    survived = course.last_at is not None and line.at < failed - slack
    after = course.trouble_at is not None and line.at > course.trouble_at + CLOCKS
    return When.ASIDE if survived or after else When.AT


def _kernel_finding(seen: list[tuple[str, KernelLine]], when: When) -> Finding:
    row = seen[0][1].row
    seen = _first_ones(seen)
    nodes = tuple(dict.fromkeys(node for node, _ in seen))
    times = [line.at for _, line in seen if line.at is not None]
    evidence = tuple(
        Excerpt(
            source=f"dmesg/{node}.log",
            line=line.line,
            text=lines.excerpt(line.text),
            role=row.role,
            signature=row.id,
            node=node,
            at=line.at,
        )
        for node, line in seen[:MOST_EVIDENCE]
    )
    level = Level.KERNEL if when is not When.FAR and row.role is Role.ROOT else Level.ECHO
    finding = _by_row(row, level, Whom((), nodes), evidence, min(times, default=None), None)
    tags = frozenset({"aside"} if when is When.ASIDE else ())
    return replace(finding, death=False, text=lines.excerpt(seen[0][1].text), tags=tags)


def _first_ones(seen: list[tuple[str, KernelLine]]) -> list[tuple[str, KernelLine]]:
    """In order of time, without nodes that tell the same clearly later: they were dragged along."""
    if any(line.at is None for _, line in seen):
        return seen
    ordered = sorted(seen, key=lambda item: item[1].at or datetime.min)  # noqa: DTZ901
    first = ordered[0][1].at or datetime.min  # noqa: DTZ901
    early = {node for node, line in ordered if line.at is not None and line.at <= first + CLOCKS}
    return [item for item in ordered if item[0] in early]


def _by_row(  # noqa: PLR0917
    row: Signature, level: Level, whom: Whom, evidence: tuple[Excerpt, ...], at: datetime | None, line: int | None
) -> Finding:
    return Finding(
        level,
        row.cause,
        row.fault,
        row.kind,
        row.scope,
        row.advice,
        row.why,
        whom.ranks,
        whom.nodes,
        line,
        line,
        at,
        evidence,
        row.id,
        row.role,
        row.general,
    )


# --- the job's log -------------------------------------------------------------------------------------------------------------


def _from_log(case: Case, places: Places, course: Course) -> list[Finding]:
    """One finding for each row that the log hits, over all who said it."""
    groups: dict[str, list[Sighting]] = {}
    for seen in case.log.sightings:
        if seen.row.role is not Role.NOISE:
            groups.setdefault(seen.row.id, []).append(seen)
    return [
        replace(
            _log_finding(case, places, _lasting(seen, course, lambda sight: sight.line)),
            lines=tuple(sight.line for sight in seen),
        )
        for seen in groups.values()
    ]


def _lasting(seen: list[T], course: Course, line_of: Callable[[T], int]) -> list[T]:
    """Of what was seen, the part that training did not go on after; all of it when it went on after all."""
    after = survived_line(course)
    return [one for one in seen if line_of(one) > after] or seen


def _log_finding(case: Case, places: Places, seen: list[Sighting]) -> Finding:
    row = seen[0].row
    whoms = [places.of(sight.front, sight.raw, row) for sight in seen]
    whoms = [
        whom if whom.ranks or whom.nodes else _by_traceback(case, places, sight) for whom, sight in zip(whoms, seen, strict=True)
    ]
    evidence = tuple(
        _excerpt(case, sight.line, sight.raw, row.role, whom, row.id, sight.front.at)
        for sight, whom in list(zip(seen, whoms, strict=True))[:MOST_EVIDENCE]
    )
    level = Level.ECHO if row.role is not Role.ROOT else Level.LOG
    first = seen[0]
    finding = _by_row(row, level, _all(whoms), evidence, first.front.at or case.log.time_near(first.line), first.line)
    raised = any(one.line <= sight.line <= one.last_line for sight in seen for one in case.log.tracebacks)
    said = f"{lines.excerpt(first.raw)}\n{lines.excerpt(seen[-1].raw)}"
    tags = frozenset({"precondition"} if row.fault is FaultClass.APPLICATION and _NEEDS.search(said) else ())
    return replace(finding, text=said, last_line=seen[-1].line, in_traceback=raised, tags=tags)


def _by_traceback(case: Case, places: Places, sight: Sighting) -> Whom:
    """A line inside of a traceback is said by whom the traceback is."""
    for one in case.log.tracebacks:
        if one.line <= sight.line <= one.last_line:
            return raised_by(case, places, one)
    return Whom()


def _all(whoms: Iterable[Whom]) -> Whom:
    ranks = dict.fromkeys(rank for whom in whoms for rank in whom.ranks)
    nodes = dict.fromkeys(node for whom in whoms for node in whom.nodes)
    return Whom(tuple(sorted(ranks)), tuple(nodes))


# --- exceptions ----------------------------------------------------------------------------------------------------------------

_WRAPPERS = re.compile(
    r"ChildFailedError|CalledProcessError|SignalException|KeyboardInterrupt|SystemExit|RayTaskError|ProcessRaisedException|ProcessExitedException|BrokenProcessPool"
)
_ECHOES = re.compile(
    r"(?i)connection (?:closed|reset|refused)|broken pipe|timed? ?out|timeout|remote process exited|peer|nccl|gloo"
    r"|\bc10d\b|DistBackendError|DistStoreError"
    r"|DistNetworkError|EOFError$|rendezvous|BrokenPipeError|ConnectionResetError|ncclRemoteError|aborted|unhandled system error"
)
_PRECONDITIONS = ("ModuleNotFoundError", "ImportError", "FileNotFoundError", "PermissionError", "OSError", "NotADirectoryError")


_NEEDS = re.compile(
    r"\b(?:ModuleNotFoundError|ImportError|FileNotFoundError|PermissionError|NotADirectoryError|cannot open shared object file)\b"
)
"""Words of what a node has to offer before a program runs there."""


def raised_by(case: Case, places: Places, one: Traceback) -> Whom:
    """Who raised it: its prefix, its exception's prefix, or a line right behind it that names a rank."""
    whom = places.of(one.front, one.raised.encode())
    if whom.ranks or whom.nodes:
        return whom
    for seen in case.log.remarks:
        if one.last_line < seen[0] <= one.last_line + 3:
            return Whom((seen[1],), tuple(filter(None, (places.node_of(seen[1]),))))
    return Whom()


def _from_tracebacks(case: Case, places: Places, course: Course) -> list[Finding]:
    """One finding for each exception that no row knows."""
    known = {seen.line for seen in case.log.sightings}
    groups: dict[str, list[Traceback]] = {}
    for one in case.log.tracebacks:
        if one.raised and one.last_line not in known and not _WRAPPERS.search(one.name):
            groups.setdefault(_same(one.raised), []).append(one)
    return [_raised_finding(case, places, _lasting(seen, course, lambda one: one.last_line)) for seen in groups.values()]


def _same(raised: str) -> str:
    """An exception without what differs between ranks."""
    return re.sub(r"0x[0-9a-f]+|\d+", "#", raised)[:160]


def _raised_finding(case: Case, places: Places, seen: list[Traceback]) -> Finding:
    first = seen[0]
    echo = bool(_ECHOES.search(first.raised))
    whoms = [raised_by(case, places, one) for one in seen]
    role = Role.CASCADE if echo else Role.ROOT
    evidence = tuple(
        _excerpt(case, one.last_line, one.raised, role, whom, "", case.log.time_near(one.line))
        for one, whom in list(zip(seen, whoms, strict=True))[:MOST_EVIDENCE]
    )
    whom = _all(whoms)
    return Finding(
        Level.ECHO if echo else Level.EXCEPTION,
        "peer_lost" if echo else _named(first.name),
        FaultClass.UNKNOWN if echo else FaultClass.APPLICATION,
        Kind.CRASH,
        Scope.RANK,
        Advice.RESTART if echo else Advice.STOP,
        f"{lines.excerpt(first.raised, 120)} was raised" + (f" on rank {whom.ranks[0]}" if len(whom.ranks) == 1 else "") + ".",
        whom.ranks,
        whom.nodes,
        first.line,
        seen[-1].last_line,
        case.log.time_near(first.line),
        evidence,
        role=role,
        text=first.raised,
        lines=tuple(one.last_line for one in seen),
        in_traceback=True,
        tags=frozenset({"precondition"} if first.name in _PRECONDITIONS else ()),
    )


def _named(exception: str) -> str:
    """snake_case of an exception's name."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", exception).lower()[:60] or "exception"


def _from_error_files(case: Case, places: Places) -> list[Finding]:
    """The first error file in time that is no echo: the best source of a rank's own end."""
    roots = [one for one in case.errors if not _ECHOES.search(one.raised) and not _WRAPPERS.search(one.raised)]
    if not roots:
        return []
    first = min(roots, key=lambda one: (one.at is None, one.at or datetime.max, one.rank or 0))  # noqa: DTZ901
    alike = [one for one in roots if _same(one.raised) == _same(first.raised)]
    ranks = tuple(sorted(one.rank for one in alike if one.rank is not None))
    nodes = tuple(dict.fromkeys(filter(None, (places.node_of(rank) for rank in ranks))))
    evidence = (Excerpt(source=first.source, text=first.raised, rank=first.rank, at=first.at),)
    name = first.raised.split(":", 1)[0].rsplit(".", 1)[-1]
    finding = Finding(
        Level.EXCEPTION, _named(name), FaultClass.APPLICATION, Kind.CRASH, Scope.RANK, Advice.STOP,
        f"{lines.excerpt(first.raised, 120)} was raised first.", ranks, nodes, at=first.at, evidence=evidence, in_traceback=True,
        text=first.raised, tags=frozenset({"precondition"} if name in _PRECONDITIONS else ()),
    )  # fmt: skip
    row = signatures.loudest([signatures.by_id(hit.id) for hit in signatures.scan(first.raised.encode() + b"\n")])
    if row is None or row.role is not Role.ROOT:
        return [finding]
    return [replace(_by_row(row, Level.LOG, Whom(ranks, nodes), evidence, first.at, None), text=first.raised, in_traceback=True)]


# --- launchers' words ----------------------------------------------------------------------------------------------------------

_SIGNALS = {
    4: ("illegal_instruction", FaultClass.UNKNOWN),
    6: ("aborted", FaultClass.UNKNOWN),
    7: ("bus_error", FaultClass.UNKNOWN),
    8: ("floating_point_exception", FaultClass.APPLICATION),
    9: ("killed_unknown", FaultClass.UNKNOWN),
    11: ("segmentation_fault", FaultClass.APPLICATION),
}
_TEARDOWN = (-15, -2, 143, 130)


def _from_failures(case: Case, places: Places, course: Course) -> list[Finding]:
    """What launchers say of exit codes and signals. Who exits with 1 raised something that is told elsewhere, or lost a peer."""
    after = survived_line(course)  # what ended in an earlier attempt is history
    told = [one for one in case.log.failures if one.line > after and one.exit_code not in (None, 0, 1, *_TEARDOWN, -6)]
    signals = [one for one in told if one.exit_code is not None and (one.exit_code < 0 or one.exit_code > 128)]
    chosen = signals or told
    if not chosen:
        return []
    first = _first(chosen)
    alike = [one for one in chosen if one.exit_code == first.exit_code and not _later(one, first)]
    return [_exit_finding(case, places, first, alike)]


def _later(one: Failure, first: Failure) -> bool:
    """True for one that clearly came after the first. Launchers kill what is left over, so kills count within a second only."""
    together = 1 if first.exit_code in (-9, 137) else 60
    return one.at is not None and first.at is not None and (one.at - first.at).total_seconds() > together


def _first(failures: list[Failure]) -> Failure:
    dated = [one for one in failures if one.at is not None]
    return min(dated, key=lambda one: (one.at, one.line)) if dated else failures[0]


def _exit_finding(case: Case, places: Places, first: Failure, failures: list[Failure]) -> Finding:
    code = first.exit_code or 0
    signal = -code if code < 0 else code - 128 if code > 128 else 0
    cause, fault = (
        _SIGNALS.get(signal, ("killed_by_signal", FaultClass.UNKNOWN)) if signal else ("exit_code", FaultClass.APPLICATION)
    )
    ranks = tuple(sorted({rank for one in failures if (rank := _rank_of(case, places, one)) is not None}))
    said = f"was killed by signal {signal}" if signal else f"exited with code {code}"
    who = f"Rank {', '.join(map(str, ranks[:4]))}" if ranks else "A process"
    why = f"{who} {said}; nothing in the inputs tells why."
    one_of_many = signal > 0 and len(ranks) == 1  # a broken device is within reach until it comes back elsewhere
    advice = Advice.RESTART if fault is FaultClass.UNKNOWN or one_of_many else Advice.STOP
    whom = Whom(ranks, tuple(filter(None, (places.known(first.host),))))
    text = f"{who.lower()} on {first.host or 'an unnamed host'}: exit code {first.exit_code} {first.said}"
    evidence = (_excerpt(case, first.line, text, Role.ROOT, whom, "", first.at),)
    return Finding(
        Level.SUMMARY,
        cause,
        fault,
        Kind.CRASH,
        Scope.RANK,
        advice,
        why,
        ranks,
        whom.nodes,
        first.line,
        failures[-1].line,
        first.at,
        evidence,
    )


def _rank_of(case: Case, places: Places, one: Failure) -> int | None:
    """The rank that a launcher's line speaks of: named, or by its process id, or by its place on its node."""
    if one.rank is not None:
        return one.rank
    by_pid = {
        other.rank for other in case.log.failures if one.pid is not None and other.pid == one.pid and other.rank is not None
    }
    if len(by_pid) == 1:
        return by_pid.pop()
    node = places.known(one.host) if one.host else places.node_of_task(one.task)
    ranks = places.ranks_by_node.get(node, []) if node else places.only_ranks
    if one.local is not None and one.local < len(ranks):
        return ranks[one.local]
    return one.task if one.local is None and one.task is not None and not places.tasks_are_nodes else None


# --- processes -----------------------------------------------------------------------------------------------------------------


def _from_processes(case: Case, places: Places) -> list[Finding]:
    """What the state of the processes shows: stopped ones, and the first one that a signal or an exit code ended."""
    stopped = [one for one in case.processes if one.state in ("T", "t")]
    stuck = [one for one in case.processes if one.state == "D"]
    dead = [
        one
        for one in case.processes
        if (one.exit_signal or one.exit_code) and one.exit_signal not in (15, 2, 6) and not one.state
    ]
    found = []
    if stopped:
        found.append(
            _process(stopped, "process_stopped", Kind.HANG, "is stopped (state T): somebody or something sent it a stop signal")
        )
    elif stuck and len(stuck) < len(case.processes):
        found.append(_process(stuck, "process_stuck_in_kernel", Kind.HANG, "waits in the kernel (state D)"))
    killed = [one for one in dead if one.exit_signal]
    if killed or dead:
        found.append(_died(_earliest(killed or dead)))
    return found


def _earliest(dead: list[Rank]) -> list[Rank]:
    """The first ones to end; all when nobody knows when."""
    dated = [one.ended_at for one in dead if one.ended_at is not None]
    return [one for one in dead if one.ended_at is None or one.ended_at == min(dated)] if dated else dead


def _died(dead: list[Rank]) -> Finding:
    first = dead[0]
    if not first.exit_signal:
        finding = _process(dead, "exit_code", Kind.CRASH, f"exited with code {first.exit_code}")
        return replace(finding, fault=FaultClass.APPLICATION, advice=Advice.STOP)
    cause, fault = _SIGNALS.get(first.exit_signal, ("killed_by_signal", FaultClass.UNKNOWN))
    finding = _process(dead, cause, Kind.CRASH, f"was killed by signal {first.exit_signal}; nothing in the inputs tells by whom")
    return replace(finding, fault=fault, advice=Advice.RESTART if fault is FaultClass.UNKNOWN else Advice.STOP)


def _process(seen: list[Rank], cause: str, kind: Kind, said: str) -> Finding:
    ranks = tuple(sorted(one.rank for one in seen))
    evidence = tuple(
        Excerpt(
            source="processes.json",
            text=f"rank {one.rank} on {lines.excerpt(one.node, 80)}: {_state(one)}",
            rank=one.rank,
            at=one.ended_at,
        )
        for one in seen[:MOST_EVIDENCE]
    )
    why = f"Rank {', '.join(map(str, ranks[:4]))} {said}."
    at = min((one.ended_at.replace(tzinfo=None) for one in seen if one.ended_at), default=None)
    return Finding(
        Level.PROCESS,
        cause,
        FaultClass.UNKNOWN,
        kind,
        Scope.RANK,
        Advice.RESTART,
        why,
        ranks,
        tuple(dict.fromkeys(one.node for one in seen if one.node)),
        at=at,
        evidence=evidence,
        death=kind is Kind.CRASH,
    )


def _state(one: Rank) -> str:
    if one.exit_signal:
        return f"ended by signal {one.exit_signal}"
    return f"exited with code {one.exit_code}" if one.exit_code is not None else f"state {one.state}"
