"""The scheduler port on Slurm.

Look, then act: before an effect the job is read, so that never a whole array is meant by accident.
"""

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from adapters.schedulers.slurm import answers, arrays, fleet, ids, reading
from adapters.schedulers.slurm.runner import Ran, Runner
from rerail import hostlist
from rerail.errors import Misconfigured, NoSuchJob, OutcomeUnknown, Refused, Transient, Unreadable
from rerail.records import Job, JobState, Node, Rank, Reading

READ_DEADLINE_S = 30.0
"""A read of 10,000 jobs takes 0.4 s; a slurmctld that is slower than this doesn't answer."""

EFFECT_DEADLINE_S = 15.0
"""Slurm's own MessageTimeout is 10 s by default; after that its client says so itself."""

SETTLE_S = 2
"""A job that starts in the second in which its last attempt ended is killed: "Job credential revoked" (22.05, 3 of 12)."""

MIN_JOB_AGE = re.compile(r"^MinJobAge\s*=\s*([0-9]+)", re.MULTILINE)


def _now() -> datetime:
    return datetime.now(UTC)


class SlurmScheduler:
    """One cluster. `runner` is the way in."""

    def __init__(
        self,
        cluster: str,
        runner: Runner,
        *,
        read_deadline_s: float = READ_DEADLINE_S,
        effect_deadline_s: float = EFFECT_DEADLINE_S,
        clock: Callable[[], datetime] = _now,
    ) -> None:
        self.cluster = cluster
        self._runner = runner
        self._read_deadline_s = read_deadline_s
        self._effect_deadline_s = effect_deadline_s
        self._clock = clock
        self._min_job_age_s: int | None = None

    # -- reading ------------------------------------------------------------------------------------------------------

    def read(self) -> Reading:
        """As the port says."""
        read_at = self._clock()
        return Reading(cluster=self.cluster, read_at=read_at, jobs=tuple(self._jobs().values()))

    def job(self, job_id: str) -> Job:
        """As the port says; an id of Slurm's own for a task or a component finds it too."""
        wanted = ids.job_id(job_id)
        jobs = self._jobs(f"--jobs={wanted}")  # 22.05 prints all the same, so it is chosen again here
        for job in jobs.values():
            if job.job_id == wanted:
                return job
        if wanted.isdigit() and int(wanted) in jobs:
            return jobs[int(wanted)]
        array, _, task = wanted.partition("_")
        rest = jobs.get(int(array)) if task else None
        if rest and (waiting := arrays.waiting_task(rest, int(task))):
            return waiting
        raise NoSuchJob(f"Slurm does not know job {wanted} on {self.cluster} (any more); `sacct -j {wanted}` may")

    def nodes(self) -> tuple[Node, ...]:
        """As the port says."""
        said = self._asked(["sinfo", "--all", "--Node", "--noheader", f"--format={fleet.FORMAT}"])
        return fleet.nodes(said.decode("utf-8", "replace"))

    def ranks(self, job: Job) -> tuple[Rank, ...]:
        """None: Slurm knows no ranks."""
        return ()

    # -- acting -------------------------------------------------------------------------------------------------------

    def requeue(self, job_id: str, *, running: bool) -> None:
        """As the port says: Slurm's own begin time keeps the job waiting, so if we die here it starts by itself."""
        job = self._one(job_id)
        if not job.batch:
            raise Refused(f"job {job.job_id} is an srun or salloc job and can't be requeued; its owner has to start it again")
        if job.state is JobState.PENDING:
            raise Refused(f"job {job.job_id} is pending already; read it again")
        if not running and job.state in (JobState.RUNNING, JobState.SUSPENDED):
            raise Refused(f"job {job.job_id} was believed to have ended and is {job.state}; read it again")
        if not job.requeue:
            raise Refused(f"job {job.job_id} must not be requeued, says its owner (--no-requeue) or the site; submit it again")
        only_if_running = ["Incomplete"] if running else []
        self._effect(["scontrol", "requeue", *only_if_running, job.job_id])

    def exclude(self, job_id: str, nodes: Sequence[str]) -> None:
        """As the port says."""
        names = ids.node_names(nodes)
        job = self._one(job_id)
        self._effect(["scontrol", "update", f"jobid={job.job_id}", f"ExcNodeList={hostlist.compress(names)}"])

    def start_now(self, job_id: str) -> None:
        """As the port says."""
        job = self._one(job_id)
        self._effect(
            ["scontrol", "update", f"jobid={job.job_id}", f"StartTime=now+{SETTLE_S}seconds"], done_already=answers.NOT_PENDING
        )

    def cancel(self, job_id: str) -> None:
        """As the port says."""
        job = self._one(job_id)
        self._effect(["scancel", "--verbose", job.job_id], done_already=answers.ENDED, failed=answers.NOT_CANCELLED)

    # -- its parts ----------------------------------------------------------------------------------------------------

    def _one(self, job_id: str) -> Job:
        """The one job that an effect is meant for; Refused where the id would hit more than that."""
        job = self.job(job_id)
        if job.array_job_id and not job.array_task_id.isdigit():
            raise Refused(f"{job_id} is a whole job array; name one task, such as {job.array_job_id}_1")
        if job.array_job_id and job.job_id != job_id and "_" not in job_id:
            raise Refused(f"{job_id} belongs to a job array; name its task: {job.job_id}")
        if job.het_job_id and job.job_id != job.het_job_id:
            raise Refused(f"{job.job_id} is a component of a heterogeneous job; name its leader: {job.het_job_id}")
        return job

    def _jobs(self, *words: str) -> dict[int, Job]:
        said = self._asked(["squeue", "--all", "--states=all", *words, "--json"])
        return reading.jobs(said, self.cluster, self._job_age())

    def _job_age(self) -> int | None:
        """Seconds for which Slurm keeps an ended job, asked once; None while that isn't known."""
        if self._min_job_age_s is None:
            try:
                said = self._asked(["scontrol", "show", "config"])
            except Transient:
                return None
            found = MIN_JOB_AGE.search(said.decode("utf-8", "replace"))
            self._min_job_age_s = int(found[1]) if found else 0
        return self._min_job_age_s or None

    def _asked(self, argv: list[str]) -> bytes:
        """What a command that only reads prints; Unreadable when it can't be had."""
        try:
            ran = self._runner.run(argv, self._read_deadline_s)
        except Transient as error:
            raise Unreadable(f"{self.cluster} could not be read: {error}") from error
        if ran.rc == 0:
            return ran.stdout
        problem = answers.error_of(argv[0], ran.rc, _said(ran))
        if isinstance(problem, Misconfigured | NoSuchJob):
            raise problem
        raise Unreadable(f"{self.cluster} could not be read: {problem}")

    def _effect(self, argv: list[str], *, done_already: str = "", failed: str = "") -> None:
        """Run a command that changes something. `done_already`: Slurm's words when there is nothing left to do; `failed`: its
        words when it could not and exits with 0 all the same."""
        try:
            ran = self._runner.run(argv, self._effect_deadline_s)
        except OutcomeUnknown as error:
            raise OutcomeUnknown(f"{error}; it may have been done: read the job again before anything is repeated") from error
        said = _said(ran)
        if done_already and done_already in said:
            return
        if ran.rc or (failed and failed in said):
            raise answers.error_of(argv[0], ran.rc, said)


def _said(ran: Ran) -> str:
    """What a command complained about; scontrol complains on standard error, some of its verbs on standard output."""
    return (ran.stderr or ran.stdout).decode("utf-8", "replace").strip()
