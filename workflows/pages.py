"""What a tired reader sees in the Temporal UI: current details, in Markdown.

The UI lets HTML through and makes links of addresses. So what strangers wrote goes through `plain` or into a block of `code`.
"""

import textwrap
from datetime import datetime

from rerail.records import (
    Attempt,
    ClusterState,
    Excerpt,
    GuardState,
    Incident,
    Isolation,
    JobWatch,
    Plan,
    Recovery,
    Result,
    Stage,
    Step,
    StepKind,
    Verdict,
)

TEXT_MAX = 240
"""Characters of one text of a stranger."""
LINES_MAX = 5
"""Lines of evidence, notes and recoveries."""
ROWS_MAX = 20
"""Rows of a list of jobs or nodes; the page is part of an address in the UI, and proxies refuse addresses over 8 KB."""
COMMAND_MAX = 1500
"""Characters of a command that is to be copied whole, beside the rest of a page that may fill half of an address."""
WIDTH = 64
"""Columns of a code block: the UI gives it half of the window and does not wrap it (67 fit into a window of 1440 pixels)."""


def incident_page(incident: Incident) -> str:
    """The whole incident on one page. What waits for an answer shows proposal and answer first: the UI shows little at once."""
    waits = incident.stage is Stage.AWAITING_APPROVAL and incident.plan is not None
    plan = proposed(incident.plan) if incident.plan else ""
    story = [happened(incident), because(incident.verdict) if incident.verdict else ""]
    middle = [plan, how_to_answer(incident), *reversed(story)] if waits else [*story, plan]
    parts = [headline(incident), ended(incident), *middle, decided(incident), noted(incident)]
    parts.append(again(incident))
    if incident.bundle:
        parts.append(f"The evidence was copied to `{plain(incident.bundle)}`; `rerail diagnose FOLDER` judges it again.")
    return "\n\n".join(part for part in parts if part)


def headline(incident: Incident) -> str:
    job = incident.anomaly.attempt.job
    return f"## {str(incident.anomaly.kind).capitalize()} of job {plain(job.job_id)} on {plain(job.cluster)}: {stage(incident)}"


def stage(incident: Incident) -> str:
    if incident.outcome:
        return f"closed, {incident.outcome.result.replace('_', ' ')}"
    if incident.stage is Stage.AWAITING_APPROVAL and incident.expires_at:
        return f"waits for your decision until {clock(incident.expires_at)}"
    return incident.stage.replace("_", " ")


def ended(incident: Incident) -> str:
    """How it ended, first, since it is what a reader of a closed incident came for."""
    if not incident.outcome:
        return ""
    nodes = f"\n\nThe job runs on {plain(', '.join(incident.outcome.nodes))}." if incident.outcome.nodes else ""
    return f"{code(incident.outcome.why)}{nodes}\n\nNothing is left to do here: the button **Reset** would tell the story again."


def happened(incident: Incident) -> str:
    anomaly = incident.anomaly
    step = f" Last training step seen: {anomaly.last_step}." if anomaly.last_step is not None else ""
    saved = f" Last checkpoint seen: step {anomaly.checkpoint_step}." if anomaly.checkpoint_step is not None else ""
    joined = f" {count(len(incident.joined), 'more sighting')} joined." if incident.joined else ""
    said = f"Attempt {anomaly.attempt.number}, seen at {clock(anomaly.seen_at)}.{step}{saved}{joined}"
    return f"### What happened\n{said}\n{code(anomaly.why)}"


def because(verdict: Verdict) -> str:
    who = ", ".join([*verdict.culprit_nodes, *(f"rank {r}" for r in verdict.culprit_ranks)]) or "nobody"
    said = f"**{verdict.fault}**, `{plain(verdict.cause)}`. Blamed: **{plain(who)}**. Confidence {verdict.confidence:.0%}."
    lines = [f"### Why\n{said}", code("\n".join([verdict.why, "", *(excerpt(e) for e in verdict.evidence[:LINES_MAX])]))]
    if verdict.unknowns:
        lines.append(f"Not known: {plain('; '.join(verdict.unknowns))}.")
    return "\n\n".join(lines)


