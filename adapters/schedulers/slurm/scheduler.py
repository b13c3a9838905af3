"""The scheduler port on Slurm.

Look, then act: before an effect the job is read, so that never a whole array is meant by accident.
"""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from adapters.schedulers.slurm import answers, arrays, fleet, hetjobs, ids, reading, shapes, site, table
from adapters.schedulers.slurm.accounting import Accounting
from adapters.schedulers.slurm.runner import Ran, Runner
from rerail import drains, hostlist
from rerail.errors import Misconfigured, NoSuchJob, NotFound, OutcomeUnknown, Refused, RerailError, Transient, Unreadable
from rerail.ports import Right
from rerail.records import Habits, Job, JobState, Node, NodeState, Rank, Reading

READ_DEADLINE_S = 30.0
"""A read of 10,000 jobs takes 0.3 s; a slurmctld that is slower than this doesn't answer."""

EFFECT_DEADLINE_S = 15.0
"""Slurm's own MessageTimeout is 10 s by default; after that its client says so itself."""

SETTLE_S = 2
"""A job that starts in the second in which its last attempt ended is killed: "Job credential revoked" (22.05, 3 of 12)."""

MIN_JOB_AGE = re.compile(r"^MinJobAge\s*=\s*([0-9]+)", re.MULTILINE)
CONFIG_AT = re.compile(r"^Configuration data as of ([0-9]+)$", re.MULTILINE)
"""slurmctld's own clock when it was asked."""

CONFIG_FRESH_S = 600.0
"""How long an answer of `scontrol show config` is used: a site changes it by hand, and clocks drift slowly."""

APART_S = 2.0
"""Clocks nearer to each other than this agree: one tells whole seconds, and the question takes its time."""

NO_ACCOUNTING = re.compile(r"^AccountingStorageType\s*=\s*(?:accounting_storage/none|\(null\))", re.MULTILINE)

LISTED = ("squeue", "--all", "--states=all")

NO_SUCH_NODE = "rerail-has-no-such-node"

LONGEST_SCRIPT = 4 << 20
"""Bytes; Slurm takes none longer by default (max_script_size)."""


READS_MOST = 3
"""Tries to read one job that changes while it is read."""


