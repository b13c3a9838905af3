"""The port: jobs, nodes and ranks of a local cluster, read and changed through its record."""

import getpass
import os
import re
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from adapters.schedulers.local import bell, processes, rules
from adapters.schedulers.local.attempt import Attempt, attempt_folder
from adapters.schedulers.local.book import Book, Entry, Place, prepare, reading, writing
from adapters.schedulers.local.settings import Settings
from rerail import drains
from rerail.errors import Misconfigured, Refused, Transient
from rerail.ports import ALL_RIGHTS, Right
from rerail.records import Habits, Job, JobState, Node, NodeState, Rank, Reading

PARTITION = "local"
SHOWN_S = 300.0
"""An ended job stays in the cluster-wide read at least that long, however short the requeue window is."""
INHERITED = re.compile(
    "PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|LC_[A-Z]+|TZ|TMPDIR|VIRTUAL_ENV|PYTHONPATH|LD_LIBRARY_PATH|OMP_NUM_THREADS"
)
"""What a job gets of its submitter's environment; anything else is named at submit, so that no secret slips into a record."""


class LocalScheduler:
    """`rerail.ports.Scheduler` for a cluster folder made by `create`. Calls are safe from any thread and process."""

    def __init__(self, cluster: str, folder: Path) -> None:
        self.cluster = cluster
        self.folder = Path(folder).absolute()

    @classmethod
    def create(
        cls, folder: Path, cluster: str, nodes: Sequence[str], *, slots: int = 1, settings: Settings | None = None
    ) -> "LocalScheduler":
        """Set up a cluster folder, or add nodes to the one that is there. `slots` is how many ranks fit on a node."""
        rules.check_text("the cluster's name", cluster)
        rules.check_node_names([*nodes, cluster])
        if not nodes or slots < 1:
            raise Refused("a local cluster has at least one node with at least one slot")
        try:
            Path(folder).mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise Misconfigured(f"the folder {folder} could not be made: {error.strerror}") from error
        prepare(Path(folder))
        with writing(Path(folder)) as book:
            _found(book, cluster, settings)
            for node in nodes:
                book.add_place(node, slots)
        made = cls(cluster, folder)
        for node in nodes:
            made.kernel_log(node).parent.mkdir(parents=True, exist_ok=True)
        return made

    @classmethod
    def at(cls, folder: Path) -> "LocalScheduler":
        """The cluster of a folder, whatever its name."""
        with reading(Path(folder)) as book:
            return cls(book.cluster()[0], folder)

    # Reading

    def rights(self) -> frozenset[Right]:
        """All: the folder's owner does everything."""
        return ALL_RIGHTS

    def read(self) -> Reading:
        """All jobs that are not over, and those that ended recently."""
        now = time.time()
        with reading(self.folder) as book:
            settings = self._settings(book)
            entries = book.recent(now - max(settings.requeue_window_s, SHOWN_S))
        self._watch(entries)
        return Reading(cluster=self.cluster, read_at=_utc(now), jobs=tuple(self._job(e, settings) for e in entries))

    def job(self, job_id: str) -> Job:
        """One job, however long ago it ended."""
        number = rules.job_number(job_id)
        with reading(self.folder) as book:
            settings, entry = self._settings(book), book.entry(number)
        self._watch([entry])
        return self._job(entry, settings)

    def nodes(self) -> tuple[Node, ...]:
        """All nodes, busy while a rank of any attempt may still run there."""
        with reading(self.folder) as book:
            self._settings(book)
            entries, places = book.active(), book.places()
        self._watch(entries)
        busy = {node for entry in entries if entry.live is not None for node in entry.nodes}
        return tuple(_node(place, busy) for place in places)

    def node(self, name: str) -> Node:
        """One node."""
        with reading(self.folder) as book:
            self._settings(book)
            entries, places = book.active(), book.places()
        rules.check_node_names([name], [p.name for p in places])
        busy = {node for entry in entries if entry.live is not None for node in entry.nodes}
        return next(_node(place, busy) for place in places if place.name == name)

    def ranks(self, job: Job) -> tuple[Rank, ...]:
        """The processes of the attempt that `job` shows (while it is completing, of the one that is being ended)."""
        restarts = job.restarts - (1 if job.state is JobState.PENDING and job.completing else 0)
        attempt = Attempt(attempt_folder(self.folder, rules.job_number(job.job_id), restarts))
        spec = attempt.spec()
        if not spec:
            return ()
        return tuple(
            Rank(
                rank=sight.rank,
                node=sight.node,
                pid=sight.pid,
                state="" if sight.ended_at else processes.state(sight.pid, sight.start),
                exit_code=sight.exit_code,
                exit_signal=sight.exit_signal,
                ended_at=_utc(sight.ended_at),
            )
            for sight in attempt.see(spec)
        )

    def kernel_log(self, node: str) -> Path:
        """Where the node's kernel log lies."""
        rules.check_node_names([node])
        return self.folder / "nodes" / node / "kernel.log"

    # Changing

    def submit(
        self,
        argv: Sequence[str],
        *,
        nodes: int = 1,
        ranks_per_node: int = 1,
        name: str = "",
        folder: str | Path = ".",
        output: str | Path = "local-%j.log",
        requeue: bool = True,
        append: bool = False,
        exclude: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        comment: str = "",
    ) -> str:
        """Queue a command line; returns the job id. `%j` in `output` (relative to `folder`) becomes the job id."""
        where = Path(folder).absolute()
        log = where / output
        rules.check_command(argv)
        name = name or Path(argv[0]).name[: rules.MAX_TEXT]
        for what, text in (("the name", name), ("the output", str(output))):
            rules.check_text(what, text)
        rules.check_comment(comment)
        _check_places(where, log)
        with writing(self.folder) as book:
            self._settings(book)
            places = book.places()
            rules.check_node_names(exclude, [p.name for p in places])
            rules.check_size(nodes, ranks_per_node, places)
            number = book.add(
                name=name,
                user=_user(),
                argv=list(argv),
                env=_environment(env or {}),
                folder=str(where),
                output=str(log),
                append=append,
                nodes_needed=nodes,
                ranks_per_node=ranks_per_node,
                requeue=requeue,
                excluded=list(dict.fromkeys(exclude)),
                comment=comment,
                state=JobState.PENDING,
                submitted_at=int(time.time()),
            )
            book.change(number, output=str(log).replace("%j", str(number)))
        bell.ring(self.folder)
        return str(number)

    def script(self, job_id: str) -> bytes:
        """None: a job is a command line here."""
        return b""

    def habits(self) -> Habits:
        """None: this scheduler restarts nothing by itself."""
        return Habits()

    def permit_requeue(self, job_id: str) -> None:
        """Nothing to lift: every job may be requeued."""

    def requeue(self, job_id: str, *, running: bool) -> None:
        """Back to the queue, same id; starts by itself after the delay. See the port for `running`."""
        number, now = rules.job_number(job_id), time.time()
        with writing(self.folder) as book:
            settings, entry = self._settings(book), book.entry(number)
            if running and entry.state.ended:
                return
            refusal = rules.requeue_refusal(entry, running=running, now=now, settings=settings)
            if refusal:
                raise Refused(refusal)
            book.change(
                number,
                state=JobState.PENDING,
                reason="BeginTime",
                restarts=entry.restarts + 1,
                submitted_at=int(now),
                begins_at=now + settings.requeue_delay_s,
                started_at=None,
                ended_at=None,
                exit_code=None,
                exit_signal=None,
                **({"nodes": ()} if entry.live is None else {}),
            )
        bell.ring(self.folder)

    def exclude(self, job_id: str, nodes: Sequence[str]) -> None:
        """Replace the job's list of nodes it must not get; only before it runs (again)."""
        number = rules.job_number(job_id)
        with writing(self.folder) as book:
            self._settings(book)
            entry = book.entry(number)
            rules.check_node_names(nodes, [p.name for p in book.places()])
            if entry.state is not JobState.PENDING and not entry.completing:
                raise Refused(f"job {number} is {entry.state.value}: excluded nodes can be changed only while it is pending")
            book.change(number, excluded=list(dict.fromkeys(nodes)))
        bell.ring(self.folder)

    def start_now(self, job_id: str) -> None:
        """Let a pending job start as soon as its nodes are free."""
        number = rules.job_number(job_id)
        with writing(self.folder) as book:
            self._settings(book)
            entry = book.entry(number)
            if entry.state is not JobState.PENDING:
                raise Refused(f"job {number} is {entry.state.value}, not pending: there is no begin time to take away")
            book.change(number, begins_at=None)
        bell.ring(self.folder)

    def cancel(self, job_id: str) -> None:
        """End the job for good; a job that is over stays as it ended."""
        number = rules.job_number(job_id)
        with writing(self.folder) as book:
            self._settings(book)
            entry = book.entry(number)
            if entry.state.ended:
                return
            book.change(number, state=JobState.CANCELLED, reason="", cancelled_by=_user(), ended_at=time.time(), begins_at=None)
        bell.ring(self.folder)

    def annotate(self, job_id: str, comment: str, *, instead_of: str) -> None:
        """Write the comment of a job that is not over."""
        number = rules.job_number(job_id)
        rules.check_comment(comment)
        with writing(self.folder) as book:
            self._settings(book)
            entry = book.entry(number)
            if entry.state.ended:
                raise Refused(f"job {number} is over: its comment stays")
            if entry.comment != instead_of:
                raise Refused(f"the comment of job {number} was changed meanwhile: read it again")
            book.change(number, comment=comment)

    def drain(self, node: str, reason: str) -> None:
        """No new work lands there; what runs there runs on."""
        rules.check_reason(reason)
        with self._place(node) as (book, place):
            foreign = drains.taken(_node(place, set()))
            if foreign and place.reason != reason:
                raise Refused(foreign)
            book.mark_place(node, drained=True, reason=reason, by=_user(), at=time.time())
        bell.ring(self.folder)

    def resume(self, node: str, *, drained: Node | None = None) -> None:
        """Work may land there again."""
        with self._place(node) as (book, place):
            foreign = drained and place.drained and drains.touched(_node(place, set()), drained)
            if foreign:
                raise Refused(foreign)
            book.mark_place(node, drained=False, reason="", by="", at=None)
        bell.ring(self.folder)

    def cannot_drain(self) -> str:
        """Whoever may write the record may."""
        return ""

    def stop_daemon(self) -> None:
        """End the daemon. Ranks run on, and any later call that finds work starts a new one."""
        bell.stop(self.folder)

    def shut_down(self, timeout_s: float = 30.0) -> None:
        """Cancel every job, wait until no process of any is left, end the daemon. Raises Transient when that takes too long."""
        deadline = time.monotonic() + timeout_s
        for job in self.read().jobs:
            self.cancel(job.job_id)
        while any(job.completing or not job.state.ended for job in self.read().jobs):
            if time.monotonic() > deadline:
                raise Transient(f"some processes of the local cluster did not end within {timeout_s:g} s")
            time.sleep(0.02)
        self.stop_daemon()

    @contextmanager
    def _place(self, node: str) -> Iterator[tuple[Book, Place]]:
        """A node's row, looked at and changed in one go."""
        with writing(self.folder) as book:
            self._settings(book)
            places = {place.name: place for place in book.places()}
            rules.check_node_names([node], places)
            yield book, places[node]

    def _settings(self, book: Book) -> Settings:
        """The numbers; Misconfigured when the folder belongs to another cluster."""
        name, settings = book.cluster()
        if name != self.cluster:
            raise Misconfigured(f"the folder {self.folder} belongs to the local cluster {name}, not to {self.cluster}")
        return settings

    def _watch(self, entries: Sequence[Entry]) -> None:
        """While there is work there is a daemon, and one that moves."""
        if any(entry.active for entry in entries):
            bell.ring(self.folder)
            bell.check(self.folder)

    def _job(self, entry: Entry, settings: Settings) -> Job:
        ended = entry.ended_at
        return Job(
            cluster=self.cluster,
            job_id=str(entry.id),
            name=entry.name,
            user=entry.user,
            partition=PARTITION,
            state=entry.state,
            flags=("completing",) if entry.completing else (),
            reason=entry.reason,
            exit_code=entry.exit_code,
            exit_signal=entry.exit_signal,
            nodes=entry.nodes,
            nodes_needed=entry.nodes_needed,
            restarts=entry.restarts,
            requeue=entry.requeue,
            excluded_nodes=entry.excluded,
            submitted_at=_utc(entry.submitted_at),
            started_at=_utc(entry.started_at),
            ended_at=_utc(ended),
            begins_at=_utc(entry.begins_at),
            requeue_until=_utc(ended + settings.requeue_window_s) if ended else None,
            output=entry.output,
            folder=entry.folder,
            comment=entry.comment,
            cancelled_by=entry.cancelled_by,
        )


