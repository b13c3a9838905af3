"""What a tired reader sees in the Temporal UI: current details, in Markdown. Text of logs goes into code blocks, never into markup."""

from datetime import datetime

from rerail.records import ClusterState, Excerpt, GuardState, Incident, JobWatch, Plan, Stage, StepKind, Verdict

TEXT_MAX = 240
LINES_MAX = 5


def incident_page(incident: Incident) -> str:
    """The whole incident on one page: what happened, why, what is proposed, what to do now, how it ended."""
    parts = [headline(incident), happened(incident)]
    if incident.verdict:
        parts.append(because(incident.verdict))
    if incident.plan:
        parts.append(proposed(incident.plan))
    if incident.stage is Stage.AWAITING_APPROVAL and incident.plan:
        parts.append(how_to_answer(incident))
    if incident.decided:
        parts.append(decided(incident))
    if incident.outcome:
        parts.append(f"### Outcome: {incident.outcome.result}\n{code(incident.outcome.why)}")
    if incident.notes:
        parts.append("### Notes\n" + code("\n".join(incident.notes[-LINES_MAX:])))
    if incident.bundle:
        parts.append(f"Evidence was copied to `{plain(incident.bundle)}` (judge it again: `rerail diagnose FOLDER`)")
    return "\n\n".join(parts)


def headline(incident: Incident) -> str:
    job = incident.anomaly.attempt.job
    return f"## {incident.anomaly.kind} of job {plain(job.job_id)} on {plain(job.cluster)}: {stage(incident)}"


def stage(incident: Incident) -> str:
    if incident.outcome:
        return f"closed, {incident.outcome.result}"
    if incident.stage is Stage.AWAITING_APPROVAL and incident.expires_at:
        return f"waits for your decision until {clock(incident.expires_at)}"
    return incident.stage.replace("_", " ")


def happened(incident: Incident) -> str:
    anomaly = incident.anomaly
    step = f" Last training step seen: {anomaly.last_step}." if anomaly.last_step is not None else ""
    saved = f" Last checkpoint seen: step {anomaly.checkpoint_step}." if anomaly.checkpoint_step is not None else ""
    joined = f" {len(incident.joined)} more sightings joined." if incident.joined else ""
    return f"### What happened\nAttempt {anomaly.attempt.number}, seen at {clock(anomaly.seen_at)}.{step}{saved}{joined}\n{code(anomaly.why)}"


def because(verdict: Verdict) -> str:
    who = ", ".join([*verdict.culprit_nodes, *(f"rank {r}" for r in verdict.culprit_ranks)]) or "nobody"
    lines = [f"### Why\n**{verdict.fault}**, {plain(verdict.cause)}; blamed: {plain(who)}; confidence {verdict.confidence:.0%}"]
    lines.append(code("\n".join([verdict.why, *(excerpt(e) for e in verdict.evidence[:LINES_MAX])])))
    if verdict.unknowns:
        lines.append("Not known: " + plain("; ".join(verdict.unknowns)))
    return "\n\n".join(lines)


def excerpt(line: Excerpt) -> str:
    where = f"{line.source}:{line.line}" if line.line else line.source
    return f"{line.role:<8}{where}  {line.text}"


def proposed(plan: Plan) -> str:
    if plan.refusal:
        return f"### Nothing can be done by rerail\n{code(plan.refusal)}\nRule `{plan.rule}`."
    steps = "\n".join(f"{n}. **{s.kind}** {plain(', '.join(s.nodes))}: {plain(s.why)}" for n, s in enumerate(plan.steps, 1))
    until = f" A requeue is possible until {clock(plan.requeue_until)}." if plan.requeue_until else ""
    nodes = (
        f" {plan.nodes_eligible} nodes remain eligible, the job needs {plan.nodes_needed}." if plan.has(StepKind.RESTART) else ""
    )
    return f"### Proposed (plan `{plan.id}`, rule `{plan.rule}`)\n{steps}\n\n{nodes}{until}"


def how_to_answer(incident: Incident) -> str:
    assert incident.plan
    form = '{"verdict": "approve", "reason": "WHY", "by": "YOUR NAME", "plan": "%s"}' % incident.plan.id
    return (
        "### Your answer\n"
        "More Actions > Send an Update > `decide`, paste this, press Tab, then Submit (or `reject`):\n"
        f"{code(form)}\n"
        f"In a shell: `rerail approve {plain(incident.id)} --reason WHY`. Nothing is done before. "
        "If no worker answers: Send a Signal > `approve` or `reject`, with reason and by. "
        "**Request Cancellation means reject.**"
    )


def decided(incident: Incident) -> str:
    assert incident.decided
    taken = incident.decided
    identity = f", recorded identity {plain(taken.identity)}" if taken.identity else ", identity not recorded by the server"
    return f"### Decision\n**{taken.decision.verdict}** by {plain(taken.decision.by)} ({taken.way}{identity})\n{code(taken.decision.reason)}"


def guard_page(state: GuardState) -> str:
    """Pause and isolation ledger of a cluster."""
    head = f"## Guard of {plain(state.cluster)}: acting within limits"
    if state.paused and state.paused_since:
        by = f"{plain(state.paused_by)} since {clock(state.paused_since)}"
        head = f"## Guard of {plain(state.cluster)}: PAUSED by {by}\n{code(state.paused_why)}\n`rerail resume {plain(state.cluster)}` ends it."
    rows = "\n".join(f"{i.node}  since {clock(i.since)}  {i.incident}" for i in state.isolations[-20:])
    return head + "\n\n### Isolated\n" + (code(rows) if rows else "nobody")


def cluster_page(state: ClusterState) -> str:
    """Whether the cluster can be seen, and how many jobs are watched."""
    head = f"## Watching {plain(state.cluster)}: {len(state.jobs)} jobs known"
    if state.blind_since:
        head = f"## BLIND: {plain(state.cluster)} can't be read since {clock(state.blind_since)}\n{code(state.blind_why)}"
        head += "\nNo job is taken for gone or hung while blind. Runbook: `docs/runbooks/blind.md`"
    return head + (f"\n\nLast change seen at {clock(state.read_at)}." if state.read_at else "\n\nNot read yet.")


def job_page(state: JobWatch) -> str:
    """One job over its attempts."""
    job = state.attempt.job
    rows = [f"attempt {r.attempt}  {r.kind}, {r.fault}: {r.cause}  -> {r.result}" for r in state.history]
    blind = "\n\n**Its log can't be read: hangs are not seen.**" if state.blind else ""
    incident = f"\n\nOpen incident: `{plain(state.incident)}`" if state.incident else ""
    head = f"## Job {plain(job.job_id)} on {plain(job.cluster)}, attempt {state.attempt.number}\nLast: {plain(state.last)}"
    return head + blind + incident + ("\n\n### Recoveries\n" + code("\n".join(rows)) if rows else "")


def plain(text: str) -> str:
    """Text of strangers without markup: letters, digits and harmless signs only."""
    return "".join(c if c.isalnum() or c in " .,:;=/_-+@%()'?!" else "·" for c in text[:TEXT_MAX])


def code(text: str) -> str:
    """A code block that its content can't leave."""
    kept = "".join(c if c.isprintable() or c == "\n" else "·" for c in text).replace("```", "'''")
    return "```text\n" + "\n".join(line[:TEXT_MAX] for line in kept.splitlines()[: LINES_MAX + 3]) + "\n```"


def clock(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%S UTC")
