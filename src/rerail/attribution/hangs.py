"""Who is missing in a hang: collectives that ranks wait in, and stacks of ranks that still live."""

import re
from collections import Counter
from dataclasses import replace
from typing import NamedTuple

from rerail import flightrecorder
from rerail.attribution.course import Course
from rerail.attribution.findings import Finding, Level
from rerail.attribution.whom import Places
from rerail.case import Case
from rerail.readers import lines
from rerail.readers.progress import Phase
from rerail.readers.stacks import Stack
from rerail.records import Advice, Excerpt, FaultClass, Kind
from rerail.signatures import Scope

FEW = 0.25
"""Share of the ranks up to which the odd ones out are the culprits; more are a sign of something that all share."""


class Work(NamedTuple):
    """A collective that a rank waited in too long."""

    line: int
    rank: int
    group: str
    sequence: int
    operation: str
    elements: str


_WORK = re.compile(r"WorkNCCL\(SeqNum=(\d{1,18}), OpType=(\w{1,40})(?:, (?:TensorShape=(\[[^\]]{0,200}\])|NumelIn=(\d{1,18})))?")
_RANK = re.compile(r"\[Rank (\d{1,7})\]|\bRank (\d{1,7})\]")
_GROUP = re.compile(r"\[PG (?:ID )?(\w{1,40})")


def findings(case: Case, places: Places, course: Course) -> list[Finding]:
    """What collectives and stacks tell."""
    works = _works(case)
    found = [*_recorded(case, places), *_divergence(case, works), *_absent(case, places, works, course), *_outlying(case)]
    return [replace(one, tags=frozenset({"waits"})) for one in found]


def _recorded(case: Case, places: Places) -> list[Finding]:
    """What the flight recorder tells."""
    said = flightrecorder.blame(case.dumps) if len(case.dumps) > 1 else flightrecorder.Blame((), "")
    if not said.ranks and not said.diverged:
        return []
    fault, advice = (FaultClass.APPLICATION, Advice.STOP) if said.diverged else (FaultClass.UNKNOWN, Advice.RESTART)
    cause = "collective_divergence" if said.diverged else "rank_lagging"
    nodes = tuple(dict.fromkeys(filter(None, (places.node_of(rank) for rank in said.ranks))))
    evidence = (Excerpt(source="flight recorder", text=lines.excerpt(said.why)),)
    return [
        Finding(
            Level.LOG, cause, fault, Kind.HANG, Scope.RANK, advice, said.why, said.ranks, nodes, evidence=evidence, death=False
        )
    ]


def _works(case: Case) -> list[Work]:
    """The first overlong collective of each rank."""
    found: dict[int, Work] = {}
    for seen in case.log.sightings:
        said = seen.raw.decode("utf-8", "replace")
        match, rank = _WORK.search(said), _RANK.search(said)
        if match is None:
            continue
        number = int(rank[1] or rank[2]) if rank else seen.front.rank
        group = _GROUP.search(said)
        if number is not None and number not in found:
            elements = match[3] or match[4] or ""
            found[number] = Work(seen.line, number, group[1] if group else "", int(match[1]), match[2], elements)
    return list(found.values())


def _divergence(case: Case, works: list[Work]) -> list[Finding]:
    """The same sequence number with another operation: the ranks run different code."""
    by_sequence: dict[int, list[Work]] = {}
    for work in works:
        by_sequence.setdefault(work.sequence, []).append(work)
    for group in by_sequence.values():
        kinds = Counter((work.operation, work.elements) for work in group)
        if len(kinds) > 1:
            return [_diverged(case, group, kinds)]
    return []


def _diverged(case: Case, group: list[Work], kinds: Counter[tuple[str, str]]) -> Finding:
    usual, count = kinds.most_common(1)[0]
    odd = [work for work in group if (work.operation, work.elements) != usual]
    ranks = tuple(sorted(work.rank for work in odd)) if count > len(odd) else ()
    first = odd[0]
    who = f"rank {', '.join(map(str, ranks[:4]))}" if ranks else "some ranks"
    why = (
        f"At sequence number {first.sequence} {who} called {first.operation} while the others wait in {usual[0]}: "
        "the ranks take different ways through the program or its data."
    )
    evidence = tuple(_line(case, work) for work in (first, *(work for work in group if work not in odd))[:2])
    return Finding(
        Level.LOG, "collective_divergence", FaultClass.APPLICATION, Kind.HANG, Scope.RANK, Advice.STOP, why, ranks,
        line=min(work.line for work in group), last_line=max(work.line for work in group), evidence=evidence, death=False,
    )  # fmt: skip


def _line(case: Case, work: Work) -> Excerpt:
    raw = next((seen.raw for seen in case.log.sightings if seen.line == work.line), b"")
    return Excerpt(source=case.log.name, line=work.line, text=lines.excerpt(raw), rank=work.rank)


