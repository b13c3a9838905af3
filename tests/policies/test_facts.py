"""Whether a plan's facts still hold; which nodes may take a job; how many may be isolated."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from policies.facts import gather, moved, why_void
from policies.isolation import judge
from policies.limits import NODES_PER_INCIDENT
from policies.requeues import TOO_LATE
from rerail.records import (
    Attempt,
    Facts,
    GrantAsk,
    GuardState,
    Job,
    JobKey,
    JobState,
    Node,
    NodeState,
    Plan,
    Step,
    StepKind,
)

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
LATER = NOW + timedelta(minutes=10)
ATTEMPT = Attempt(job=JobKey(cluster="alpha", job_id="41001", submitted_at=NOW), number=1, restarts=1, started_at=NOW)
RESTART = Plan(id="p", rule="restart", steps=(Step(kind=StepKind.RESTART),))
ELSEWHERE = Plan(id="p", rule="elsewhere", steps=(Step(kind=StepKind.EXCLUDE, nodes=("b",)), Step(kind=StepKind.RESTART)))
STOP = Plan(id="p", rule="stop", steps=(Step(kind=StepKind.STOP),))


def job(**more: Any) -> Job:
    said = {"cluster": "alpha", "job_id": "41001", "state": JobState.FAILED, "restarts": 1, "started_at": NOW, "nodes_needed": 2}
    return Job(**(said | more))


def facts(eligible: str = "abcd", **more: Any) -> Facts:
    return Facts(job=job(**more), read_at=NOW, eligible_nodes=tuple(eligible))


HOLDS: dict[str, Facts] = {
    "it lies where it failed": facts(),
    "it hangs": facts(state=JobState.RUNNING),
    "it is suspended": facts(state=JobState.SUSPENDED),
    "it ran out of memory": facts(state=JobState.OUT_OF_MEMORY),
    "a requeue is possible for a while": facts(requeue_until=NOW + timedelta(seconds=1)),
    "the scheduler forgot when it started": facts(started_at=None),
    "as many nodes remain as it needs": facts("abc"),
}
VOID: dict[str, tuple[Facts, str]] = {
    "restarted": (facts(restarts=2), "restarted by somebody else (restart count 2, was 1)"),
    "another job of that id": (facts(restarts=0), "restarted by somebody else"),
    "started again": (facts(started_at=LATER, state=JobState.RUNNING), "started again by somebody else"),
    "cancelled": (facts(state=JobState.CANCELLED), "was cancelled meanwhile"),
    "completed": (facts(state=JobState.COMPLETED), "has completed meanwhile"),
    "preempted": (facts(state=JobState.PREEMPTED), "was preempted meanwhile"),
    "back in the queue": (facts(state=JobState.PENDING), "back in the queue"),
}


@pytest.mark.parametrize("case", HOLDS)
@pytest.mark.parametrize("plan", [RESTART, ELSEWHERE, STOP], ids=lambda p: p.rule)
def test_facts_that_hold(case: str, plan: Plan) -> None:
    assert why_void(plan, ATTEMPT, HOLDS[case]) == ""


@pytest.mark.parametrize("case", VOID)
@pytest.mark.parametrize("plan", [RESTART, ELSEWHERE, STOP], ids=lambda p: p.rule)
def test_facts_that_void_an_approval(case: str, plan: Plan) -> None:
    found, sentence = VOID[case]
    assert sentence in why_void(plan, ATTEMPT, found)
    assert moved(found.job, ATTEMPT)


def test_a_requeue_that_is_no_longer_possible_voids_a_restart_but_no_stop() -> None:
    over = facts(requeue_until=NOW)
    assert why_void(RESTART, ATTEMPT, over) == TOO_LATE
    assert why_void(STOP, ATTEMPT, over) == ""


def test_too_few_nodes_void_an_exclusion() -> None:
    assert why_void(ELSEWHERE, ATTEMPT, facts("ab")) == "only 1 nodes remain for a job that needs 2: it would never start"


def test_nodes_that_are_down_elsewhere_or_excluded_take_no_job() -> None:
    nodes = (
        Node(name="up", state=NodeState.UP, partitions=("main",)),
        Node(name="busy", state=NodeState.UP, partitions=("main",), busy=True),
        Node(name="anywhere", state=NodeState.UP),
        Node(name="down", state=NodeState.DOWN, partitions=("main",)),
        Node(name="drained", state=NodeState.DRAINED, partitions=("main",)),
        Node(name="unknown", state=NodeState.UNKNOWN, partitions=("main",)),
        Node(name="elsewhere", state=NodeState.UP, partitions=("other",)),
        Node(name="excluded", state=NodeState.UP, partitions=("main",)),
    )
    found = gather(job(partition="main", excluded_nodes=("excluded",)), nodes, NOW)
    assert found.eligible_nodes == ("up", "busy", "anywhere")
    assert found.read_at == NOW


@pytest.mark.parametrize(
    ("nodes", "needed", "eligible", "reason"),
    [
        (("a",), 4, 6, ""),
        (("a", "b"), 4, 6, ""),
        (("a", "b"), 4, 5, "only 3 nodes would remain for a job that needs 4"),
        (("a",), 1, 1, "only 0 nodes would remain for a job that needs 1"),
        (("a", "b", "c"), 1, 100, f"3 nodes at once; at most {NODES_PER_INCIDENT} an incident"),
        ((), 4, 4, ""),
    ],
)
def test_isolation_is_granted_within_its_limits_and_else_refused_with_a_sentence(
    nodes: tuple[str, ...], needed: int, eligible: int, reason: str
) -> None:
    ask = GrantAsk(cluster="alpha", incident="i", nodes=nodes, nodes_needed=needed, nodes_eligible=eligible)
    grant = judge(ask, GuardState(cluster="alpha"), NOW)
    assert (grant.granted, grant.reason, grant.at) == (not reason, reason, NOW)


def test_a_pause_refuses_no_isolation_for_good() -> None:
    ask = GrantAsk(cluster="alpha", incident="i", nodes=("a",), nodes_needed=1, nodes_eligible=3)
    assert judge(ask, GuardState(cluster="alpha", paused=True), NOW).granted