class Changed(Unreadable):
    """What two calls said of one job does not fit together."""


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
        self._config: str | None = None
        self._config_at = float("-inf")
        self._ahead = timedelta(0)
        """How far slurmctld's clock is ahead of ours."""
        self._no_drains: str | None = None
        self._prints_table = True
        self._seen: dict[int, tuple[table.Row, Job]] = {}
        """Rows of the last table with what they were read as: most of them are the same in the next one."""
        self._accounting = Accounting(lambda argv: self._asked(list(argv)).decode("utf-8", "replace"))

    def rights(self) -> frozenset[Right]:
        """As the port says: those of the way in."""
        return self._runner.rights()

    # -- reading ------------------------------------------------------------------------------------------------------

    def read(self) -> Reading:
        """As the port says."""
        read_at, jobs = self._clock(), tuple(self._jobs().values())
        return Reading(cluster=self.cluster, read_at=read_at + self._ahead, jobs=jobs)

    def job(self, job_id: str) -> Job:
        """As the port says; an id of Slurm's own for a task or a component finds it too."""
        for _ in range(READS_MOST - 1):
            try:
                return self._job(job_id)
            except Changed:  # it takes two calls, and a task may split off its array between them
                continue
        return self._job(job_id)

    def _job(self, job_id: str) -> Job:
        wanted = ids.job_id(job_id)
        try:
            jobs = self._jobs(f"--jobs={wanted}")  # 22.05's JSON has all of them all the same, so it is chosen again here
        except NoSuchJob:
            jobs = {}
        number = chosen(jobs, wanted)
        if number is not None:
            return self._full(number, jobs[number])
        array, _, task = wanted.partition("_")
        rest = jobs.get(int(array)) if task else None
        if rest and (waiting := arrays.waiting_task(rest, int(task))):
            return waiting
        raise NoSuchJob(f"Slurm does not know job {wanted} on {self.cluster} (any more); `sacct -j {wanted}` may")

    def nodes(self) -> tuple[Node, ...]:
        """As the port says."""
        word = table.new_word()
        said = self._asked(["sinfo", "--all", "--Node", "--noheader", f"--format={fleet.FORMAT}{word}"])
        return fleet.nodes(said.decode("utf-8", "replace"), word)

    def node(self, name: str) -> Node:
        """As the port says."""
        (wanted,) = ids.node_names([name])
        said = self._asked_unless(["scontrol", "--oneliner", "show", "node", wanted], answers.UNKNOWN_NODE)
        if said is None:
            raise NotFound(f"{self.cluster} has no node {wanted}; `sinfo -N` shows what there is")
        return fleet.node(wanted, said.decode("utf-8", "replace"))

    def ranks(self, job: Job) -> tuple[Rank, ...]:
        """None: Slurm knows no ranks."""
        return ()

    def script(self, job_id: str) -> bytes:
        """As the port says. Slurm shows it to its owner and to operators, as long as it knows the job."""
        try:
            said = self._asked(["scontrol", "write", "batch_script", ids.job_id(job_id), "-"])
        except (Misconfigured, NoSuchJob, Refused, Unreadable):
            return b""
        return said if said.startswith(b"#!") and len(said) <= LONGEST_SCRIPT else b""

    def habits(self) -> Habits:
        """As the port says."""
        return site.habits(self._asked(["scontrol", "show", "config"]).decode("utf-8", "replace"))

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

    def permit_requeue(self, job_id: str) -> None:
        """As the port says."""
        job = self._one(job_id)
        self._effect(["scontrol", "update", f"jobid={job.job_id}", "Requeue=1"])

    def cancel(self, job_id: str) -> None:
        """As the port says."""
        job = self._one(job_id)
        self._effect(["scancel", "--verbose", job.job_id], done_already=answers.ENDED, failed=answers.NOT_CANCELLED)

    def annotate(self, job_id: str, comment: str, *, instead_of: str) -> None:
        """As the port says."""
        job = self._one(job_id)
        if job.comment != instead_of:
            raise Refused(f"the comment of job {job.job_id} was changed meanwhile; read it again")
        self._effect(["scontrol", "update", f"jobid={job.job_id}", f"Comment={ids.comment(comment)}"])

    def drain(self, node: str, reason: str) -> None:
        """As the port says."""
        foreign = drains.taken(self.node(node))
        if foreign:
            raise Refused(foreign)
        self._on_node(node, "state=drain", f"reason={ids.reason(reason)}")

    def resume(self, node: str, *, drained: Node | None = None) -> None:
        """As the port says."""
        now = self.node(node)
        if now.state is not NodeState.DRAINED:
            return
        foreign = drained and drains.touched(now, drained)
        if foreign:
            raise Refused(foreign)
        self._on_node(node, "state=resume")

    def cannot_drain(self) -> str:
        """As the port says. Slurm judges the right before the name, so that asking for a node that isn't there tells it."""
        if self._no_drains is None:
            try:
                self._on_node(NO_SUCH_NODE, "state=resume")
            except Misconfigured as error:
                self._no_drains = str(error)
            except RerailError as error:
                if answers.NO_NODE not in str(error):
                    return ""
                self._no_drains = ""
        return self._no_drains or ""

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

    def _on_node(self, node: str, *words: str) -> None:
        """Change one node. Slurm lets only an administrator."""
        (name,) = ids.node_names([node])
        try:
            self._effect(["scontrol", "update", f"nodename={name}", *words], done_already=answers.NOT_DRAINED)
        except Misconfigured as error:
            if answers.NO_RIGHT not in str(error):
                raise
            raise Misconfigured(
                "rerail's user may not drain or resume nodes: that takes Slurm's AdminLevel=Administrator, or SlurmUser"
            ) from error

    def _jobs(self, *words: str) -> dict[int, Job]:
        """By Slurm's own number: all, or those that `words` choose."""
        if self._prints_table:
            word = table.new_word()
            said = self._asked_unless([*LISTED, "--noheader", *words, f"--Format={table.asked(word)}"], table.UNKNOWN_FIELD)
            if said is not None:
                return hetjobs.led(self._read_rows(table.rows(said, word), keep=not words))
            self._prints_table = False
        return hetjobs.led(reading.jobs(self._asked([*LISTED, *words, "--json"]), self.cluster, self._job_age()))

    def _read_rows(self, rows: dict[int, table.Row], *, keep: bool) -> dict[int, Job]:
        age = self._job_age()
        known, seen = self._seen, {}
        for number, row in rows.items():
            before = known.get(number)
            same = before is not None and before[0] == row
            seen[number] = before if before and same else (row, reading.job(number, table.entry(row), self.cluster, age))
        if keep:
            self._seen = seen
        return {number: job for number, (_, job) in seen.items()}

    def _full(self, number: int, job: Job) -> Job:
        """With what only other commands tell: the excluded nodes, and how the last run ended."""
        kept = not NO_ACCOUNTING.search(self._configuration() or "")
        word = self._accounting.word(job, number, kept=kept)
        return job.model_copy(
            update={
                "cancelled_by": word.cancelled_by or job.cancelled_by,
                "failed_node": word.failed_node or job.failed_node,
                "excluded_nodes": self._excluded(number, job) if self._prints_table else job.excluded_nodes,
            }
        )

    def _excluded(self, number: int, job: Job) -> tuple[str, ...]:
        word = table.new_word()
        said = self._asked([*LISTED, "--noheader", f"--jobs={job.job_id}", f"--format=%A{word}%x{word}"])
        fields = [field.removeprefix("\n") for field in said.decode("utf-8", "replace").split(word)]
        found = dict(zip(fields[:-1:2], fields[1::2], strict=False))
        if str(number) not in found:
            raise Changed(f"job {job.job_id} changed while it was read; it will be read again")
        return shapes.nodes(found[str(number)])

    def _job_age(self) -> int | None:
        """Seconds for which Slurm keeps an ended job; None while that isn't known."""
        found = MIN_JOB_AGE.search(self._configuration() or "")
        return (int(found[1]) if found else 0) or None

    def _configuration(self) -> str | None:
        """`scontrol show config`, asked now and then; None while it could never be had."""
        if time.monotonic() - self._config_at < CONFIG_FRESH_S:
            return self._config
        try:
            asked_at = self._clock()
            found = self._asked(["scontrol", "show", "config"]).decode("utf-8", "replace")
        except Transient:
            return self._config
        if MIN_JOB_AGE.findall(found) != MIN_JOB_AGE.findall(self._config or ""):
            self._seen = {}  # what was read by the old one
        self._config, self._config_at = found, time.monotonic()
        self._ahead = apart(CONFIG_AT.search(found), asked_at)
        return self._config

    def _asked(self, argv: list[str]) -> bytes:
        """What a command that only reads prints; Unreadable when it can't be had."""
        said = self._asked_unless(argv, "")
        assert said is not None
        return said

    def _asked_unless(self, argv: list[str], unless: str) -> bytes | None:
        """The same; None when the command complains with the words `unless`."""
        try:
            ran = self._runner.run(argv, self._read_deadline_s)
        except Transient as error:
            raise Unreadable(f"{self.cluster} could not be read: {error}") from error
        if ran.rc == 0:
            return ran.stdout
        if unless and unless in _said(ran):
            return None
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


def apart(told: re.Match[str] | None, asked_at: datetime) -> timedelta:
    """How far the clock that told is ahead of the one that asked; nothing when they agree, or it told nothing."""
    if told is None:
        return timedelta(0)
    ahead = datetime.fromtimestamp(int(told[1]), UTC) - asked_at
    return ahead if abs(ahead) > timedelta(seconds=APART_S) else timedelta(0)


def chosen(jobs: Mapping[int, Job], wanted: str) -> int | None:
    """Slurm's own number of the job that goes by this name."""
    for number, job in jobs.items():
        if job.job_id == wanted:
            return number
    return int(wanted) if wanted.isdigit() and int(wanted) in jobs else None


def _said(ran: Ran) -> str:
    """What a command complained about; scontrol complains on standard error, some of its verbs on standard output."""
    return (ran.stderr or ran.stdout).decode("utf-8", "replace").strip()