def _found(book: Book, cluster: str, settings: Settings | None) -> None:
    try:
        there, _ = book.cluster()
    except Misconfigured:
        book.found(cluster, settings or Settings())
        return
    if there != cluster:
        raise Refused(f"the folder holds the local cluster {there} already: choose another folder for {cluster}")


def _node(place: Place, busy: set[str]) -> Node:
    return Node(
        name=place.name,
        state=NodeState.DRAINED if place.drained else NodeState.UP,
        partitions=(PARTITION,),
        reason=place.reason,
        reason_by=place.reason_by,
        reason_at=_utc(place.reason_at),
        busy=place.name in busy,
    )


def _check_places(folder: Path, log: Path) -> None:
    """Refused now, in a sentence, rather than in a log that nobody can write."""
    if not folder.is_dir():
        raise Refused(f"the job's folder {folder} does not exist")
    if not log.parent.is_dir() or not os.access(log.parent, os.W_OK | os.X_OK):
        raise Refused(f"no log can be written in {log.parent}: the folder is missing or not writable")
    if log.exists() and not stat.S_ISREG(log.stat().st_mode) and str(log) != os.devnull:
        raise Refused(f"the output {log} is no ordinary file")


def _environment(chosen: Mapping[str, str]) -> dict[str, str]:
    inherited = {k: v for k, v in os.environ.items() if INHERITED.fullmatch(k)}
    for key, value in chosen.items():
        if not key or "=" in key or "\0" in key + value:
            raise Refused(f"{rules.quoted(key)} can't be set in an environment")
    return {**inherited, **chosen}


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _utc(moment: float | None) -> datetime | None:
    return None if moment is None else datetime.fromtimestamp(moment, UTC)
