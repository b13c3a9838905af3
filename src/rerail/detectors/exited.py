"""The symptom "a process died": by the scheduler's word, or by the log's while the scheduler still says running."""

from datetime import datetime, timedelta
from statistics import median
from typing import Any, NamedTuple

import re2

from rerail.detectors.watched import Symptom, Watched, symptom
from rerail.readers import lines
from rerail.readers.progress import Phase
from rerail.records import Job, JobState, Kind

SETTLE = timedelta(seconds=1)
"""A line that a living program may print, too, becomes a symptom when no progress follows within this time ..."""

SETTLE_STEPS = 2.5
"""... or within this many steps of the job, whichever is longer: peers finish at most the step that is under way."""

SETTLE_ELSEWHERE = timedelta(seconds=20)
"""Outside of the step phase there is no progress to wait for: start-up retries and checkpoint retries take seconds."""

SETTLE_RESTART = timedelta(seconds=120)
"""A launcher that restarts its workers by itself gets the time to do it; a rendezvous and a start take about a minute."""


class DeadLine(NamedTuple):
    """A line that tells of a death. `certain`: no living program prints it. Groups, where there are any: rank."""

    pattern: str
    certain: bool
    example: str


DEAD_LINES: tuple[DeadLine, ...] = (
    DeadLine(
        r"failed \(exitcode: -?\d+\) local_rank: \d+",
        True,
        "E1201 03:23:52.7 15 api.py:1002] failed (exitcode: -9) local_rank: 0 (pid: 18) of binary: x",
    ),
    DeadLine(r"^\s*(?:\d+: )?rank\s+: (?P<rank>\d+) \(local_rank: \d+\)", False, "  rank      : 2 (local_rank: 0)"),
    DeadLine(
        r"error: node \S{1,100}: rank (?P<rank>\d+): (?:killed by signal|exited|exit code|terminated by signal)",
        True,
        "local: error: node n2: rank 3: killed by signal 9",
    ),
    DeadLine(
        r"srun: error: \S{1,100}: tasks? [\d,\[\]-]+: (?:Exited with exit code|Killed|Segmentation fault|Aborted|Bus error"
        r"|Illegal instruction"
        r"|Floating point exception|Out Of Memory)",
        True,
        "srun: error: node3: task 2: Exited with exit code 1",
    ),
    DeadLine(r"srun: error: Node failure on ", True, "srun: error: Node failure on gpu-7"),
    DeadLine(
        r"noticed that process rank (?P<rank>\d+) .{0,200}exited on signal",
        True,
        "mpirun noticed that process rank 3 with PID 0 on node n2 exited on signal 9 (Killed).",
    ),
    DeadLine(
        r"[Cc]hild process \d+ .{0,40}(?:exited|died)|exits with return code = -?[1-9]|Killing subprocess \d+",
        True,
        "[ERROR] [launch.py:325:sigkill_handler] ['python'] exits with return code = -9",
    ),
    DeadLine(r"^(?:\S{1,60}\s*)?Fatal Python error: ", True, "Fatal Python error: Segmentation fault"),
    DeadLine(
        r"\*\*\* Process received signal \*\*\*|terminate called (?:after|without)",
        True,
        "terminate called after throwing an instance of 'c10::DistBackendError'",
    ),
    DeadLine(r"taking the entire process down", True, "To avoid data inconsistency, we are taking the entire process down."),
    DeadLine(
        r"Segmentation fault \(core dumped\)|(?:line \d+:|^)\s*\d+ (?:Killed|Segmentation fault|Bus error|Aborted)",
        True,
        "Segmentation fault (core dumped)",
    ),
    DeadLine(
        r"WorkerCrashedError|ActorDiedError|The actor died unexpectedly",
        False,
        "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.",
    ),
    DeadLine(
        r"Signal \d+ \(SIG(?:KILL|SEGV|ABRT|BUS|ILL|FPE)\) received by PID",
        True,
        "  traceback : Signal 9 (SIGKILL) received by PID 18",
    ),
    DeadLine(
        r"ChildFailedError|subprocess\.CalledProcessError",
        False,
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:",
    ),
    DeadLine(r"Traceback \(most recent call last\)", False, "Traceback (most recent call last):"),
    DeadLine(
        r"[Cc]onnection closed by (?:remote )?peer|remote process exited or there was a network error",
        False,
        "RuntimeError: Connection closed by peer [127.0.0.1]:27879",
    ),
    DeadLine(
        r"oom[-_]kill event|Out of memory: Killed process", False, "slurmstepd: error: Detected 1 oom_kill event in StepId=1.0"
    ),
)

_ENDING = (
    r"\*\*\* (?:JOB|STEP) \S+ ON \S+ CANCELLED AT|DUE TO (?:TIME LIMIT|PREEMPTION|JOB REQUEUE)"
    r"|Received (?:\d+|Signals?\.SIG\w+) death signal"
    r"|got signal: (?:15|2)\b|this job is preempted|srun: forcing job termination|srun: got SIGCONT"
)
_RESTARTS = r"attempts? left; will restart worker group|max_restarts=[1-9]|max_restarts\s*:\s*[1-9]"