def excerpt(line: Excerpt) -> str:
    where = f"{line.source}:{line.line}" if line.line else line.source
    return f"[{line.role}] {where}: {line.text}"


def proposed(plan: Plan) -> str:
    if plan.refusal:
        return f"### Nothing can be done by rerail\n{code(plan.refusal)}\nRule `{plain(plan.rule)}`."
    steps = "\n".join(f"{n}. {step_line(s)}" for n, s in enumerate(plan.steps, 1))
    nodes = f" {count(plan.nodes_eligible, 'node')} remain eligible, the job needs {plan.nodes_needed}."
    until = f" A requeue is possible until {clock(plan.requeue_until)}." if plan.requeue_until else ""
    said = f"Rule `{plain(plan.rule)}`, plan `{plain(plan.id)}`.{nodes if plan.has(StepKind.RESTART) else ''}{until}"
    return f"### {'Proposed' if plan.ask else 'Plan'}\n{steps}\n\n{said}"


def step_line(step: Step) -> str:
    nodes = f" {plain(', '.join(step.nodes))}" if step.nodes else ""
    why = f": {plain(step.why)}" if step.why else ""
    return f"**{step.kind}{nodes}**{why}"


def how_to_answer(incident: Incident) -> str:
    """The clicks in the UI, the JSON to paste (over lines, so that all of it is seen), and the ways around the UI."""
    assert incident.plan
    form = f'{{"verdict": "approve",\n "reason": "WHY",\n "by": "YOUR NAME",\n "plan": "{plain(incident.plan.id)}"}}'
    return (
        "### Your answer\n"
        "Nothing is done before you answer. Copy this, and put your reason for WHY and your name for YOUR NAME "
        "(to say no, `reject` for `approve`):\n\n"
        f"{code(form)}\n\n"
        "1. **More Actions** > **Send an Update** > `decide`\n"
        "2. Paste it into **Data**, press **Tab**, then **Submit**\n"
        "3. Press **R** here to see what became of it\n\n"
        "While no worker answers: **Send a Signal** > `approve` or `reject`, with the same Data. "
        f"In a shell: `rerail approve {plain(incident.id)} --reason WHY`. **Request Cancellation means reject.**"
    ) + with_drain(incident.plan)


def with_drain(plan: Plan) -> str:
    """A drain is approved by itself."""
    if not plan.has(StepKind.DRAIN):
        return ""
    return '\n\nThe node is drained for everybody only if your approval holds `"drain": true`, too (in a shell: `--drain`).'


def decided(incident: Incident) -> str:
    if not incident.decided:
        return ""
    taken, decision = incident.decided, incident.decided.decision
    identity = f"recorded identity {plain(taken.identity)}" if taken.identity else "no identity was recorded by the server"
    said = f"**{decision.verdict}** by {plain(decision.by)} at {clock(taken.at)}, by {plain(taken.way)}; {identity}."
    return f"### Decision\n{said}\n{code(decision.reason)}"


def noted(incident: Incident) -> str:
    return "### Notes\n" + code("\n".join(incident.notes[-LINES_MAX:])) if incident.notes else ""


def again(incident: Incident) -> str:
    """How to submit the job again, where nothing was restarted."""
    plan, outcome = incident.plan, incident.outcome
    idle = outcome is not None and outcome.result in (Result.VOIDED, Result.REFUSED, Result.EXPIRED)
    if plan is None or not plan.again or not (plan.refusal or idle):
        return ""
    if len(plan.again) > COMMAND_MAX:
        return f"The command that submits it again is long: `rerail explain {plain(incident.id)}` shows it."
    said = "".join(c if c.isprintable() or c == "\n" else "·" for c in plan.again).replace("`", "'")
    return f"### To submit it again, if its scheduler can no longer requeue it\n```text\n{said}\n```"


