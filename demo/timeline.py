"""How the story went: its moments in seconds since the fault, and whether it ended as this fault's story has to."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from demo.faults import Expected, Hit, Scene
from rerail.records import Incident, Job, JobState, Kind, Outcome, Plan, Result, Stage, Verb, Verdict

DONE = {Verb.APPROVE: "approved", Verb.REJECT: "rejected"}


@dataclass(frozen=True)
class Moment:
    """Something that happened, in seconds since the fault."""

    after_s: float
    told: str


def timeline(hit: Hit, told: str, incidents: Sequence[Incident]) -> list[Moment]:
    """The moments of all incidents, in order of time."""
    moments = [(hit.at, f"fault: {told}")]
    for number, incident in enumerate(incidents):
        mark_of = f" (attempt {incident.anomaly.attempt.number})" if number else ""
        moments += [(at, text + mark_of) for at, text in marks(incident)]
    return [Moment((at - hit.at).total_seconds(), text) for at, text in sorted(moments, key=lambda m: m[0])]


def marks(incident: Incident) -> list[tuple[datetime, str]]:
    """An incident's moments in words; those that it did not have are left out."""
    outcome, verdict, decided = incident.outcome, incident.verdict, incident.decided
    assert outcome
    where = f" on {', '.join(outcome.nodes)}" if outcome.nodes else ""
    stops = outcome.result is Result.STOPPED
    words = {
        "detected": f"detected: {incident.anomaly.kind}",
        "verdict": f"verdict: {blame(verdict)}" if verdict else "verdict",
        "decided": f"{DONE[decided.decision.verdict]} by {decided.decision.by}" if decided else "decided",
        "accepted": "stopped, as approved" if stops else "action accepted by the scheduler",
        "running": f"running again{where}",
        "past": f"past the failed step {outcome.failed_step}: training is at step {outcome.passed_step}",
    }
    return [(outcome.marks[name], text) for name, text in words.items() if name in outcome.marks]


def blame(verdict: Verdict) -> str:
    """Class, cause and who."""
    ranks = [f"rank {rank}" for rank in verdict.culprit_ranks]
    return f"{verdict.kind}, {verdict.fault} ({verdict.cause}), {', '.join([*verdict.culprit_nodes, *ranks]) or 'nobody named'}"


def differences(scene: Scene, hit: Hit, incidents: Sequence[Incident], job: Job) -> list[str]:
    """What went otherwise than it has to, a sentence each; empty when all is well."""
    if not incidents:
        return ["no incident was opened"]
    last, expected = incidents[-1], scene.expected
    if last.outcome is None or last.verdict is None or last.plan is None:
        return [f"the incident is {last.stage.replace('_', ' ')}, without an outcome, a verdict or a plan"]
    found = [
        *by_verdict(expected, hit, last.verdict, last.plan),
        *by_outcome(expected, last.outcome),
        *by_record(expected, hit, job),
    ]
    if last.stage is not Stage.CLOSED:
        found.append("the incident is not closed")
    return found


def by_verdict(expected: Expected, hit: Hit, verdict: Verdict, plan: Plan) -> list[str]:
    nodes = (hit.node,) if expected.blames_node else ()
    ranks = set(verdict.culprit_ranks)
    checks = (
        (verdict.kind is expected.kind, f"the kind is {verdict.kind}, not {expected.kind}"),
        (verdict.fault is expected.fault, f"the class is {verdict.fault}, not {expected.fault}"),
        (verdict.culprit_nodes == nodes, f"the nodes blamed are {listed(verdict.culprit_nodes)}, not {listed(nodes)}"),
        (plan.excluded == nodes, f"the nodes excluded are {listed(plan.excluded)}, not {listed(nodes)}"),
        (ranks <= {hit.rank}, f"ranks {sorted(ranks)} are named, but the fault met rank {hit.rank}"),
        (bool(ranks) or not expected.names_rank, f"rank {hit.rank} is not named"),
    )
    return [said for well, said in checks if not well]


def by_outcome(expected: Expected, outcome: Outcome) -> list[str]:
    checks = [
        (outcome.result is expected.result, f"the outcome is {outcome.result}, not {expected.result}: {outcome.why}"),
        (bool(outcome.why), "the outcome says nothing of why"),
    ]
    if outcome.result is Result.RECOVERED:
        passed, failed = outcome.passed_step, outcome.failed_step
        beyond = passed is not None and failed is not None and passed > failed
        resumed, saved = outcome.resumed_step, outcome.checkpoint_step
        went_on = expected.kind is Kind.STRAGGLER  # and saved more while a person thought
        as_saved = resumed == saved or (went_on and resumed is not None and resumed > (saved or 0))
        checks += [
            (beyond, f"training was seen at step {passed}, which is not past the failed step {failed}"),
            (as_saved, f"training resumed at step {resumed}, but the checkpoint was of step {saved}"),
        ]
    return [said for well, said in checks if not well]


def by_record(expected: Expected, hit: Hit, job: Job) -> list[str]:
    """What the scheduler says, whatever rerail may think."""
    least, most = expected.restarts_least, expected.restarts_most
    checks = [(least <= job.restarts <= most, f"the scheduler counts {job.restarts} restarts, not {least} to {most}")]
    if expected.result is Result.RECOVERED:
        checks.append((not job.state.broken, f"the scheduler says that the job is {job.state}"))
    if expected.result is Result.NO_ACTION:
        checks.append((job.state is JobState.RUNNING, f"the scheduler says that the job is {job.state}; it has to go on"))
    if expected.result is Result.STOPPED:
        checks.append((job.state.ended, f"the scheduler says that the job is {job.state}, not stopped"))
    if expected.blames_node:
        checks.append((hit.node not in job.nodes, f"the job runs on {hit.node} again"))
    return [said for well, said in checks if not well]


FULL_SPEED = 1.6
"""Times the usual pace: a node that runs half of the time doubles it, and a busy machine adds some."""


def by_pace(expected: Expected, usual_s: float | None, now_s: float | None) -> list[str]:
    """A straggler that was excluded no longer slows the job; one that was only told does."""
    if expected.kind is not Kind.STRAGGLER or usual_s is None or now_s is None:
        return []
    if expected.result is Result.RECOVERED and now_s > FULL_SPEED * usual_s:
        return [f"a step still takes {now_s:.2f} s, and took {usual_s:.2f} s before the fault"]
    return []


def listed(nodes: Sequence[str]) -> str:
    return ", ".join(nodes) or "none"
