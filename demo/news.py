"""What is worth telling of an incident so far, in plain sentences. Pure: the story tells each piece once."""

from collections.abc import Iterator
from dataclasses import dataclass

from demo.timeline import DONE, blame
from rerail.records import Excerpt, Incident, Plan, Role, Stage, StepKind, Verdict

EVIDENCE_MAX = 6


@dataclass(frozen=True)
class News:
    """A piece of news; `key` is the same as long as it is the same news."""

    key: str
    sentence: str
    details: tuple[str, ...] = ()


def news(incident: Incident) -> Iterator[News]:
    """All of it, in the order of the story."""
    anomaly, verdict, plan = incident.anomaly, incident.verdict, incident.plan
    yield News("anomaly", f"rerail has noticed a {anomaly.kind}: {anomaly.why}")
    for joined in incident.joined:
        yield News(f"joined {joined.id}", f"Another sighting joins the incident: {joined.kind}: {joined.why}")
    if verdict and plan:
        yield News(f"verdict {plan.id}", f"Verdict: {blame(verdict)}; confidence {verdict.confidence:.0%}.", because(verdict))
        yield News(f"plan {plan.id}", proposed(plan), tuple(steps(plan)))
    if incident.decided:
        said = incident.decided.decision
        yield News("decided", f"{DONE[said.verdict].capitalize()} by {said.by} (by {incident.decided.way}): {said.reason}")
    for note in incident.notes:
        yield News(f"note {note}", f"Note: {note}")
    if incident.stage is Stage.ACTING:
        yield News("acting", "The facts are read again, and the plan is carried out.")
    if incident.stage is Stage.VERIFYING:
        yield News("verifying", f"The scheduler has taken the job back. Past step {anomaly.last_step} it counts as recovered.")
    if incident.outcome:
        yield News("outcome", f"{incident.outcome.result.capitalize()}: {incident.outcome.why}")


def because(verdict: Verdict) -> tuple[str, ...]:
    """Why, the lines that it stands on, and what was missing."""
    unknown = (f"Not known: {'; '.join(verdict.unknowns)}",) if verdict.unknowns else ()
    return (verdict.why, *(excerpt(line) for line in verdict.evidence[:EVIDENCE_MAX]), *unknown)


def excerpt(line: Excerpt) -> str:
    where = f"{line.source}:{line.line}" if line.line else line.source
    mark = {Role.ROOT: "*", Role.CASCADE: "-", Role.NOISE: " "}[line.role]
    return f"  {mark} {where}  {line.text}"


def proposed(plan: Plan) -> str:
    if plan.refusal:
        return f"Nothing can be done by rerail (rule {plan.rule}): {plan.refusal}"
    return f"{'Proposal' if plan.ask else 'Plan'} {plan.id}, by rule {plan.rule}:"


def steps(plan: Plan) -> Iterator[str]:
    for number, step in enumerate(plan.steps, 1):
        yield f"  {number}. {' '.join([step.kind, *step.nodes])}: {step.why}"
    if plan.has(StepKind.RESTART):
        until = f"; a requeue is possible until {plan.requeue_until:%H:%M:%S} UTC" if plan.requeue_until else ""
        yield f"  {plan.nodes_eligible} nodes remain eligible, the job needs {plan.nodes_needed}{until}."
