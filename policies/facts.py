"""Whether a plan's facts still hold, right before acting."""

from datetime import datetime

from policies import dependants, requeues
from policies.wishes import wishes
from rerail.records import Attempt, Facts, Job, JobState, Node, NodeState, Plan, Requeuer, StepKind


def gather(job: Job, nodes: tuple[Node, ...], now: datetime) -> Facts:
    """What a plan relies on: the job, and the nodes that may take it."""
    eligible = tuple(n.name for n in nodes if takes(n, job))
    return Facts(job=job, read_at=now, eligible_nodes=eligible)


def takes(node: Node, job: Job) -> bool:
    """True when new work of that job can land on the node."""
    inside = not job.partition or not node.partitions or job.partition in node.partitions
    return node.state is NodeState.UP and inside and node.name not in job.excluded_nodes


def moved(job: Job, attempt: Attempt) -> str:
    """A sentence when the job is no longer the attempt that failed, else empty."""
    if job.restarts != attempt.restarts:
        return f"the job was restarted by somebody else (restart count {job.restarts}, was {attempt.restarts})"
    if attempt.started_at and job.started_at and job.started_at != attempt.started_at:
        return "the job was started again by somebody else"
    ends = {
        JobState.CANCELLED: "the job was cancelled meanwhile",
        JobState.COMPLETED: "the job has completed meanwhile",
        JobState.PREEMPTED: "the job was preempted meanwhile",
        JobState.PENDING: "the job is back in the queue",
    }
    return ends.get(job.state, "")


def gone_on(plan: Plan, attempt: Attempt, facts: Facts) -> str:
    """A sentence when the job is not where the plan left it."""
    if not plan.has(StepKind.WATCH):
        by = facts.requeued_by
        return (by and by is not Requeuer.SOMEBODY and requeues.BY[by]) or moved(facts.job, attempt)
    if facts.job.restarts != attempt.restarts + 1:
        return moved(facts.job, attempt) or "the scheduler did not restart the job"
    return ""


def taken_over(attempt: Attempt, facts: Facts) -> str:
    """Who restarts this job from now on, when somebody restarted it while a proposal of ours waited; else empty."""
    restarted = facts.job.restarts > attempt.restarts and facts.requeued_by in (None, Requeuer.SOMEBODY)
    return "somebody else who requeues it, by hand or by a rule" if restarted else ""


def why_void(plan: Plan, attempt: Attempt, facts: Facts) -> str:
    """A sentence when a plan made for earlier facts must not be carried out on these, else empty."""
    gone = gone_on(plan, attempt, facts)
    if gone:
        return gone
    left_alone = wishes(facts.job.comment).hands_off
    if left_alone:
        return left_alone
    if plan.has(StepKind.RESTART) and facts.job.requeue_until is not None and facts.job.requeue_until <= facts.read_at:
        return requeues.TOO_LATE
    beside = dependants.hindrance(facts.job, facts.dependants) if plan.has(StepKind.RESTART) else ""
    if beside:
        return beside
    left = len(set(facts.eligible_nodes) - set(plan.excluded))
    if plan.excluded and left < facts.job.nodes_needed:
        return f"only {left} nodes remain for a job that needs {facts.job.nodes_needed}: it would never start"
    return ""
