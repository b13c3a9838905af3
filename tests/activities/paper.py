"""A cluster on paper: a scheduler whose jobs are records, and an audit trail in a list. For tests of who calls them, and when."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from rerail.errors import Misconfigured, NoSuchJob, Refused, RerailError
from rerail.ports import ALL_RIGHTS, Right
from rerail.records import AuditRow, Habits, Job, JobState, Node, NodeState, Notice, Rank, Reading

NODES = tuple(f"gpu-{n:02}" for n in range(1, 7))


def failed_job(**more: Any) -> Job:
    """A batch job that died on four nodes."""
    said = {
        "cluster": "alpha",
        "job_id": "41001",
        "name": "train",
        "state": JobState.FAILED,
        "nodes": NODES[:4],
        "nodes_needed": 4,
    }
    return Job(**(said | more))


@dataclass
class PaperScheduler:
    """Each command is kept; `before` may change the world, or raise, at any call."""

    jobs: dict[str, Job]
    cluster: str = "alpha"
    commands: list[tuple[Any, ...]] = field(default_factory=list)
    before: Callable[[str], None] = lambda _: None
    down: set[str] = field(default_factory=set)
    marked: dict[str, Node] = field(default_factory=dict)
    """Nodes with a state and a reason of their own."""
    no_drains: str = ""
    scripts: dict[str, bytes] = field(default_factory=dict)
    ways: Habits = field(default_factory=Habits)
    granted: frozenset[Right] = ALL_RIGHTS

    def rights(self) -> frozenset[Right]:
        return self.granted

    def read(self) -> Reading:
        self.before("read")
        return Reading(cluster=self.cluster, read_at=datetime.now(UTC), jobs=tuple(self.jobs.values()))

    def job(self, job_id: str) -> Job:
        self.before("job")
        if job_id not in self.jobs:
            raise NoSuchJob(f"the scheduler does not know job {job_id}")
        return self.jobs[job_id]

    def nodes(self) -> tuple[Node, ...]:
        self.before("nodes")
        return tuple(self.marked.get(n) or Node(name=n, state=NodeState.DOWN if n in self.down else NodeState.UP) for n in NODES)

    def node(self, name: str) -> Node:
        self.before("node")
        return next(node for node in self.nodes() if node.name == name)

    def ranks(self, job: Job) -> tuple[Rank, ...]:
        return ()

    def script(self, job_id: str) -> bytes:
        self.before("script")
        return self.scripts.get(job_id, b"")

    def habits(self) -> Habits:
        self.before("habits")
        return self.ways

    def permit_requeue(self, job_id: str) -> None:
        self.take("permit_requeue", job_id)
        self.change(job_id, requeue=True)

    def requeue(self, job_id: str, *, running: bool) -> None:
        self.take("requeue", job_id, running)
        job = self.jobs[job_id]
        later = datetime.now(UTC) + timedelta(minutes=5)
        self.change(job_id, state=JobState.PENDING, restarts=job.restarts + 1, nodes=(), begins_at=later, started_at=None)

    def exclude(self, job_id: str, nodes: Sequence[str]) -> None:
        self.take("exclude", job_id, tuple(nodes))
        self.change(job_id, excluded_nodes=tuple(nodes))

    def start_now(self, job_id: str) -> None:
        self.take("start_now", job_id)
        self.change(job_id, state=JobState.RUNNING, begins_at=None, started_at=datetime.now(UTC))

    def cancel(self, job_id: str) -> None:
        self.take("cancel", job_id)
        self.change(job_id, state=JobState.CANCELLED)

    def annotate(self, job_id: str, comment: str, *, instead_of: str) -> None:
        self.take("annotate", job_id, comment)
        if self.jobs[job_id].comment != instead_of:
            raise Refused("the comment was changed meanwhile")
        self.change(job_id, comment=comment)

    def drain(self, node: str, reason: str) -> None:
        self.take("drain", node, reason)
        if self.no_drains:
            raise Misconfigured(self.no_drains)
        more = {"state": NodeState.DRAINED, "reason": reason, "reason_by": "rerail", "reason_at": datetime.now(UTC)}
        self.marked[node] = self.node(node).model_copy(update=more)

    def resume(self, node: str, *, drained: Node | None = None) -> None:
        self.take("resume", node)
        del self.marked[node]

    def cannot_drain(self) -> str:
        return self.no_drains

    def take(self, *command: Any) -> None:
        self.before(command[0])
        self.commands.append(command)

    def change(self, job_id: str, **fields: Any) -> None:
        self.jobs[job_id] = self.jobs[job_id].model_copy(update=fields)


@dataclass
class PaperAudit:
    """Each key once."""

    kept: dict[str, AuditRow] = field(default_factory=dict)

    def append(self, row: AuditRow) -> bool:
        new = row.key not in self.kept
        self.kept.setdefault(row.key, row)
        return new

    def rows(self, after: int = 0, limit: int = 1000, incident: str = "", cluster: str = "") -> Iterator[tuple[int, AuditRow]]:
        yield from list(enumerate(self.kept.values(), 1))[after : after + limit]


@dataclass
class PaperChannel:
    """Takes every notice, unless `fails` says how it doesn't."""

    name: str
    fails: list[RerailError] = field(default_factory=list)
    """One for each of the next tries; after them it works."""
    sent: list[Notice] = field(default_factory=list)

    def send(self, notice: Notice) -> None:
        if self.fails:
            raise self.fails.pop(0)
        self.sent.append(notice)
