"""Who sent an attempt back to the queue: failure, preemption, maintenance and a person's requeue look alike in the queue."""

import re

from rerail.records import Attempt, Job, JobState, Node, NodeState, Record, Requeuer

TAIL = 1 << 16
"""Bytes of a log's end in which the scheduler's last words stand."""


class Said(Record):
    """Slurm's last words in a job's log, and who they stand for."""

    pattern: str
    by: Requeuer
    example: str


LAST_WORDS: tuple[Said, ...] = (
    Said(
        pattern=r"DUE TO PREEMPTION",
        by=Requeuer.PREEMPTION,
        example="slurmstepd: error: *** JOB 7 ON node1 CANCELLED AT 2026-12-01T06:00:00 DUE TO PREEMPTION ***",
    ),
    Said(
        pattern=r"DUE TO NODE FAILURE|srun: error: Node failure on ",
        by=Requeuer.NODE_FAILURE,
        example="slurmstepd: error: *** JOB 7 ON node1 CANCELLED AT 2026-12-01T06:00:00 DUE TO NODE FAILURE, SEE SLURMCTLD LOG",
    ),
    Said(
        pattern=r"DUE TO JOB REQUEUE",
        by=Requeuer.SOMEBODY,
        example="slurmstepd: error: *** JOB 7 ON node1 CANCELLED AT 2026-12-01T06:00:00 DUE TO JOB REQUEUE ***",
    ),
)

MAINTAINED = re.compile(r"maint|reboot", re.IGNORECASE)

BY: dict[Requeuer, str] = {
    Requeuer.NODE_FAILURE: "the scheduler requeued it by itself after a node had failed",
    Requeuer.PREEMPTION: "it was preempted, and the scheduler requeued it by itself",
    Requeuer.MAINTENANCE: "a node of it is in maintenance, and the scheduler requeued it by itself",
    Requeuer.SOMEBODY: "somebody else requeued it",
}

TOO_LATE = "the time in which the scheduler can requeue it is over; its owner can submit it again with the command below"


def requeued_by(job: Job, attempt: Attempt, ran_on: tuple[str, ...], nodes: tuple[Node, ...], log_tail: str) -> Requeuer | None:
    """Who requeued the attempt, from its log's last words and from its nodes; None while it was not requeued."""
    if job.restarts <= attempt.restarts:
        return None
    mine = [node for node in nodes if node.name in set(ran_on)]
    if any(node.state is not NodeState.UP and MAINTAINED.search(node.reason) for node in mine):
        return Requeuer.MAINTENANCE
    said = last_words(log_tail)
    if said is None and any(node.state is NodeState.DOWN for node in mine):
        return Requeuer.NODE_FAILURE  # a batch host that lost its power leaves no last words
    return said or Requeuer.SOMEBODY


def last_words(log_tail: str) -> Requeuer | None:
    """Who the last of Slurm's words in a log stand for."""
    found = [(match.start(), said.by) for said in LAST_WORDS for match in re.finditer(said.pattern, log_tail)]
    return max(found)[1] if found else None


def comes_back(job: Job, attempt: Attempt) -> bool:
    """True when the job is the one attempt after this one: waiting, or running already."""
    return job.restarts == attempt.restarts + 1 and job.state in (JobState.PENDING, JobState.RUNNING)
