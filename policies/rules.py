"""The ordered rules from verdict to plan. The first one that applies decides; the audit trail keeps its name."""

from collections.abc import Callable
from dataclasses import dataclass, field

from policies.circumstances import Circumstances
from policies.facts import moved
from policies.limits import NODES_PER_INCIDENT, RESTART_WINDOW, RESTARTS_PER_WINDOW, SAME_STEP_FAILURES
from rerail.records import Advice, FaultClass, JobState, Kind, Step, StepKind, Verdict


@dataclass(frozen=True)
class Proposal:
    """What a rule says: steps, or a refusal, each with reasons for a person."""

    steps: tuple[Step, ...] = ()
    reasons: tuple[str, ...] = ()
    refusal: str = ""


@dataclass(frozen=True)
class Rule:
    """A named rule: None means that it does not apply."""

    name: str
    why: str
    propose: Callable[[Verdict, Circumstances], Proposal | None] = field(repr=False)


def nothing_wrong(verdict: Verdict, around: Circumstances) -> Proposal | None:
    if verdict.kind is not Kind.NONE and verdict.advice is not Advice.NO_ACTION:
        return None
    return Proposal(
        steps=(Step(kind=StepKind.NOTHING, why=verdict.why or "nothing is wrong"),), reasons=("no recovery is needed",)
    )


def ended_by_will(verdict: Verdict, around: Circumstances) -> Proposal | None:
    willed = {
        JobState.CANCELLED: "the job was cancelled",
        JobState.PREEMPTED: "the job was preempted; the scheduler brings it back",
        JobState.COMPLETED: "the job has completed",
    }
    why = willed.get(around.facts.job.state)
    return (why and Proposal(steps=(Step(kind=StepKind.NOTHING, why=why),), reasons=(why,))) or None


def gone_on(verdict: Verdict, around: Circumstances) -> Proposal | None:
    why = moved(around.facts.job, around.anomaly.attempt)
    return (why and Proposal(steps=(Step(kind=StepKind.NOTHING, why=why),), reasons=(why,))) or None


def report_straggler(verdict: Verdict, around: Circumstances) -> Proposal | None:
    if verdict.kind is not Kind.STRAGGLER or verdict.culprit_nodes:
        return None
    why = "a slow job without evidence from a node itself is reported, never acted on: 0.7 % of jobs have a slow node"
    return Proposal(steps=(Step(kind=StepKind.TELL, why=why),), reasons=(why,))


def would_fail_again(verdict: Verdict, around: Circumstances) -> Proposal | None:
    if verdict.advice is not Advice.STOP:
        return None
    why = "it would fail again until somebody changes something"
    return Proposal(steps=(Step(kind=StepKind.STOP, why=why),), reasons=(why, verdict.why))


def same_failure_again(verdict: Verdict, around: Circumstances) -> Proposal | None:
    step = around.anomaly.last_step
    same = [r for r in around.history if r.restarted and step is not None and r.step == step and r.cause == verdict.cause]
    if verdict.fault is FaultClass.HARDWARE or len(same) + 1 < SAME_STEP_FAILURES:
        return None
    why = f"the same failure ({verdict.cause}) at the same step {step} after a restart convicts the job, not the nodes"
    return Proposal(steps=(Step(kind=StepKind.STOP, why=why),), reasons=(why,))


def cannot_requeue(verdict: Verdict, around: Circumstances) -> Proposal | None:
    job = around.facts.job
    refusals = (
        (
            not job.batch,
            "the job is no batch job (salloc or srun): the scheduler can't requeue it; its owner has to start it again",
        ),
        (not job.requeue, "its owner asked for no requeue; lift that with the scheduler's own command, or submit it again"),
        (
            job.requeue_until is not None and job.requeue_until <= around.now,
            "the time in which the scheduler can requeue it is over; submit it again",
        ),
    )
    return next((Proposal(refusal=text, reasons=(verdict.why,)) for refused, text in refusals if refused), None)


def restarted_too_often(verdict: Verdict, around: Circumstances) -> Proposal | None:
    recent = [r for r in around.history if r.restarted and around.now - r.at <= RESTART_WINDOW]
    if len(recent) < RESTARTS_PER_WINDOW:
        return None
    text = f"it was restarted {len(recent)} times within an hour; a person has to look before it is restarted again"
    return Proposal(refusal=text, reasons=(verdict.why,))


def too_many_suspects(verdict: Verdict, around: Circumstances) -> Proposal | None:
    if len(verdict.culprit_nodes) <= NODES_PER_INCIDENT:
        return None
    text = f"{len(verdict.culprit_nodes)} suspects: more than {NODES_PER_INCIDENT} at once is a shared cause and isolates nobody"
    return Proposal(refusal=text, reasons=(verdict.why,))


def restart_elsewhere(verdict: Verdict, around: Circumstances) -> Proposal | None:
    if verdict.advice is not Advice.RESTART_EXCLUDING_NODES or not verdict.culprit_nodes:
        return None
    nodes, facts = verdict.culprit_nodes, around.facts
    left = len(set(facts.eligible_nodes) - set(nodes))
    if left < facts.job.nodes_needed:
        text = f"without {', '.join(nodes)} only {left} nodes remain of {facts.job.nodes_needed} needed: it would never start"
        return Proposal(refusal=text, reasons=(verdict.why,))
    exclude = Step(kind=StepKind.EXCLUDE, nodes=nodes, why=f"evidence against {', '.join(nodes)}: {verdict.cause}")
    return Proposal(
        steps=(exclude, Step(kind=StepKind.RESTART, why="from its checkpoint, on other nodes")), reasons=(verdict.why,)
    )


def restart_in_place(verdict: Verdict, around: Circumstances) -> Proposal | None:
    why = "no evidence against a node: nobody is excluded"
    return Proposal(steps=(Step(kind=StepKind.RESTART, why="from its checkpoint"),), reasons=(why, verdict.why))


RULES: tuple[Rule, ...] = (
    Rule("nothing-wrong", "where no recovery is needed, nothing is done", nothing_wrong),
    Rule("ended-by-will", "what a person or the scheduler ended is no failure", ended_by_will),
    Rule("gone-on", "a job that was started again meanwhile is not the attempt that failed", gone_on),
    Rule("report-straggler", "a straggler is reported", report_straggler),
    Rule("would-fail-again", "what would fail again is stopped", would_fail_again),
    Rule("same-failure-again", "the same failure at the same step convicts the job", same_failure_again),
    Rule("cannot-requeue", "what the scheduler can't requeue is told", cannot_requeue),
    Rule("restarted-too-often", "three restarts an hour, then a person", restarted_too_often),
    Rule("too-many-suspects", "many suspects are never isolated", too_many_suspects),
    Rule("restart-elsewhere", "a node with evidence against it is excluded", restart_elsewhere),
    Rule("restart", "the rest is restarted", restart_in_place),
)
