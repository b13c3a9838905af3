"""The ordered rules from verdict to plan. The first one that applies decides; the audit trail keeps its name."""

from collections.abc import Callable
from dataclasses import dataclass, field

from policies import dependants, requeues
from policies.circumstances import Circumstances
from policies.draining import drain_step, not_drained
from policies.facts import moved
from policies.limits import NODES_PER_INCIDENT, RESTART_WINDOW, RESTARTS_PER_WINDOW, SAME_STEP_FAILURES
from policies.wishes import wishes
from rerail.records import Advice, FaultClass, JobState, Kind, Requeuer, Step, StepKind, Verdict


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


def left_alone(verdict: Verdict, around: Circumstances) -> Proposal | None:
    why = wishes(around.facts.job.comment).hands_off
    return (why and Proposal(steps=(Step(kind=StepKind.TELL, why=why),), reasons=(why, verdict.why))) or None


def scheduler_restarts(verdict: Verdict, around: Circumstances) -> Proposal | None:
    """What the scheduler requeued after a node's failure is never requeued again: it is watched until it trains."""
    facts, by = around.facts, around.facts.requeued_by
    if by is None or by is Requeuer.SOMEBODY or not requeues.comes_back(facts.job, around.anomaly.attempt):
        return None
    why = requeues.BY[by]
    if by is not Requeuer.NODE_FAILURE:
        return Proposal(steps=(Step(kind=StepKind.NOTHING, why=why),), reasons=(why,))
    watch = Step(kind=StepKind.WATCH, why=f"{why}: it is not requeued again, but watched until it trains")
    nodes = verdict.culprit_nodes if verdict.advice is Advice.RESTART_EXCLUDING_NODES else ()
    can = facts.job.state is JobState.PENDING and 0 < len(nodes) <= NODES_PER_INCIDENT and enough_without(nodes, around)
    exclude = Step(kind=StepKind.EXCLUDE, nodes=nodes, why=f"evidence against {', '.join(nodes)}: {verdict.cause}")
    return Proposal(steps=(*((exclude,) if can else ()), watch), reasons=(why, verdict.why))


def enough_without(nodes: tuple[str, ...], around: Circumstances) -> bool:
    job = around.facts.job
    return not set(nodes) & set(job.required_nodes) and len(set(around.facts.eligible_nodes) - set(nodes)) >= job.nodes_needed


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


def chain_goes_on(verdict: Verdict, around: Circumstances) -> Proposal | None:
    if not wishes(around.facts.job.comment).chain:
        return None
    why = 'the next job of its chain goes on (auto_resume_mode "singleton_dependency"): this one is not sent back to the queue'
    return Proposal(steps=(Step(kind=StepKind.TELL, why=why),), reasons=(why, verdict.why))


def cannot_requeue(verdict: Verdict, around: Circumstances) -> Proposal | None:
    job = around.facts.job
    refusals = (
        (
            not job.batch,
            "the job is no batch job (salloc or srun): the scheduler can't requeue it; its owner has to start it again",
        ),
        (
            not job.requeue and not around.permits.lift_no_requeue,
            "its owner (--no-requeue) or the site (JobRequeue=0) asked for no requeue; "
            f"`scontrol update jobid={job.job_id} Requeue=1` lifts that, then ask again",
        ),
        (
            job.requeue_until is not None and job.requeue_until <= around.now,
            requeues.TOO_LATE,
        ),
    )
    return next((Proposal(refusal=text, reasons=(verdict.why,)) for refused, text in refusals if refused), None)


def would_run_beside(verdict: Verdict, around: Circumstances) -> Proposal | None:
    text = dependants.hindrance(around.facts.job, around.facts.dependants)
    return (text and Proposal(refusal=text, reasons=(verdict.why,))) or None


def restarted_too_often(verdict: Verdict, around: Circumstances) -> Proposal | None:
    recent = [r for r in around.history if r.restarted and around.now - r.at <= RESTART_WINDOW]
    if len(recent) < RESTARTS_PER_WINDOW:
        return None
    text = f"it was restarted {len(recent)} times within an hour; a person has to look before it is restarted again"
    return Proposal(refusal=text, reasons=(verdict.why,))


def wished_fewer_restarts(verdict: Verdict, around: Circumstances) -> Proposal | None:
    most = wishes(around.facts.job.comment).max_restarts
    done = sum(r.restarted for r in around.history)
    if most is None or done < most:
        return None
    text = f"its owner allows {most} restarts in the job's comment, and it was restarted {done} times"
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
    wanted = sorted(set(nodes) & set(facts.job.required_nodes))
    if wanted:
        text = f"its owner asks for {', '.join(wanted)} by name (--nodelist): kept away from there it would never start"
        return Proposal(refusal=text, reasons=(verdict.why,))
    if left < facts.job.nodes_needed:
        text = f"without {', '.join(nodes)} only {left} nodes remain of {facts.job.nodes_needed} needed: it would never start"
        return Proposal(refusal=text, reasons=(verdict.why,))
    exclude = Step(kind=StepKind.EXCLUDE, nodes=nodes, why=f"evidence against {', '.join(nodes)}: {verdict.cause}")
    drain = drain_step(verdict, around)
    restart = Step(kind=StepKind.RESTART, why="from its checkpoint, on other nodes")
    steps = (exclude, restart, drain) if drain else (exclude, restart)
    return Proposal(steps=steps, reasons=(verdict.why, not_drained(verdict, around)))


def restart_in_place(verdict: Verdict, around: Circumstances) -> Proposal | None:
    why = "no evidence against a node: nobody is excluded"
    return Proposal(steps=(Step(kind=StepKind.RESTART, why="from its checkpoint"),), reasons=(why, verdict.why))


RULES: tuple[Rule, ...] = (
    Rule("nothing-wrong", "where no recovery is needed, nothing is done", nothing_wrong),
    Rule("ended-by-will", "what a person or the scheduler ended is no failure", ended_by_will),
    Rule("scheduler-restarts", "what the scheduler requeued by itself is watched, never requeued again", scheduler_restarts),
    Rule("gone-on", "a job that was started again meanwhile is not the attempt that failed", gone_on),
    Rule("left-alone", "what its owner wants left alone is told, and not touched", left_alone),
    Rule("report-straggler", "a straggler is reported", report_straggler),
    Rule("would-fail-again", "what would fail again is stopped", would_fail_again),
    Rule("same-failure-again", "the same failure at the same step convicts the job", same_failure_again),
    Rule("chain-goes-on", "a chain of jobs restarts itself", chain_goes_on),
    Rule("cannot-requeue", "what the scheduler can't requeue is told", cannot_requeue),
    Rule("would-run-beside", "a dependant that starts on a failure and a restart would run side by side", would_run_beside),
    Rule("restarted-too-often", "three restarts an hour, then a person", restarted_too_often),
    Rule("wished-fewer-restarts", "a job may ask for fewer restarts than the limit", wished_fewer_restarts),
    Rule("too-many-suspects", "many suspects are never isolated", too_many_suspects),
    Rule("restart-elsewhere", "a node with evidence against it is excluded", restart_elsewhere),
    Rule("restart", "the rest is restarted", restart_in_place),
)