_BYTES = re2.Options()
_BYTES.encoding = re2.Options.Encoding.LATIN1


def _compiled(pattern: str) -> Any:
    return re2.compile(pattern.encode(), options=_BYTES)


_ANY = _compiled("|".join(f"(?:{row.pattern.replace('(?P<rank>', '(?:')})" for row in DEAD_LINES) + f"|{_ENDING}|{_RESTARTS}")
_ROWS = tuple((_compiled(row.pattern), row.certain) for row in DEAD_LINES)
_ENDS = _compiled(_ENDING)
_RESTARTS_ITSELF = _compiled(_RESTARTS)


def read_line(watched: Watched, line: bytes, now: datetime) -> Watched:
    """Take one line in: is it a first sign of death, somebody's will, or a launcher that helps itself?"""
    said = lines.bounded(line)
    if not _ANY.search(said):
        return watched
    if _RESTARTS_ITSELF.search(said):
        return watched.model_copy(update={"restarts_itself": True, "certain": False})
    if _ENDS.search(said):
        return watched if watched.fatal else watched.model_copy(update={"ending": True})
    match, certain = next((found, certain) for pattern, certain in _ROWS if (found := pattern.search(said)))
    return _suspected(watched, said, _ranks(match), certain and not watched.restarts_itself, now)


def _ranks(match: Any) -> tuple[int, ...]:
    group = match.group(1) if match.re.groups else None
    return (int(group),) if group else ()


def _suspected(watched: Watched, said: bytes, ranks: tuple[int, ...], certain: bool, now: datetime) -> Watched:
    """The first fatal line is kept; a later one may take away the doubt, and name the rank that the launcher blames."""
    if watched.fatal:
        return watched.model_copy(update={"certain": watched.certain or certain, "fatal_ranks": watched.fatal_ranks or ranks})
    news = {
        "fatal": lines.excerpt(said, 160),
        "fatal_at": now,
        "fatal_ranks": ranks,
        "fatal_step": watched.position,
        "certain": certain,
    }
    return watched.model_copy(update=news)


def cleared(watched: Watched) -> Watched:
    """Two steps after a suspicion all ranks have stepped: nobody had died."""
    if not watched.fatal or watched.position is None or Kind.CRASH in watched.told:
        return watched
    if watched.fatal_step is not None and 0 <= watched.position - watched.fatal_step < 2:
        return watched
    return watched.model_copy(update={"fatal": "", "fatal_at": None, "fatal_ranks": (), "fatal_step": None, "certain": False})


def by_the_log(watched: Watched, now: datetime) -> Symptom | None:
    """A death that the log tells while the scheduler still says running."""
    if not watched.fatal or watched.ending or watched.fatal_at is None:
        return None
    since = max(watched.fatal_at, watched.progress_at or watched.fatal_at)
    if not watched.certain and now - since < _settle(watched):
        return None
    return symptom(
        watched, Kind.CRASH, "exited", f"the log tells of a death: {watched.fatal}", watched.fatal_at, watched.fatal_ranks
    )


def _settle(watched: Watched) -> timedelta:
    if watched.restarts_itself:
        return SETTLE_RESTART
    if watched.phase is not Phase.STEP or not watched.gaps:
        return SETTLE_ELSEWHERE
    return max(SETTLE, timedelta(seconds=SETTLE_STEPS * median(watched.gaps)))


def by_the_scheduler(watched: Watched, job: Job) -> Symptom | None:
    """A failure that the scheduler has recorded; who was cancelled, preempted or ran out of time has not failed."""
    if not job.state.broken:
        return None
    return symptom(watched, Kind.CRASH, "exited", _recorded(job), job.ended_at, watched.fatal_ranks)


def node_failed(watched: Watched, now: datetime) -> Symptom:
    """The attempt is over by the failure of a node, and the scheduler has sent the job back to the queue by itself."""
    why = "a node of the job failed, and the scheduler sent the job back to the queue by itself"
    return symptom(watched, Kind.CRASH, "exited", why, now, watched.fatal_ranks)


def _recorded(job: Job) -> str:
    words = {JobState.NODE_FAIL: "a node of the job failed", JobState.BOOT_FAIL: "a node of the job did not boot"}
    words[JobState.OUT_OF_MEMORY] = "the job ran out of host memory"
    said = words.get(job.state, "the job failed")
    code = f", exit code {job.exit_code}" if job.exit_code else ""
    signal = f", signal {job.exit_signal}" if job.exit_signal else ""
    reason = f" ({lines.excerpt(job.reason, 80)})" if job.reason and job.reason.lower() not in ("none", "nonzeroexitcode") else ""
    return f"the scheduler says that {said}{code}{signal}{reason}"
