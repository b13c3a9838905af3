"""A node is taken from everybody only on its own kernel's word of a part that failed for good, and only where asked for."""

from datetime import UTC, datetime
from typing import Any

import pytest

from policies.circumstances import Circumstances
from policies.draining import DETERMINISTIC
from policies.plan import plan
from rerail.records import (
    Advice,
    Anomaly,
    Attempt,
    Drain,
    Excerpt,
    Facts,
    FaultClass,
    Job,
    JobKey,
    JobState,
    Kind,
    Mode,
    Plan,
    Recovery,
    Result,
    Role,
    StepKind,
    Verdict,
)
from rerail.signatures.catalogue import ALL

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
NODES = tuple(f"gpu-{n:02}" for n in range(1, 7))
ATTEMPT = Attempt(job=JobKey(cluster="alpha", job_id="41001", submitted_at=NOW), number=1, started_at=NOW)
COMMON: dict[str, Any] = {"kind": Kind.CRASH, "fault": FaultClass.HARDWARE, "cause": "gpu_fell_off_the_bus"}


def around(**more: Any) -> Circumstances:
    job = Job(cluster="alpha", job_id="41001", state=JobState.FAILED, nodes_needed=4, started_at=NOW)
    facts = Facts(job=job, read_at=NOW, eligible_nodes=NODES)
    seen = Anomaly(id="a", attempt=ATTEMPT, kind=Kind.CRASH, detector="exited", seen_at=NOW, last_step=42)
    return Circumstances(anomaly=seen, facts=facts, now=NOW, **more)


def recovery(node: str) -> Recovery:
    said: dict[str, Any] = {"attempt": 1, "step": 7, "result": Result.RECOVERED, "restarted": True, "at": NOW}
    return Recovery(nodes=(node,), **(COMMON | said))


def line(signature: str = "xid.79", node: str = "gpu-02", **more: Any) -> Excerpt:
    said: dict[str, Any] = {"source": f"dmesg/{node}.log", "role": Role.ROOT, "signature": signature, "node": node}
    return Excerpt(**(said | more))


def convicted(*lines: Excerpt, **more: Any) -> Verdict:
    said: dict[str, Any] = {"culprit_nodes": ("gpu-02",), "advice": Advice.RESTART_EXCLUDING_NODES, "why": "Xid 79 on gpu-02"}
    return Verdict(evidence=lines or (line(),), **(COMMON | said | more))


def drains(made: Plan) -> tuple[str, ...]:
    return tuple(node for step in made.steps if step.kind is StepKind.DRAIN for node in step.nodes)


def test_every_signature_that_drains_is_one_of_ours() -> None:
    assert {row.id for row in ALL} >= DETERMINISTIC


@pytest.mark.parametrize("signature", sorted(DETERMINISTIC))
def test_a_part_that_failed_for_good_is_drained_last_where_the_cluster_asks_for_it(signature: str) -> None:
    made = plan(convicted(line(signature)), around(drain=Drain.ASK))
    assert [step.kind for step in made.steps] == [StepKind.EXCLUDE, StepKind.RESTART, StepKind.DRAIN]
    assert drains(made) == ("gpu-02",)
    assert made.ask
    assert "only if the approval says so" in made.steps[-1].why


def test_nothing_is_drained_unless_the_settings_say_so() -> None:
    assert drains(plan(convicted(), around())) == ()
    assert drains(plan(convicted(), around(mode=Mode.AUTONOMOUS))) == ()


@pytest.mark.parametrize(
    "evidence",
    [
        line("xid.31"),
        line("xid.13"),
        line("xid.94"),
        line(source="job.log"),
        line(role=Role.CASCADE),
        line(node="gpu-03"),
        line(source="dmesg/gpu-03.log"),
        line(""),
    ],
    ids=["program", "program too", "contained", "log of a stranger", "echo", "bystander", "another node's word", "no signature"],
)
def test_weaker_evidence_drains_nobody(evidence: Excerpt) -> None:
    assert drains(plan(convicted(evidence), around(drain=Drain.ASK))) == ()


def test_of_two_culprits_only_the_one_with_proof_is_drained() -> None:
    both = convicted(line(), line("xid.31", "gpu-03"), culprit_nodes=("gpu-02", "gpu-03"))
    assert drains(plan(both, around(drain=Drain.ASK))) == ("gpu-02",)


def test_a_failure_that_wanders_over_nodes_convicts_the_job_and_drains_nobody() -> None:
    assert drains(plan(convicted(), around(drain=Drain.ASK, history=(recovery("gpu-05"),)))) == ()
    assert drains(plan(convicted(), around(drain=Drain.ASK, history=(recovery("gpu-02"),)))) == ("gpu-02",)


def test_what_we_lack_the_right_for_is_said_in_the_plan_and_not_proposed() -> None:
    where = around(drain=Drain.ASK)
    where = where.model_copy(update={"facts": where.facts.model_copy(update={"cannot_drain": "that takes an administrator"})})
    made = plan(convicted(), where)
    assert drains(made) == ()
    assert "gpu-02 should be drained, and rerail can't: that takes an administrator" in made.reasons


def test_an_approval_for_a_plan_with_a_drain_is_for_no_other_plan() -> None:
    assert plan(convicted(), around(drain=Drain.ASK)).id != plan(convicted(), around()).id
