"""What the activities need of the world, in our own words. Adapters implement these; nothing else crosses.

All methods are synchronous and bounded in time; activities run them on threads. They raise Transient or Permanent of
`rerail.errors`, nothing foreign.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol, runtime_checkable

from rerail.records import AuditRow, Habits, Job, Node, Notice, Rank, Reading


class Right(StrEnum):
    """What rerail is set up to do on a cluster. The scheduler may still refuse: it is the one that grants."""

    READ = "read"
    OPERATE = "operate"
    """Requeue, hold, exclude, release and cancel jobs of others."""
    ADMINISTER = "administer"
    """Drain and resume nodes."""


ALL_RIGHTS = frozenset(Right)


@runtime_checkable
class Scheduler(Protocol):
    """One cluster's scheduler. Effects return nothing: whether they took is told by a fresh read, never by an exit code."""

    cluster: str

    def rights(self) -> frozenset[Right]:
        """What can be tried at all. An effect without its right raises Misconfigured; a plan says beforehand what it can't do."""
        ...

    def read(self) -> Reading:
        """One cheap read of all jobs it still knows, with the recently ended. Unreadable raises; it never reads as empty."""
        ...

    def job(self, job_id: str) -> Job:
        """A fresh, full read of one job; NoSuchJob when the scheduler does not know it."""
        ...

    def nodes(self) -> tuple[Node, ...]:
        """All nodes."""
        ...

    def node(self, name: str) -> Node:
        """A fresh, full read of one node: who wrote its reason, and when. `drained` is its state however else it fares.
        Permanent when there is no such node."""
        ...

    def ranks(self, job: Job) -> tuple[Rank, ...]:
        """The processes of the job, where the scheduler can tell; else empty."""
        ...

    def script(self, job_id: str) -> bytes:
        """The job's batch script, as submitted; empty where the scheduler keeps none or shows it to nobody of our rights."""
        ...

    def habits(self) -> Habits:
        """What the scheduler does by itself when a job ends."""
        ...

    def requeue(self, job_id: str, *, running: bool) -> None:
        """Send the job back to the queue, same id, waiting by a begin time and never by a hold.

        `running` tells which job is meant: one believed to run (a job that ended meanwhile must not run again) or one that ended.
        """
        ...

    def exclude(self, job_id: str, nodes: Sequence[str]) -> None:
        """Replace the list of nodes that a pending (or completing) job must not get; callers pass it with the user's own."""
        ...

    def start_now(self, job_id: str) -> None:
        """Take away the begin time of a pending job."""
        ...

    def permit_requeue(self, job_id: str) -> None:
        """Lift the owner's wish that the job is not requeued."""
        ...

    def cancel(self, job_id: str) -> None:
        """End the job for good."""
        ...

    def annotate(self, job_id: str, comment: str, *, instead_of: str) -> None:
        """Write the comment of a job that has not ended. Refused where `instead_of` is not what stands there now."""
        ...

    def drain(self, node: str, reason: str) -> None:
        """Let no new work land on the node, for anybody; what runs there runs on. Refused where somebody else's reason stands."""
        ...

    def resume(self, node: str, *, drained: Node | None = None) -> None:
        """Let work land there again. Refused where the node is no longer as `drained` shows it, and is drained still."""
        ...

    def cannot_drain(self) -> str:
        """Why we can't drain or resume nodes here, in a sentence; empty when we can, and where that can't be told."""
        ...


@dataclass(frozen=True)
class Chunk:
    """Bytes of a file from `start` to `end`, with what tells whether the file is still the same one."""

    data: bytes
    start: int
    end: int
    size: int
    """The file's size when it was read."""
    replaced: bool = False
    """True when the file was truncated or replaced since `offset`: reading began again at 0."""


@runtime_checkable
class Logs(Protocol):
    """Log files where they lie."""

    def read(self, path: str, offset: int, limit: int, fingerprint: str = "") -> Chunk:
        """At most `limit` bytes from `offset`. `fingerprint` is what `fingerprint_at` gave for it; a mismatch means the file
        was truncated or replaced, and reading begins again at 0. A file that is not there yet reads as empty with size 0;
        one that can't be read (no rights, stale handle) raises Unreadable."""
        ...

    def fingerprint_at(self, path: str, offset: int) -> str:
        """A short digest of the bytes just before `offset`, to recognise the file again; empty for offset 0."""
        ...


@runtime_checkable
class Folders(Protocol):
    """Logs whose folders can be looked through; not every way to the files can."""

    def find(self, folder: str, pattern: str) -> tuple[str, ...]:
        """Full paths of the files there whose whole name the regular expression matches, in the order of their names; empty where
        there are none, and where the folder can't be read."""
        ...


@runtime_checkable
class Hosts(Protocol):
    """What the nodes themselves say."""

    def kernel_log(self, node: str, since: datetime, limit: int) -> bytes | None:
        """The node's kernel log, its last `limit` bytes at most, lines older than `since` left out where they carry a time;
        None where no kernel log of that node can be had."""
        ...


@runtime_checkable
class Audit(Protocol):
    """The persistent audit trail."""

    def append(self, row: AuditRow) -> bool:
        """Store the row once; False when a row of that key was there already. Durable when it returns."""
        ...

    def rows(self, after: int = 0, limit: int = 1000, incident: str = "", cluster: str = "") -> Iterator[tuple[int, AuditRow]]:
        """Rows in order of their sequence number, each with that number."""
        ...


@runtime_checkable
class Channel(Protocol):
    """A way to tell people."""

    name: str

    def send(self, notice: Notice) -> None:
        """Tell it; Transient when it may work later."""
        ...
