"""Who else restarts a job. Two owners of restarts are one too many: where a second one is found, rerail only advises."""

import re
from collections.abc import Iterable, Iterator
from enum import StrEnum

from rerail.readers import lines
from rerail.records import Habits, Job, JobState, Owner, Record, Recovery

LONGEST_EVIDENCE = 160
"""Characters of a quoted line."""

NVRX_STOP = 93
"""Exit code of NVRx's ft_launcher when its own attribution says stop."""


class Place(StrEnum):
    """Where a sign is looked for."""

    SCRIPT = "the batch script"
    LOG = "the log"


class Sign(Record):
    """A line by which a second owner is known. `beside`: what the script has to say, too, where the script can be read."""

    owner: str
    place: Place
    pattern: str
    why: str
    example: str
    beside: str = ""


LIGHTNING = "PyTorch Lightning's auto-requeue"
SUBMITIT = "submitit"
SELF = "the job's own script"
CHAIN = "a chain of jobs"
NVRX = "NVRx's ft_launcher"

SIGNS: tuple[Sign, ...] = (
    Sign(
        owner=LIGHTNING,
        place=Place.LOG,
        pattern=r"\brequeing job [0-9_]+\.\.\.|\b[Rr]equeued (?:exp|SLURM job:?) [0-9_]+",
        why="its handler of SIGUSR1 runs scontrol requeue",
        example="INFO: requeing job 4711...",
    ),
    Sign(
        owner=LIGHTNING,
        place=Place.LOG,
        pattern=r"SLURM auto-requeueing enabled",
        why="armed, and the script asks Slurm for the signal that sets it off",
        example="SLURM auto-requeueing enabled. Setting signal handlers.",
        beside=r"--signal[= ]",
    ),
    Sign(
        owner=SUBMITIT,
        place=Place.SCRIPT,
        pattern=r"\bsubmitit\.core\._submit\b",
        why="it requeues what was preempted or ran out of time",
        example="srun --unbuffered --output /ckpt/%j.out /usr/bin/python3 -u -m submitit.core._submit /ckpt",
    ),
    Sign(
        owner=SUBMITIT,
        place=Place.LOG,
        pattern=r"\bRequeued job [0-9_]+ \([0-9]+ remaining timeouts\)",
        why="it has requeued this job before",
        example="submitit INFO (2026-12-01 06:00:00,000) - Requeued job 4711 (2 remaining timeouts)",
    ),
    Sign(
        owner=SELF,
        place=Place.SCRIPT,
        pattern=r"\bscontrol\s+(?:requeue|requeuehold)\b",
        why="it requeues itself",
        example='python train.py || scontrol requeue "$SLURM_JOB_ID"',
    ),
    Sign(
        owner=CHAIN,
        place=Place.SCRIPT,
        pattern=r"\bsbatch\b[^\n#]{0,400}(?:\$0|BASH_SOURCE|SLURM_(?:ARRAY_)?JOB_ID)",
        why="each job submits its successor",
        example='sbatch --dependency=afterany:$SLURM_JOB_ID "$0"',
    ),
    Sign(
        owner="SageMaker HyperPod's auto-resume",
        place=Place.SCRIPT,
        pattern=r"--auto-resume[= ]1\b",
        why="it restarts the step after a node was replaced",
        example="srun --auto-resume=1 python train.py",
    ),
)

FT_LAUNCHER = re.compile(r"\bft_launcher\b|nvidia_resiliency_ext")


def owner_of(
    job: Job,
    *,
    script: str = "",
    log: str = "",
    habits: Habits | None = None,
    queue: Iterable[Job] = (),
    history: Iterable[Recovery] = (),
) -> Owner | None:
    """The second owner of this job's restarts, or None. `job`: as its failed attempt ended; `queue`: the other jobs of today."""
    code = script_code(script)
    found = (
        *by_habit(job, habits or Habits()),
        *by_exit(job, code, log),
        *by_signs(code, log, readable=bool(script)),
        *by_chain(job, queue),
        *by_takeover(history),
    )
    return next(iter(found), None)


def script_code(script: str) -> str:
    """The script without its comments; what `#SBATCH` says counts."""
    kept = (line for line in script.splitlines() if not line.lstrip().startswith("#") or line.startswith("#SBATCH"))
    return "\n".join(kept)


def by_signs(code: str, log: str, *, readable: bool) -> Iterator[Owner]:
    """Lines of the script and of the log."""
    for sign in SIGNS:
        found = re.search(sign.pattern, code if sign.place is Place.SCRIPT else log)
        if found and (not sign.beside or not readable or re.search(sign.beside, code)):
            quoted = line_around(found.string, found.start())
            yield Owner(name=sign.owner, evidence=f"{sign.place} says: {quoted} ({sign.why})")


def line_around(text: str, at: int) -> str:
    end = text.find("\n", at)
    return lines.excerpt(text[text.rfind("\n", 0, at) + 1 : end if end >= 0 else len(text)].strip(), LONGEST_EVIDENCE)


def by_habit(job: Job, habits: Habits) -> Iterator[Owner]:
    """The site's own rules by exit code."""
    if job.state is not JobState.FAILED or job.exit_code is None:
        return
    if job.exit_code in habits.requeue_exits:
        yield Owner(name="RequeueExit in slurm.conf", evidence=f"Slurm requeues what ends with exit code {job.exit_code}")
    if job.exit_code in habits.hold_exits:
        said = f"Slurm requeues and holds what ends with exit code {job.exit_code}, for a person to look"
        yield Owner(name="RequeueExitHold in slurm.conf", evidence=said)


def by_exit(job: Job, code: str, log: str) -> Iterator[Owner]:
    """NVRx's own verdict: stop."""
    if job.exit_code == NVRX_STOP and (FT_LAUNCHER.search(code) or FT_LAUNCHER.search(log)):
        yield Owner(name=NVRX, evidence=f"it ended the job with exit code {NVRX_STOP}: its own attribution says stop")


def by_chain(job: Job, queue: Iterable[Job]) -> Iterator[Owner]:
    """A successor of the same name and user that waits for this one to end (`--dependency=singleton`)."""
    for other in queue:
        twin = (other.name, other.user, other.cluster) == (job.name, job.user, job.cluster) and other.job_id != job.job_id
        if twin and other.state is JobState.PENDING and "singleton" in other.dependency:
            yield Owner(name=CHAIN, evidence=f"job {other.job_id} of the same name waits with --dependency=singleton")


def by_takeover(history: Iterable[Recovery]) -> Iterator[Owner]:
    """Somebody who restarted this job while our proposal waited."""
    for recovery in history:
        if recovery.owner:
            yield Owner(name=recovery.owner, evidence=f"attempt {recovery.attempt} was restarted while a proposal waited")