def guard_page(state: GuardState) -> str:
    """Pause and isolation ledger of a cluster."""
    head = f"## Guard of {plain(state.cluster)}: acting within limits"
    if state.paused and state.paused_since:
        head = f"## Guard of {plain(state.cluster)}: PAUSED since {clock(state.paused_since)}"
        head += f"\nBy {plain(state.paused_by)}:\n{code(state.paused_why)}"
        head += f"\n{count(len(state.waiting), 'incident')} waiting. `rerail resume {plain(state.cluster)}` ends the pause."
    rows = [f"{i.node}  since {clock(i.since)}{how_isolated(i)}\n  {i.incident}" for i in state.isolations[-ROWS_MAX:]]
    listed = code("\n".join(rows)) if rows else "None."
    back = f"\n\n`rerail readmit {plain(state.cluster)} NODE --reason WHY` gives one back." if rows else ""
    return f"{head}\n\n### Isolated nodes\n{listed}{back}"


def how_isolated(one: Isolation) -> str:
    return ", drained for all" if one.drained else f", for job {one.job}" if one.excluded else ", nothing done"


def cluster_page(state: ClusterState) -> str:
    """Whether the cluster can be seen, and which jobs are watched."""
    head = f"## Watching {plain(state.cluster)}: {count(len(state.jobs), 'job')} known"
    if state.blind_since:
        head = f"## BLIND: {plain(state.cluster)} can't be read since {clock(state.blind_since)}\n{code(state.blind_why)}"
        head += "\nNo job is taken for gone or hung while blind. Runbook: `docs/runbooks/blind.md`"
    read = f"Last change seen at {clock(state.read_at)}." if state.read_at else "Not read yet."
    rows = [job_row(attempt) for attempt in state.jobs[-ROWS_MAX:]]
    more = f"\n\nThe last {ROWS_MAX} of {len(state.jobs)}." if len(state.jobs) > ROWS_MAX else ""
    jobs = "\n\n### Jobs\n" + code("\n".join(rows)) + more if rows else ""
    return f"{head}\n\n{read}{jobs}"


def job_row(attempt: Attempt) -> str:
    started = f"started {clock(attempt.started_at)}" if attempt.started_at else "not started"
    return f"{attempt.job.job_id:<10} attempt {attempt.number}, {started}"


def job_page(state: JobWatch) -> str:
    """One job over its attempts."""
    job, attempt = state.attempt.job, state.attempt
    head = f"## Job {plain(job.job_id)} on {plain(job.cluster)}, attempt {attempt.number}: {plain(state.last)}"
    step = f"Last training step seen: {state.last_step}." if state.last_step is not None else ""
    blind = "**Its log can't be read: hangs are not seen.**" if state.blind else ""
    incident = f"Open incident: `{plain(state.incident)}`" if state.incident else ""
    rows = [recovery_row(r) for r in state.history[-LINES_MAX:]]
    past = "### Recoveries\n" + code("\n".join(rows)) if rows else ""
    return "\n\n".join(part for part in (head, blind, incident, step, past) if part)


def recovery_row(recovery: Recovery) -> str:
    nodes = f" ({', '.join(recovery.nodes)})" if recovery.nodes else ""
    said = f"attempt {recovery.attempt}: {recovery.kind}, {recovery.fault}, {recovery.cause}{nodes} -> {recovery.result}"
    who = f"\n  restarted, approved by {recovery.by}: {recovery.reason}" if recovery.restarted and recovery.by else ""
    return said + who + (f"\n  its log is kept in {recovery.bundle}" if recovery.bundle else "")


def plain(text: str) -> str:
    """Text of strangers without markup and links: letters, digits and harmless signs only."""
    return "".join(c if c.isalnum() or c in " .,:;=/_-+@%()'?!" else "·" for c in text[:TEXT_MAX]).replace("://", ":··")


def code(text: str) -> str:
    """A code block that its content can't leave, wrapped to what the UI shows."""
    kept = "".join(c if c.isprintable() or c == "\n" else "·" for c in text).replace("`", "'")
    lines = [part for line in kept.splitlines()[: 2 * ROWS_MAX] for part in wrapped(line)]
    return "```text\n" + "\n".join(lines) + "\n```"


def wrapped(line: str) -> list[str]:
    """A bounded line in pieces; those after the first are set in."""
    cut = line if len(line) <= TEXT_MAX else line[: TEXT_MAX - 1] + "…"
    pieces = textwrap.wrap(cut, WIDTH, subsequent_indent="  ", drop_whitespace=True, break_on_hyphens=False)
    return pieces or [""]


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def clock(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%S UTC")
