"""What only Slurm's accounting remembers of a run that ended: who cancelled it, and which node failed.

It is asked once a run. Where it doesn't answer, nothing is known; that is never "nobody" or "no node".
"""

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from rerail import hostlist
from rerail.errors import RerailError
from rerail.records import Job, JobState

UNKNOWN_FIELD = "Invalid field requested"
"""What sacct says of a field that this release doesn't have: FailedNode isn't in 22.05."""

AGAIN_S = 5.0
"""Before it is asked again for a run that it did not know yet: slurmctld tells it seconds later, after an outage much later."""

MOST_KEPT = 1000
"""Runs whose answer is remembered."""

LOST_WITHIN = timedelta(seconds=60)
"""A node that was marked as lost this near to the end of the run is the one that ended it."""

LOST = ("down", "unknown")
NOT_RESPONDING = "*"

Ask = Callable[[Sequence[str]], str]
"""Runs a command that only reads; its text. Raises what the scheduler raises."""

_CANCELLED = re.compile(r"CANCELLED by ([0-9]+)")


@dataclass(frozen=True)
class Word:
    """What is known of a run's end."""

    cancelled_by: str = ""
    failed_node: str = ""


@dataclass(frozen=True)
class Run:
    """One row of sacct."""

    state: str
    nodes: str
    ended_at: datetime | None
    owner: str = ""
    """The number of the user whose job it is."""
    failed_node: str = ""


class Accounting:
    """`ask` runs sacct and sinfo. `kept` is False where the site keeps no accounting at all."""

    def __init__(self, ask: Ask, clock: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask
        self._clock = clock
        self._names_the_node = True
        self._known: dict[tuple[str, int, str], Word] = {}
        self._asked_at: dict[tuple[str, int, str], float] = {}

    def word(self, job: Job, number: int, *, kept: bool) -> Word:
        """What is known of the run that ended last; asked for rarely, however often a job is looked at."""
        if not worth_asking(job):
            return Word()
        run = (job.job_id, job.restarts, str(job.state))
        known = self._known.get(run)
        if known is None and self._clock() - self._asked_at.get(run, float("-inf")) >= AGAIN_S:
            known = self._find_out(job, number, kept)
            self._remember(run, known)
        return known or Word()

    def _remember(self, run: tuple[str, int, str], word: Word | None) -> None:
        if len(self._asked_at) >= MOST_KEPT:
            self._asked_at.clear()
            self._known.clear()
        self._asked_at[run] = self._clock()
        if word is not None:
            self._known[run] = word

    def _find_out(self, job: Job, number: int, kept: bool) -> Word | None:
        """None while it can't be told."""
        try:
            run = last_run(self._rows(job, number), job) if kept else None
            if job.state is JobState.CANCELLED:
                return cancelled(run, job) if run else None
            failed = run.failed_node if run else ""
            failed = failed or self._lost_node(job, run)
            return Word(failed_node=failed) if failed else None
        except RerailError:
            return None

    def _rows(self, job: Job, number: int) -> list[Run]:
        fields = "JobIDRaw,State,NodeList,End,UID" + (",FailedNode" if self._names_the_node else "")
        argv = [
            "sacct",
            "--noheader",
            "--parsable2",
            "--allocations",
            "--duplicates",
            f"--jobs={job.job_id}",
            f"--format={fields}",
        ]
        try:
            said = self._ask(argv)
        except RerailError as error:
            if UNKNOWN_FIELD not in str(error) or not self._names_the_node:
                raise
            self._names_the_node = False
            return self._rows(job, number)
        lines = (line.split("|") for line in said.splitlines())
        return [run_of(parts) for parts in lines if parts[0] == str(number) and len(parts) >= 5]

    def _lost_node(self, job: Job, run: Run | None) -> str:
        """Where accounting names no node: those of the run that slurmctld lost when the run ended."""
        names = job.nodes or names_of(run.nodes if run else "")
        ended_at = job.ended_at or (run.ended_at if run else None)
        if not names or ended_at is None or not (job.state is JobState.NODE_FAIL or (run and run.state == "NODE_FAIL")):
            return ""
        argv = ["sinfo", "--all", "--Node", "--noheader", f"--nodes={hostlist.compress(names)}", "--format=%N|%T|%H"]
        lines = (line.split("|") for line in self._ask(argv).splitlines())
        lost = {name for name, state, since in (p for p in lines if len(p) == 3) if is_lost(state, moment(since), ended_at)}
        return hostlist.compress(sorted(lost))


def worth_asking(job: Job) -> bool:
    """Runs that were cancelled or lost a node; a requeued one may have lost it in its last run."""
    if job.state in (JobState.CANCELLED, JobState.NODE_FAIL):
        return True
    return job.state is JobState.PENDING and job.restarts > 0


def last_run(runs: Sequence[Run], job: Job) -> Run | None:
    """The row of the run that ended last; None when accounting doesn't know yet that it ended."""
    ended = [run for run in runs if run.ended_at is not None]
    if not ended or (job.state.ended and ended[-1].state.partition(" ")[0] != job.state.value.upper()):
        return None
    return ended[-1]


def cancelled(run: Run, job: Job) -> Word | None:
    """By its owner's name, `root`, or the number of another user."""
    by = _CANCELLED.fullmatch(run.state)
    if by is None:
        return None
    return Word(cancelled_by=job.user if by[1] == run.owner else "root" if by[1] == "0" else by[1])


def run_of(parts: Sequence[str]) -> Run:
    failed = parts[5] if len(parts) > 5 and parts[5] not in ("", "None", "N/A") else ""
    return Run(state=parts[1], nodes=parts[2], ended_at=moment(parts[3]), owner=parts[4], failed_node=failed)


def moment(field: str) -> datetime | None:
    return datetime.fromtimestamp(int(field), UTC) if field.isdecimal() and int(field) else None


def is_lost(state: str, since: datetime | None, ended_at: datetime) -> bool:
    lost = NOT_RESPONDING in state or state.rstrip("*~#!%$@^-+").lower() in LOST
    return lost and since is not None and abs(since - ended_at) <= LOST_WITHIN


def names_of(text: str) -> tuple[str, ...]:
    try:
        return hostlist.expand(text)
    except ValueError:
        return ()
