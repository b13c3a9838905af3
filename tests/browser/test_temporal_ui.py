"""The one click-through: a person finds the waiting incident in the Temporal UI, reads it, is refused, approves, sees the end."""

import asyncio
import json
import re

from playwright.async_api import expect

from adapters.audit.store import AuditStore
from rerail import names
from rerail.records import AuditRow, FaultClass, Incident, Job, Outcome, Result, RowKind, StepKind, Verb
from rerail.records import Stage as IncidentStage
from rerail.requests import DECISION_FORM
from tests.browser.operator import Operator
from tests.stage import CLUSTER, ROOT, Stage
from workers.settings import load

RANK = 2
REASON = "the GPU fell off the bus, go on without the node"
NAME = "Ada Operator"
BOOKMARK = re.compile(r"/namespaces/default/workflows\?query=[^)\s]+")
"""The link to what waits, as the README gives it."""
RECOVERS_WITHIN_MS = 120_000
"""From approval to training past the failed step: the ranks have to start anew, which takes seconds on a busy machine."""


async def test_a_person_finds_reads_and_approves_an_incident_in_the_temporal_ui(stage: Stage, operator: Operator) -> None:
    job_id = await asyncio.to_thread(stage.train)
    node = (await asyncio.to_thread(stage.crash, job_id, RANK)).node

    incident = await find_what_waits(operator)
    waiting = stage.job(job_id)
    form = await read_the_proposal(operator, job_id, node)
    await send_a_malformed_approval(operator, form)
    await nothing_has_changed(stage, incident, waiting)
    await approve(operator, form)
    await see_the_end(operator, node)

    outcome = await stage.client.get_workflow_handle(incident, result_type=Outcome).result()
    await the_decision_is_kept_once(stage, incident, json.loads(form)["plan"])
    await the_job_runs_on(stage, job_id, node, outcome)


# In the page


async def find_what_waits(operator: Operator) -> str:
    """The waiting incident's workflow id: by the page's own filter, and the same by the bookmarked link."""
    prefix = f"remediate-job/{CLUSTER}/"
    await operator.opens_the_list()
    await operator.filters_by(names.SA_STAGE, IncidentStage.AWAITING_APPROVAL)
    filtered = await operator.sees_one_workflow(prefix)
    await operator.looks("filtered")
    await operator.opens_the_list(readme_link())
    bookmarked = await operator.sees_one_workflow(prefix)
    await operator.looks("bookmarked")
    assert filtered == bookmarked
    await operator.opens(bookmarked)
    return bookmarked


def readme_link() -> str:
    found = BOOKMARK.search((ROOT / "README.md").read_text(encoding="utf-8"))
    assert found, "the README gives no link to what waits"
    return found[0]


async def read_the_proposal(operator: Operator, job_id: str, node: str) -> str:
    """Everything a person needs for an answer is on the page; what to send comes back."""
    await operator.reads(
        f"Crash of job {job_id} on {CLUSTER}: waits for your decision until",
        f"rank {RANK}: killed by signal 9",  # what happened
        FaultClass.HARDWARE,
        f"Blamed: {node}",
        f"dmesg/{node}.log",  # on which evidence
        "GPU has fallen off the bus",
        f"{StepKind.EXCLUDE} {node}",  # what is proposed
        StepKind.RESTART,
        "5 nodes remain eligible, the job needs 4",
        "A requeue is possible until",
        "More Actions > Send an Update > decide",  # how to answer
        "press Tab, then Submit",
        "Request Cancellation means reject",
    )
    assert await operator.reads_summary() == f"crash of job {job_id}, attempt 1"
    await operator.looks("proposal", at_all_of_it=True)
    return await operator.copies('"verdict"')


async def send_a_malformed_approval(operator: Operator, form: str) -> None:
    """An approval that gives no reason is refused in the dialog, with the sentence that says what to send."""
    said = json.loads(form)
    del said["reason"]
    dialog = await operator.starts_an_update()
    await operator.looks("updates")
    await operator.chooses(names.DECIDE, DECISION_FORM)
    await operator.writes(dialog, json.dumps(said))
    await operator.submits(dialog)
    await operator.is_refused(dialog, f"reason is required; send {DECISION_FORM}")
    await operator.looks("refused")
    await operator.cancels(dialog)


async def approve(operator: Operator, form: str) -> None:
    """The text of the page itself, with reason and name filled in."""
    dialog = await operator.starts_an_update()
    await operator.chooses(names.DECIDE, "verdict")
    await operator.writes(dialog, form.replace("WHY", REASON).replace("YOUR NAME", NAME))
    await operator.looks("approval")
    await operator.submits(dialog)
    await expect(dialog).to_be_hidden()
    await operator.looks("approved")


async def see_the_end(operator: Operator, node: str) -> None:
    """Completed, and after a press of R the page tells how it ended and who decided why."""
    await operator.sees_status("Completed", within_ms=RECOVERS_WITHIN_MS)
    await operator.freshens()
    text = await operator.reads("closed, recovered", "past the failed step", f"approve by {NAME}", REASON)
    assert "Your answer" not in text
    assert node in text
    await operator.looks("recovered", at_all_of_it=True)


# In what is kept


async def nothing_has_changed(stage: Stage, incident: str, waiting: Job) -> None:
    """A refused message leaves no trace: still waiting, undecided, and the scheduler as it was."""
    seen = await stage.client.get_workflow_handle(incident).query(names.INCIDENT, result_type=Incident)
    assert seen.stage is IncidentStage.AWAITING_APPROVAL
    assert seen.decided is None
    assert stage.job(waiting.job_id) == waiting
    assert {row.kind for row in audit(stage, incident)} == {RowKind.DETECTED, RowKind.VERDICT, RowKind.PLAN}


async def the_decision_is_kept_once(stage: Stage, incident: str, plan: str) -> None:
    """With the way it came, who, why, and for which plan; in the incident and in the audit trail."""
    seen = await stage.client.get_workflow_handle(incident).query(names.INCIDENT, result_type=Incident)
    assert seen.decided
    assert seen.decided.way == "update"
    decision = seen.decided.decision
    assert (decision.verdict, decision.by, decision.reason, decision.plan) == (Verb.APPROVE, NAME, REASON, plan)
    rows = [row for row in audit(stage, incident) if row.kind is RowKind.DECISION]
    assert [row.actor for row in rows] == [NAME]
    assert REASON in rows[0].text


async def the_job_runs_on(stage: Stage, job_id: str, node: str, outcome: Outcome) -> None:
    """Restarted once, elsewhere, past the step at which it failed."""
    assert outcome.result is Result.RECOVERED
    assert outcome.passed_step is not None
    assert outcome.failed_step is not None
    assert outcome.passed_step > outcome.failed_step
    job = stage.job(job_id)
    assert job.restarts == 1
    assert job.nodes
    assert node not in job.nodes
    assert node in job.excluded_nodes


def audit(stage: Stage, incident: str) -> list[AuditRow]:
    """The rows of one incident."""
    store = AuditStore(load(stage.settings).audit_url())
    return [row for _, row in store.rows(incident=incident)]