def _absent(case: Case, places: Places, works: list[Work], course: Course) -> list[Finding]:
    """Ranks that waited told it; who did not tell, was not there. A lone waiter after the work was done waits for nobody."""
    world = set(case.rank_nodes)
    waiting = {work.rank for work in works if work.sequence == max(other.sequence for other in works)} if works else set()
    absent = world - {work.rank for work in works}
    if not works or len(world) < 2 or not absent:
        return []
    if len(waiting) <= len(world) / 2 and course.phase in (Phase.SHUTDOWN, Phase.CHECKPOINT, Phase.EVALUATION):
        return [_alone(case, works, tuple(sorted(waiting)))]
    if len(absent) <= max(1, FEW * len(world)):
        return [_missing(case, places, works, tuple(sorted(absent)))]
    return []


def _alone(case: Case, works: list[Work], ranks: tuple[int, ...]) -> Finding:
    who = ", ".join(map(str, ranks[:4]))
    why = f"Only rank {who} waits in {works[0].operation}, with the training over: a collective that not all ranks call."
    return Finding(
        Level.LOG, "rank_conditional_collective", FaultClass.APPLICATION, Kind.HANG, Scope.RANK, Advice.STOP, why, ranks,
        line=works[0].line, last_line=works[-1].line, evidence=(_line(case, works[0]),), death=False,
    )  # fmt: skip


def _missing(case: Case, places: Places, works: list[Work], ranks: tuple[int, ...]) -> Finding:
    """The others waited for these; why they did not come, the log does not say."""
    who = ", ".join(map(str, ranks[:4]))
    why = f"All ranks but {who} wait in {works[0].operation}: rank {who} never came, and nothing tells why."
    nodes = tuple(dict.fromkeys(filter(None, (places.node_of(rank) for rank in ranks))))
    return Finding(
        Level.PROCESS, "rank_absent", FaultClass.UNKNOWN, Kind.HANG, Scope.RANK, Advice.RESTART, why, ranks, nodes,
        line=works[0].line, last_line=works[-1].line, evidence=(_line(case, works[0]),), death=False,
    )  # fmt: skip


# --- stacks --------------------------------------------------------------------------------------------------------------------

_WAITING = re.compile(
    r"(?i)all_?reduce|all_?gather|reduce_?scatter|broadcast|barrier|synchronize|wait_for|nccl|\bbackward\b|collective"
)
_PLACES: tuple[tuple[re.Pattern[str], str, FaultClass, Advice, str], ...] = (
    (
        re.compile(r"(?i)dataloader|_try_get_data|_next_data|fetch|dataset|queue\.py"),
        "dataloader_deadlock", FaultClass.APPLICATION, Advice.RESTART, "waits for its data loader",
    ),
    (
        re.compile(r"(?i)checkpoint|save_|serialization|\bfsync|\bwrite\b|safetensors|torch_dist"),
        "checkpoint_blocked", FaultClass.SYSTEM, Advice.RESTART, "is stuck while it saves a checkpoint",
    ),
    (
        re.compile(r"(?i)compile|inductor|triton|dynamo"),
        "compile_stuck", FaultClass.APPLICATION, Advice.RESTART, "is still compiling",
    ),
)  # fmt: skip


def _outlying(case: Case) -> list[Finding]:
    """Ranks whose stack differs from that of the many that wait in a collective."""
    stacks = case.log.stacks
    if len(stacks) < 2:
        return []
    waiting = [stack for stack in stacks if any(_WAITING.search(frame) for frame in stack.frames[:6])]
    odd = [stack for stack in stacks if stack not in waiting]
    if not waiting or not odd or len(odd) > max(1, len(stacks) // 2):
        return []
    return [_stuck(case, odd)]


def _stuck(case: Case, odd: list[Stack]) -> Finding:
    frames = " ".join(odd[0].frames)
    found = next((row for row in _PLACES if row[0].search(frames)), None)
    ranks = tuple(sorted(stack.rank for stack in odd))
    who = ", ".join(map(str, ranks[:4]))
    evidence = tuple(
        Excerpt(
            source=case.log.name,
            line=stack.line,
            text=lines.excerpt(f"rank {stack.rank}: {' < '.join(stack.frames[:5])}"),
            rank=stack.rank,
        )
        for stack in odd[:2]
    )
    one = Finding(
        Level.LOG, "rank_stuck", FaultClass.UNKNOWN, Kind.HANG, Scope.RANK, Advice.RESTART,
        f"Rank {who} is elsewhere while the others wait in a collective.", ranks,
        line=odd[0].line, last_line=odd[-1].line, evidence=evidence, death=False,
    )  # fmt: skip
    if found is None:
        return one
    _, cause, fault, advice, said = found
    return replace(
        one, cause=cause, fault=fault, advice=advice, why=f"Rank {who} {said}, and the others wait for it in a collective."
    )
