"""What an engineer reads of a job: who had it restarted, why, and where the first attempt's log is kept."""

from datetime import UTC, datetime
from typing import Any

from rerail.cli.pages import page
from rerail.records import (
    Attempt,
    FaultClass,
    GuardState,
    Isolation,
    JobKey,
    JobWatch,
    Kind,
    Node,
    NodeState,
    Recovery,
    Result,
)

AT = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
JOB = JobKey(cluster="alpha", job_id="41001", submitted_at=AT)


def recovery(**more: Any) -> Recovery:
    said: dict[str, Any] = {
        "attempt": 1,
        "kind": Kind.CRASH,
        "fault": FaultClass.HARDWARE,
        "cause": "gpu_fell_off_bus",
        "result": Result.RECOVERED,
        "restarted": True,
        "at": AT,
        "by": "ada",
        "reason": "the GPU is gone",
        "why": "Xid 79 on gpu-02",
        "bundle": "/state/bundles/alpha/41001/1/1",
    }
    return Recovery(**(said | more))


def told(number: int, *history: Recovery) -> str:
    return "\n".join(page(JobWatch(attempt=Attempt(job=JOB, number=number), history=history)))


def test_who_restarted_it_and_why_and_where_the_first_log_is() -> None:
    said = told(2, recovery())
    assert "restarted by rerail, approved by ada: the GPU is gone" in said
    assert "Xid 79 on gpu-02" in said
    assert "its log is kept in /state/bundles/alpha/41001/1/1" in said
    assert "not by rerail" not in said


def test_a_restart_of_somebody_else_is_said_to_be_theirs() -> None:
    said = told(3, recovery())
    assert "attempt 3   was started by the scheduler or by somebody, not by rerail" in said
    assert "attempt 2   was started" not in said


def test_a_rejected_plan_restarted_nothing() -> None:
    said = told(2, recovery(restarted=False, result=Result.REJECTED))
    assert "restarted by rerail" not in said
    assert "attempt 2   was started by the scheduler or by somebody" in said


def test_what_strangers_wrote_reaches_no_terminal() -> None:
    said = told(2, recovery(reason="\x1b[2J", why="\x1b]0;x\x07", bundle="\x1b[31m"))
    assert not [sign for sign in ("\x1b[2J", "\x1b]0", "\x07", "\x1b[31m") if sign in said]


def test_the_guard_says_what_was_done_to_each_node_and_how_to_give_it_back() -> None:
    drained = Node(name="gpu-02", state=NodeState.DRAINED)
    rows = (
        Isolation(node="gpu-02", incident="i", job="7", since=AT, excluded=True, drained=drained),
        Isolation(node="gpu-03", incident="i", job="7", since=AT),
    )
    said = "\n".join(page(GuardState(cluster="alpha", isolations=rows)))
    assert "gpu-02 since 2026-12-01 12:00:00 UTC for i: excluded from job 7, drained for all" in said
    assert "gpu-03 since 2026-12-01 12:00:00 UTC for i: granted, nothing done" in said
    assert "rerail readmit alpha NODE --reason WHY" in said
