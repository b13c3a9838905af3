"""What is allowed and what goes where: pure decisions over the record's rows."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from adapters.schedulers.local.attempt import Sight
from adapters.schedulers.local.book import Entry, Place
from adapters.schedulers.local.settings import Settings
from rerail.errors import Refused
from rerail.records import JobState

JOB_ID = re.compile(r"[1-9][0-9]{0,17}")
NODE_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,62}[A-Za-z0-9])?")
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
MAX_RANKS = 1024
"""More processes than that are no job for one workstation."""
MAX_TEXT = 200
MAX_REASON = 250
MAX_COMMENT = 1024
"""As in Slurm; a comment may carry JSON."""
MAX_ARGV = 100_000
"""Characters of a command line; the kernel's own limit is 128 KiB a word."""


@dataclass(frozen=True)
class Placement:
    """Where a pending job goes now, or why it waits."""

    job: int
    nodes: tuple[str, ...] = ()
    reason: str = ""


def job_number(job_id: str) -> int:
    """The id as a number; Refused for what can't be one."""
    if not isinstance(job_id, str) or not JOB_ID.fullmatch(job_id):
        raise Refused(f"{quoted(job_id)} is no job id of a local cluster: ids are whole numbers from 1")
    return int(job_id)


def quoted(text: object) -> str:
    """Text of a stranger inside one of our sentences: bounded, control characters escaped."""
    return ascii(str(text)[:60])


def check_node_names(names: Iterable[str], known: Iterable[str] | None = None) -> None:
    """Refused for a malformed name, and for an unknown one where `known` is given."""
    known = None if known is None else set(known)
    for name in names:
        if not isinstance(name, str) or not NODE_NAME.fullmatch(name):
            raise Refused(f"{quoted(name)} is no node name: letters, digits, dots, dashes and underscores, at most 64")
        if known is not None and name not in known:
            raise Refused(f"the local cluster has no node {name}; its nodes are {', '.join(sorted(known))[:200]}")


def check_text(what: str, text: str) -> None:
    """Refused for text that is too long or could act on a terminal."""
    if len(text) > MAX_TEXT or CONTROL.search(text):
        raise Refused(f"{what} must be one line of at most {MAX_TEXT} characters without control characters")


def check_reason(reason: str) -> None:
    """Refused for what can't be the reason of a drain."""
    if not reason.strip() or len(reason) > MAX_REASON or CONTROL.search(reason):
        raise Refused(f"a drain needs a reason: one line of at most {MAX_REASON} characters without control characters")


def check_comment(comment: str) -> None:
    """Refused for what can't be a job's comment."""
    if len(comment) > MAX_COMMENT or CONTROL.search(comment):
        raise Refused(f"the comment must be one line of at most {MAX_COMMENT} characters without control characters")


def check_command(argv: Sequence[str]) -> None:
    """Refused for what can't be a command line."""
    if not argv or not argv[0]:
        raise Refused("a job needs a command to run")
    if any("\0" in word for word in argv) or sum(len(word) + 1 for word in argv) > MAX_ARGV:
        raise Refused(f"a command line holds no NUL character and at most {MAX_ARGV} characters")


def check_size(nodes_needed: int, ranks_per_node: int, places: Sequence[Place]) -> None:
    """Refused for a job that could never start on this cluster."""
    if nodes_needed < 1 or ranks_per_node < 1 or nodes_needed * ranks_per_node > MAX_RANKS:
        raise Refused(f"a job has at least one node with one rank, and at most {MAX_RANKS} ranks in all")
    wide_enough = sum(place.slots >= ranks_per_node for place in places)
    if nodes_needed > wide_enough:
        raise Refused(
            f"{nodes_needed} nodes with {ranks_per_node} ranks each are asked for, but the cluster has {wide_enough} of them"
        )


def requeue_refusal(entry: Entry, *, running: bool, now: float, settings: Settings) -> str:
    """Why the job can't be requeued; empty when it can (or when nothing is to be done)."""
    window = settings.requeue_window_s
    refusals = (
        (entry.state is JobState.PENDING, "is pending already: somebody else requeued it, or it never ran; read it again"),
        (not entry.requeue, "was submitted with --no-requeue: its owner has to submit it again"),
        (entry.state is JobState.RUNNING and not running, "runs again: somebody else restarted it; read it again"),
        (entry.state is JobState.CANCELLED and not running, f"was cancelled by {entry.cancelled_by or 'somebody'}"),
        (
            entry.ended_at is not None and not running and now > entry.ended_at + window,
            f"ended more than {window:g} s ago, too long for a requeue: submit it again",
        ),
    )
    return next((f"job {entry.id} {why}" for holds, why in refusals if holds), "")


def place_all(pending: Sequence[Entry], places: Sequence[Place], busy: Mapping[str, int], now: float) -> list[Placement]:
    """First come, first served: a job waits for its turn on the nodes that an earlier one waits for. `busy` is slots in use."""
    used, spoken_for = dict(busy), set[str]()
    placements = []
    for entry in sorted(pending, key=lambda e: (e.submitted_at, e.id)):
        placement, candidates = _place(entry, places, used, spoken_for, now)
        placements.append(placement)
        for node in placement.nodes:
            used[node] = used.get(node, 0) + entry.ranks_per_node
        if placement.reason == "Resources":
            spoken_for |= candidates
    return placements


def _place(
    entry: Entry, places: Sequence[Place], used: Mapping[str, int], spoken_for: set[str], now: float
) -> tuple[Placement, set[str]]:
    if entry.live is not None or (entry.begins_at is not None and entry.begins_at > now):
        return Placement(entry.id, reason="BeginTime"), set()
    allowed = [p for p in places if p.name not in entry.excluded and p.slots >= entry.ranks_per_node]
    up = [p for p in allowed if not p.drained]
    free = [p.name for p in up if p.name not in spoken_for and p.slots - used.get(p.name, 0) >= entry.ranks_per_node]
    if len(free) >= entry.nodes_needed:
        return Placement(entry.id, nodes=tuple(free[: entry.nodes_needed])), set()
    if len(allowed) < entry.nodes_needed:
        return Placement(entry.id, reason="BadConstraints"), set()
    if len(up) < entry.nodes_needed:
        return Placement(entry.id, reason="ReqNodeNotAvail"), set()
    return Placement(entry.id, reason="Resources"), {p.name for p in up}


@dataclass(frozen=True)
class Ending:
    """How a running attempt ends."""

    state: JobState
    reason: str = ""
    exit_code: int | None = None
    exit_signal: int | None = None


def judge(sights: Sequence[Sight], now: float, grace_s: float) -> Ending | None:
    """How the attempt ends now, None while it runs. One rank that died badly ends all, after a grace for others to speak."""
    bad = sorted((s for s in sights if s.bad), key=lambda s: (s.lost, s.ended_at or now))
    over = all(s.ended for s in sights)
    if not bad:
        return Ending(JobState.COMPLETED, exit_code=0) if over else None
    first = bad[0]
    if not over and 0 <= now - (first.ended_at or 0) < grace_s:
        return None
    reason = "RankLost" if first.lost else "NonZeroExitCode" if first.exit_signal is None else "RaisedSignal"
    return Ending(JobState.FAILED, first.error or reason, first.exit_code, first.exit_signal)
