"""What people see of incidents, jobs and clusters in a terminal: lines of text, every foreign character harmless."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from rerail.cli.screen import bold, clean
from rerail.records import (
    ClusterState,
    Excerpt,
    GuardState,
    Incident,
    Isolation,
    JobWatch,
    Outcome,
    Plan,
    Recovery,
    Stage,
    StepKind,
    Verdict,
)

OTHERS_MAX = 20
"""Attempts of a job that are listed: the last ones."""

JOBS_MAX = 20
"""Jobs listed of one cluster; `--json` has them all."""


def page(explained: Incident | JobWatch | ClusterState | GuardState) -> Iterator[str]:
    """The page of whatever was explained."""
    yield from PAGES[type(explained)](explained)


def incident_page(incident: Incident) -> Iterator[str]:
    """What happened, why, what is proposed, what to do now, how it ended."""
    anomaly = incident.anomaly
    yield headline(incident)
    yield row("incident", incident.id)
    yield row("seen", f"{clock(anomaly.seen_at)} by {anomaly.detector}: {anomaly.why}")
    if anomaly.last_step is not None:
        yield row("last step", anomaly.last_step)
    if incident.verdict:
        yield from verdict_rows(incident.verdict)
    if incident.plan:
        yield from plan_rows(incident.plan)
    if incident.decided:
        decided = incident.decided
        who = f"{decided.decision.verdict} by {decided.decision.by} at {clock(decided.at)} ({decided.way})"
        yield row("decision", f"{who}: {decided.decision.reason}")
        yield row("", f"identity recorded by Temporal: {decided.identity or 'none'}")
    if incident.outcome:
        yield from outcome_rows(incident.outcome)
    for note in incident.notes:
        yield row("note", note)
    yield from past_rows(incident.history)
    if incident.bundle:
        yield row("evidence in", f"{incident.bundle} (judge it again: rerail diagnose FOLDER)")
    yield from next_step(incident)


def headline(incident: Incident) -> str:
    job = incident.anomaly.attempt.job
    what = f"{incident.anomaly.kind} of job {job.job_id} on {job.cluster}, attempt {incident.anomaly.attempt.number}"
    return bold(f"{what}: {standing(incident)}")


def standing(incident: Incident) -> str:
    """Where it stands, in a few words."""
    if incident.outcome:
        return str(incident.outcome.result).replace("_", " ")
    if incident.stage is Stage.AWAITING_APPROVAL and incident.expires_at:
        return f"awaiting approval until {clock(incident.expires_at)}"
    return str(incident.stage).replace("_", " ")


def verdict_rows(verdict: Verdict) -> Iterator[str]:
    blamed = ", ".join([*verdict.culprit_nodes, *(f"rank {rank}" for rank in verdict.culprit_ranks)]) or "nobody"
    yield row("verdict", f"{verdict.fault}, {verdict.cause}; blamed: {blamed}; confidence {verdict.confidence:.0%}")
    if verdict.why:
        yield row("", verdict.why)
    for line in verdict.evidence:
        yield row("", excerpt(line))
    if verdict.unknowns:
        yield row("not known", "; ".join(verdict.unknowns))


def excerpt(line: Excerpt) -> str:
    where = f"{line.source}:{line.line}" if line.line else line.source
    return f"{line.role:<8}{where}  {line.text}"


def plan_rows(plan: Plan) -> Iterator[str]:
    yield row("plan", f"{plan.id} by rule {plan.rule}")
    if plan.refusal:
        yield row("", f"nothing can be done: {plan.refusal}")
    for number, step in enumerate(plan.steps, 1):
        yield row("", f"{number}. {step_text(step.kind, step.nodes)}: {step.why}")
    if plan.has(StepKind.RESTART):
        yield row("", f"{plan.nodes_eligible} nodes remain eligible, the job needs {plan.nodes_needed}")
    for number, line in enumerate(plan.again.splitlines() if plan.refusal else ()):
        yield row("" if number else "again by", line)
    if plan.requeue_until:
        yield row("", f"a requeue is possible until {clock(plan.requeue_until)}")


def step_text(kind: StepKind, nodes: tuple[str, ...]) -> str:
    return f"{kind} {', '.join(nodes)}".strip()


def plan_line(plan: Plan) -> str:
    """The plan in one line."""
    return clean(f"plan {plan.id}: " + (plan.refusal or ", then ".join(step_text(s.kind, s.nodes) for s in plan.steps)))


def outcome_rows(outcome: Outcome) -> Iterator[str]:
    yield row("outcome", f"{outcome.result}: {outcome.why}")
    if outcome.nodes:
        yield row("runs on", ", ".join(outcome.nodes))
    steps = {"failed": outcome.failed_step, "resumed": outcome.resumed_step, "past": outcome.passed_step}
    if any(step is not None for step in steps.values()):
        yield row("steps", ", ".join(f"{name} {step}" for name, step in steps.items() if step is not None))
    if outcome.marks:
        yield row("timeline", timeline(outcome.marks))


def timeline(marks: dict[str, datetime]) -> str:
    """The moments of the story in seconds after the first."""
    first = min(marks.values())
    ordered = sorted(marks.items(), key=lambda mark: mark[1])
    return ", ".join(f"{name} +{(at - first).total_seconds():.1f} s" for name, at in ordered)


def next_step(incident: Incident) -> Iterator[str]:
    if incident.stage is Stage.AWAITING_APPROVAL and incident.plan and not incident.decided:
        yield ""
        yield f"rerail approve {clean(incident.id)} --plan {clean(incident.plan.id)} --reason WHY"
        if incident.plan.has(StepKind.DRAIN):
            yield "  (with --drain the node is drained for all, too; without it only this job is kept away from it)"
        yield f"rerail reject {clean(incident.id)} --reason WHY"


def pending_page(incidents: list[Incident]) -> Iterator[str]:
    """What waits for a person, each with what is proposed and what to type."""
    if not incidents:
        yield "nothing waits for a decision"
    for incident in incidents:
        yield headline(incident)
        if incident.verdict:
            yield row("verdict", f"{incident.verdict.fault}, {incident.verdict.cause}: {incident.verdict.why}")
        if incident.plan:
            yield row("proposed", plan_line(incident.plan))
        yield from next_step(incident)
        yield ""


def incidents_page(incidents: list[Incident]) -> Iterator[str]:
    """One line an incident."""
    if not incidents:
        yield "no incidents"
    for incident in incidents:
        verdict = incident.verdict
        cause = f"{verdict.fault}/{verdict.cause}" if verdict else "no verdict yet"
        what = clean(f"{incident.anomaly.kind:<9}  {cause:<32}  {incident.id}")
        yield f"{clock(incident.anomaly.seen_at)}  {bold(f'{ended_as(incident):<17}')}  {what}"


def ended_as(incident: Incident) -> str:
    """The result, or the stage where there is none yet."""
    return str(incident.outcome.result if incident.outcome else incident.stage).replace("_", " ")


def job_page(watch: JobWatch) -> Iterator[str]:
    """A job over its attempts."""
    attempt = watch.attempt
    yield bold(f"job {attempt.job.job_id} on {attempt.job.cluster}, attempt {attempt.number}: watched")
    yield row("last", watch.last)
    if watch.blind:
        yield row("blind", "its log can't be read, so a hang would not be seen")
    if watch.last_step is not None:
        yield row("last step", watch.last_step)
    yield row("incident", watch.incident or "none open")
    yield from past_rows(watch.history)
    yield from others_rows(watch)


def past_rows(history: tuple[Recovery, ...]) -> Iterator[str]:
    """What was done about earlier attempts: who had them restarted, why, and where their logs are kept."""
    for past in history:
        yield row(f"attempt {past.attempt}", f"{clock(past.at)}  {past.kind}, {past.fault}: {past.cause} -> {past.result}")
        if past.why:
            yield row("", past.why)
        if past.restarted:
            yield row("", f"restarted by rerail{approval(past)}")
        if past.bundle:
            yield row("", f"its log is kept in {past.bundle}")


def approval(past: Recovery) -> str:
    """Who said yes, and why."""
    return f", approved by {past.by}: {past.reason}" if past.by else ""


def others_rows(watch: JobWatch) -> Iterator[str]:
    """Attempts that began without us."""
    ours = {past.attempt + 1 for past in watch.history if past.restarted}
    for number in range(max(2, watch.attempt.number - OTHERS_MAX), watch.attempt.number + 1):
        if number not in ours:
            yield row(f"attempt {number}", "was started by the scheduler or by somebody, not by rerail")


def cluster_page(state: ClusterState) -> Iterator[str]:
    """Whether a cluster can be seen, and its jobs."""
    yield bold(f"cluster {state.cluster}: {'BLIND' if state.blind_since else f'{len(state.jobs)} jobs known'}")
    if state.blind_since:
        yield row("blind", f"since {clock(state.blind_since)}: {state.blind_why}")
    yield row("last read", clock(state.read_at) if state.read_at else "not yet")
    for attempt in state.jobs[:JOBS_MAX]:
        yield row("job", f"{attempt.job.job_id}, attempt {attempt.number}")
    if len(state.jobs) > JOBS_MAX:
        yield row("", f"and {len(state.jobs) - JOBS_MAX} more")


def guard_page(state: GuardState) -> Iterator[str]:
    """Pause and isolated nodes of a cluster."""
    if state.paused:
        since = f" since {clock(state.paused_since)}" if state.paused_since else ""
        yield bold(f"cluster {state.cluster}: PAUSED by {state.paused_by}{since}")
        yield row("why", state.paused_why)
        yield row("waiting", f"{len(state.waiting)} incidents")
        yield row("next", f"rerail resume {state.cluster} --reason WHY")
    else:
        yield bold(f"cluster {state.cluster}: acts within its limits")
    for one in state.isolations:
        yield row("isolated", f"{one.node} since {clock(one.since)} for {one.incident}: {how_isolated(one)}")
    if not state.isolations:
        yield row("isolated", "no node")
        return
    yield row("give back", f"rerail readmit {state.cluster} NODE --reason WHY")


def how_isolated(one: Isolation) -> str:
    """What was done to the node."""
    done = [f"excluded from job {one.job}"] * one.excluded + ["drained for all"] * (one.drained is not None)
    return ", ".join(done) or "granted, nothing done"


PAGES: dict[type, Callable[[Any], Iterator[str]]] = {
    Incident: incident_page,
    JobWatch: job_page,
    ClusterState: cluster_page,
    GuardState: guard_page,
}


def row(name: str, text: object) -> str:
    """A name and what belongs to it."""
    return f"  {name:<12}{clean(text)}"


def clock(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
