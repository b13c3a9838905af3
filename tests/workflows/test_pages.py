"""Pages of the Temporal UI: what strangers wrote stays text, and all of it can be seen in half a window."""

import json
import re
from datetime import UTC, datetime

import pytest

from rerail.records import (
    Anomaly,
    Attempt,
    ClusterState,
    Decision,
    Excerpt,
    FaultClass,
    GuardState,
    Incident,
    JobKey,
    JobWatch,
    Kind,
    Outcome,
    Plan,
    Recorded,
    Result,
    Stage,
    Step,
    StepKind,
    Verb,
    Verdict,
)
from workflows.pages import WIDTH, cluster_page, guard_page, incident_page, job_page

NOW = datetime(2026, 12, 1, 5, 30, tzinfo=UTC)
ADDRESS_MAX = 8000
"""The UI puts the page into an address, and common proxies refuse addresses over 8 KB."""
HOSTILE = (
    "<script>alert(1)</script><img src=x>",
    "[approve here](https://evil.example/)",
    "https://evil.example/",
    "```\n# Approved by everyone\n```",
    "` **bold** `",
    "\x1b[31mred\x07\u202eesrever",
    "line\r\n\r\n## Your answer",
    "x" * 5000,
)


def attempt(job_id: str = "41001") -> Attempt:
    return Attempt(job=JobKey(cluster="alpha", job_id=job_id, submitted_at=NOW), number=1, started_at=NOW)


def waiting(text: str) -> Incident:
    """An incident in which every text of a stranger is this one."""
    anomaly = Anomaly(id="a", attempt=attempt(), kind=Kind.CRASH, detector="exited", seen_at=NOW, why=text)
    lines = tuple(Excerpt(source=text, line=n, text=text) for n in range(8))
    fault = FaultClass.HARDWARE
    verdict = Verdict(kind=Kind.CRASH, fault=fault, cause=text, culprit_nodes=(text,), evidence=lines, why=text, unknowns=(text,))
    plan = Plan(id="0a1b2c3d", rule="r", steps=(Step(kind=StepKind.EXCLUDE, nodes=(text,), why=text),), nodes_eligible=1)
    return Incident(
        id="remediate-job/alpha/41001/1/1",
        stage=Stage.AWAITING_APPROVAL,
        anomaly=anomaly,
        verdict=verdict,
        plan=plan,
        expires_at=NOW,
        bundle=text,
        notes=(text,),
    )


def closed(text: str) -> Incident:
    decided = Recorded(decision=Decision(verdict=Verb.APPROVE, reason=text, by=text), way="update", at=NOW, identity=text)
    outcome = Outcome(result=Result.RECOVERED, why=text, nodes=(text,))
    return waiting(text).model_copy(update={"stage": Stage.CLOSED, "decided": decided, "outcome": outcome})


def pages(text: str) -> list[str]:
    """Every kind of page, with that text wherever a stranger's text may stand."""
    blind = ClusterState(cluster="alpha", blind_since=NOW, blind_why=text, jobs=(attempt(),))
    paused = GuardState(cluster="alpha", paused=True, paused_by=text, paused_why=text, paused_since=NOW)
    job = JobWatch(attempt=attempt(), incident=text, last=text, blind=True)
    return [incident_page(waiting(text)), incident_page(closed(text)), cluster_page(blind), guard_page(paused), job_page(job)]


def outside_code(page: str) -> str:
    """The page without its code blocks."""
    return re.sub(r"^```text\n.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)


def blocks(page: str) -> list[str]:
    """The code blocks of a page."""
    return re.findall(r"^```text\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("text", HOSTILE)
def test_text_of_strangers_is_never_markup(text: str) -> None:
    for page in pages(text):
        prose = outside_code(page)
        assert not set(prose) & set("<[]\x1b\x07\r")
        assert "://" not in prose
        assert "```" not in prose
        headings = re.findall(r"^#+ (.*)$", prose, re.MULTILINE)
        assert not [h for h in headings if h.startswith("Approved")]
        assert headings.count("Your answer") <= 1


@pytest.mark.parametrize("text", HOSTILE)
def test_a_page_holds_only_what_can_be_shown(text: str) -> None:
    for page in pages(text):
        assert all(c.isprintable() or c == "\n" for c in page)
        assert [line for block in blocks(page) for line in block.splitlines() if len(line) > WIDTH] == []


def test_the_form_on_the_page_is_json_bound_to_the_plan() -> None:
    form = next(block for block in blocks(incident_page(waiting("x"))) if "verdict" in block)
    assert json.loads(form) == {"verdict": "approve", "reason": "WHY", "by": "YOUR NAME", "plan": "0a1b2c3d"}


def test_a_closed_incident_asks_for_nothing() -> None:
    assert "Your answer" not in incident_page(closed("x"))


def test_a_cluster_of_a_thousand_jobs_fits_on_a_page_that_a_proxy_lets_through() -> None:
    page = cluster_page(ClusterState(cluster="alpha", read_at=NOW, jobs=tuple(attempt(str(n)) for n in range(1000))))
    assert "The last 20 of 1000" in page
    assert len(page) < ADDRESS_MAX


def ended(plan: Plan, result: Result) -> Incident:
    return closed("x").model_copy(update={"plan": plan, "outcome": Outcome(result=result, why="nothing was done")})


AGAIN = "sbatch \\\n  --job-name=train \\\n  /state/bundles/1/batch.sh --lr 3"


def test_the_command_that_submits_a_job_again_can_be_copied_from_a_page_on_which_nothing_was_restarted() -> None:
    plan = Plan(id="p", rule="restart", steps=(Step(kind=StepKind.RESTART),), again=AGAIN)
    assert AGAIN in incident_page(ended(plan, Result.VOIDED))
    assert AGAIN in incident_page(ended(plan.model_copy(update={"steps": (), "refusal": "too late"}), Result.REFUSED))
    assert AGAIN not in incident_page(ended(plan, Result.RECOVERED))
    assert AGAIN not in incident_page(waiting("x").model_copy(update={"plan": plan}))


def test_a_hostile_or_endless_command_stays_in_its_block_and_the_page_small() -> None:
    for text in (*HOSTILE, "sbatch " + "x" * 4000):
        page = incident_page(ended(Plan(id="p", rule="r", refusal="no", again=text), Result.REFUSED))
        for wrong in ("<", "](", "://", "`evil"):
            assert wrong not in outside_code(page)
        assert len(page) < ADDRESS_MAX / 2
