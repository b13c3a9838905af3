"""From verdict and circumstances to a plan: each rule by its name, the first that applies decides."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from policies.circumstances import Circumstances
from policies.limits import NODES_PER_INCIDENT, RESTART_WINDOW, RESTARTS_PER_WINDOW
from policies.permits import Permits
from policies.plan import plan
from policies.rules import RULES
from rerail.records import (
    Advice,
    Anomaly,
    Attempt,
    Facts,
    FaultClass,
    Job,
    JobKey,
    JobState,
    Kind,
    Mode,
    Plan,
    Recovery,
    Requeuer,
    Result,
    StepKind,
    Verdict,
)

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
NODES = tuple(f"gpu-{n:02}" for n in range(1, 7))
ATTEMPT = Attempt(job=JobKey(cluster="alpha", job_id="41001", submitted_at=NOW), number=1, started_at=NOW)


def verdict(**more: Any) -> Verdict:
    """A crash for which a node is to blame, unless told otherwise."""
    said: dict[str, Any] = {
        "kind": Kind.CRASH,
        "fault": FaultClass.HARDWARE,
        "cause": "gpu_fell_off_the_bus",
        "culprit_nodes": ("gpu-02",),
        "advice": Advice.RESTART_EXCLUDING_NODES,
        "why": "Xid 79 on gpu-02",
    }
    return Verdict(**(said | more))


UNKNOWN: dict[str, Any] = {"fault": FaultClass.UNKNOWN, "cause": "unknown", "culprit_nodes": (), "advice": Advice.RESTART}
BUG: dict[str, Any] = {"fault": FaultClass.APPLICATION, "cause": "exception", "culprit_nodes": (), "advice": Advice.STOP}


def around(
    *,
    job: dict[str, Any] | None = None,
    history: tuple[Recovery, ...] = (),
    eligible: tuple[str, ...] = NODES,
    facts: dict[str, Any] | None = None,
    **more: Any,
) -> Circumstances:
    record = {"cluster": "alpha", "job_id": "41001", "state": JobState.FAILED, "nodes_needed": 4, "started_at": NOW} | (job or {})
    read = Facts(job=Job(**record), read_at=NOW, eligible_nodes=eligible, **(facts or {}))
    seen = Anomaly(id="a", attempt=ATTEMPT, kind=Kind.CRASH, detector="exited", seen_at=NOW, last_step=42)
    return Circumstances(anomaly=seen, facts=read, history=history, now=NOW, **more)


def recovery(ago: timedelta = timedelta(minutes=5), **more: Any) -> Recovery:
    said: dict[str, Any] = {"attempt": 1, "kind": Kind.CRASH, "fault": FaultClass.UNKNOWN, "cause": "unknown", "step": 42}
    return Recovery(**({**said, "result": Result.RECOVERED, "restarted": True, "at": NOW - ago} | more))


def steps(made: Plan) -> list[str]:
    return [" ".join([step.kind, *step.nodes]) for step in made.steps]


def made(because: Verdict, where: Circumstances, rule: str) -> Plan:
    found = plan(because, where)
    assert found.rule == rule, found
    return found


LEAVE = '{"rerail": {"leave": "I am debugging"}}'
CHAIN = '{"APS": {"auto_resume_mode": "singleton_dependency"}}'
NO_RESTART = '{"rerail": {"max_restarts": 0}}'
ONE_RESTART = '{"APS": {"auto_resume_mode": "requeue", "max_requeue_times": 1}}'
OVER = NOW - timedelta(seconds=1)
BESIDE = Job(cluster="alpha", job_id="41002", state=JobState.RUNNING)


def back(by: Requeuer = Requeuer.NODE_FAILURE, *, eligible: tuple[str, ...] = NODES, **job: Any) -> Circumstances:
    """The job as it waits (or runs) after somebody else has requeued it."""
    return around(
        job={"state": JobState.PENDING, "restarts": 1, "started_at": None} | job, eligible=eligible, facts={"requeued_by": by}
    )


CASES: dict[str, tuple[Verdict, Circumstances, str, list[str]]] = {
    "nothing is wrong": (verdict(kind=Kind.NONE, advice=Advice.NO_ACTION), around(), "nothing-wrong", ["nothing"]),
    "no action is advised": (verdict(advice=Advice.NO_ACTION), around(), "nothing-wrong", ["nothing"]),
    "a person cancelled it": (verdict(), around(job={"state": JobState.CANCELLED}), "ended-by-will", ["nothing"]),
    "it was preempted": (verdict(), around(job={"state": JobState.PREEMPTED}), "ended-by-will", ["nothing"]),
    "it has completed": (verdict(), around(job={"state": JobState.COMPLETED}), "ended-by-will", ["nothing"]),
    "somebody requeued it": (verdict(), around(job={"state": JobState.PENDING}), "gone-on", ["nothing"]),
    "somebody restarted it": (
        verdict(),
        around(job={"restarts": 1, "state": JobState.RUNNING}),
        "gone-on",
        ["nothing"],
    ),
    "a slow job": (verdict(kind=Kind.STRAGGLER, culprit_nodes=()), around(), "report-straggler", ["tell"]),
    "a slow node with evidence": (
        verdict(kind=Kind.STRAGGLER),
        around(job={"state": JobState.RUNNING}),
        "restart-elsewhere",
        ["exclude gpu-02", "restart"],
    ),
    "a bug": (verdict(**BUG), around(), "would-fail-again", ["stop"]),
    "the same unknown cause at that step": (
        verdict(**UNKNOWN),
        around(history=(recovery(),)),
        "same-failure-again",
        ["stop"],
    ),
    "an unknown cause at another step": (verdict(**UNKNOWN), around(history=(recovery(step=41),)), "restart", ["restart"]),
    "another cause at the same step": (verdict(**UNKNOWN), around(history=(recovery(cause="oom"),)), "restart", ["restart"]),
    "the same step, but it was not restarted": (
        verdict(**UNKNOWN),
        around(history=(recovery(restarted=False),)),
        "restart",
        ["restart"],
    ),
    "its owner is debugging it": (verdict(**BUG), around(job={"comment": LEAVE}), "left-alone", ["tell"]),
    "one of a chain": (verdict(), around(job={"comment": CHAIN}), "chain-goes-on", ["tell"]),
    "its owner allows no restart": (verdict(), around(job={"comment": NO_RESTART}), "wished-fewer-restarts", []),
    "its owner allows one restart, and none was": (
        verdict(),
        around(job={"comment": ONE_RESTART}, history=(recovery(restarted=False, step=1),)),
        "restart-elsewhere",
        ["exclude gpu-02", "restart"],
    ),
    "its owner allows one restart, and one was": (
        verdict(),
        around(job={"comment": ONE_RESTART}, history=(recovery(timedelta(days=2), step=1),)),
        "wished-fewer-restarts",
        [],
    ),
    "its owner asks for that node by name": (verdict(), around(job={"required_nodes": NODES[:2]}), "restart-elsewhere", []),
    "its owner asks for another node by name": (
        verdict(),
        around(job={"required_nodes": NODES[2:4]}),
        "restart-elsewhere",
        ["exclude gpu-02", "restart"],
    ),
    "Slurm requeued it, and its owner asks for that node": (
        verdict(),
        back(required_nodes=NODES[:2]),
        "scheduler-restarts",
        ["watch"],
    ),
    "a dependant has started": (verdict(), around(facts={"dependants": (BESIDE,)}), "would-run-beside", []),
    "Slurm requeued it after a node's failure": (verdict(), back(), "scheduler-restarts", ["exclude gpu-02", "watch"]),
    "Slurm requeued it, and no node is convicted": (verdict(**UNKNOWN), back(), "scheduler-restarts", ["watch"]),
    "Slurm requeued it, and it runs again": (verdict(), back(state=JobState.RUNNING), "scheduler-restarts", ["watch"]),
    "Slurm requeued it, and too few nodes are left": (verdict(), back(eligible=NODES[:4]), "scheduler-restarts", ["watch"]),
    "Slurm preempted and requeued it": (verdict(), back(Requeuer.PREEMPTION), "scheduler-restarts", ["nothing"]),
    "a node of it is maintained": (verdict(), back(Requeuer.MAINTENANCE), "scheduler-restarts", ["nothing"]),
    "somebody requeued it again": (verdict(), back(Requeuer.SOMEBODY), "gone-on", ["nothing"]),
    "no batch job": (verdict(), around(job={"batch": False}), "cannot-requeue", []),
    "its owner wants no requeue": (verdict(), around(job={"requeue": False}), "cannot-requeue", []),
    "too late for a requeue": (verdict(), around(job={"requeue_until": OVER}), "cannot-requeue", []),
    "no batch job, but a bug": (verdict(**BUG), around(job={"batch": False}), "would-fail-again", ["stop"]),
    "a node with evidence against it": (verdict(), around(), "restart-elsewhere", ["exclude gpu-02", "restart"]),
    "two nodes with evidence": (
        verdict(culprit_nodes=("gpu-02", "gpu-03")),
        around(),
        "restart-elsewhere",
        ["exclude gpu-02 gpu-03", "restart"],
    ),
    "too few nodes would remain": (verdict(), around(eligible=NODES[:4]), "restart-elsewhere", []),
    "a killed rank": (verdict(**UNKNOWN), around(), "restart", ["restart"]),
    "exclusion advised without a node": (verdict(culprit_nodes=()), around(), "restart", ["restart"]),
    "a node named, but a plain restart advised": (verdict(advice=Advice.RESTART), around(), "restart", ["restart"]),
}


@pytest.mark.parametrize("case", CASES)
def test_the_rule_that_applies_and_its_steps(case: str) -> None:
    because, where, rule, wanted = CASES[case]
    found = made(because, where, rule)
    assert steps(found) == wanted
    assert bool(found.refusal) == (not wanted)
    assert found.refusal or all(step.why for step in found.steps)


def test_every_rule_is_tried_here_but_those_with_tests_of_their_own() -> None:
    tried = {rule for _, _, rule, _ in CASES.values()}
    assert {rule.name for rule in RULES} - tried == {"restarted-too-often", "too-many-suspects"}


def test_rules_have_names_and_reasons_of_their_own() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)
    assert all(rule.why for rule in RULES)


@pytest.mark.parametrize("more", range(1, 4))
def test_many_suspects_are_never_isolated(more: int) -> None:
    suspects = NODES[: NODES_PER_INCIDENT + more]
    found = made(verdict(culprit_nodes=suspects), around(eligible=tuple(f"n{n}" for n in range(100))), "too-many-suspects")
    assert found.excluded == ()
    assert found.refusal.startswith(f"{len(suspects)} suspects")
    assert not found.ask


def test_a_job_may_have_a_person_asked_and_never_the_other_way_round() -> None:
    asks, more = '{"rerail": {"mode": "monitor"}}', '{"rerail": {"mode": "autonomous"}}'
    assert made(verdict(), around(job={"comment": asks}, mode=Mode.AUTONOMOUS), "restart-elsewhere").ask
    assert made(verdict(), around(job={"comment": more}, mode=Mode.MONITOR), "restart-elsewhere").ask
    assert not made(verdict(), around(job={"comment": more}, mode=Mode.AUTONOMOUS), "restart-elsewhere").ask


def test_three_restarts_an_hour_and_then_a_person() -> None:
    recent = tuple(recovery(timedelta(minutes=10 * n), step=n) for n in range(1, RESTARTS_PER_WINDOW + 1))
    assert made(verdict(), around(history=recent[1:]), "restart-elsewhere").steps
    found = made(verdict(), around(history=recent), "restarted-too-often")
    assert found.refusal == "it was restarted 3 times within an hour; a person has to look before it is restarted again"


def test_restarts_of_long_ago_or_that_never_were_do_not_count() -> None:
    old = tuple(recovery(RESTART_WINDOW + timedelta(seconds=n + 1), step=n) for n in range(9))
    rejected = tuple(recovery(step=n, restarted=False) for n in range(9))
    assert made(verdict(), around(history=old + rejected), "restart-elsewhere")


def test_the_same_hardware_fault_at_the_same_step_convicts_the_node_and_not_the_job() -> None:
    same = recovery(fault=FaultClass.HARDWARE, cause="gpu_fell_off_the_bus")
    assert made(verdict(), around(history=(same,)), "restart-elsewhere")


def test_without_a_known_step_nothing_is_the_same_step() -> None:
    where = around(history=(recovery(step=None),))
    blank = where.model_copy(update={"anomaly": where.anomaly.model_copy(update={"last_step": None})})
    assert made(verdict(**UNKNOWN), blank, "restart")


@pytest.mark.parametrize("case", CASES)
def test_monitor_mode_asks_before_every_effect_and_for_nothing_else(case: str) -> None:
    because, where, _, wanted = CASES[case]
    effects = {"exclude", "restart", "stop"} & {step.split()[0] for step in wanted}
    assert plan(because, where).ask == bool(effects)
    assert not plan(because, where.model_copy(update={"mode": Mode.AUTONOMOUS})).ask


def test_a_plan_says_until_when_a_requeue_is_possible_and_how_many_nodes_remain() -> None:
    until = NOW + timedelta(hours=1)
    found = plan(verdict(), around(job={"requeue_until": until}))
    assert (found.requeue_until, found.nodes_needed, found.nodes_eligible) == (until, 4, 5)


def test_the_plans_id_is_the_same_for_the_same_facts_only() -> None:
    first = plan(verdict(), around())
    assert first.id == plan(verdict(confidence=0.3, why="said otherwise"), around()).id
    others = [
        plan(verdict(culprit_nodes=("gpu-03",)), around()),
        plan(verdict(cause="ecc"), around()),
        plan(verdict(fault=FaultClass.SYSTEM), around()),
        plan(verdict(**UNKNOWN), around()),
        plan(verdict(), around(job={"batch": False})),
    ]
    where = around()
    second = ATTEMPT.model_copy(update={"number": 2})
    others.append(plan(verdict(), where.model_copy(update={"anomaly": where.anomaly.model_copy(update={"attempt": second})})))
    ids = [first.id, *(other.id for other in others)]
    assert len(set(ids)) == len(ids)
    assert all(len(i) == 8 and set(i) <= set("0123456789abcdef") for i in ids)


VERDICTS = some.builds(
    Verdict,
    kind=some.sampled_from(Kind),
    fault=some.sampled_from(FaultClass),
    cause=some.sampled_from(["unknown", "ecc"]),
    culprit_nodes=some.lists(some.sampled_from(NODES), unique=True).map(tuple),
    advice=some.sampled_from(Advice),
)
JOBS = some.fixed_dictionaries(
    {
        "state": some.sampled_from(JobState),
        "batch": some.booleans(),
        "requeue": some.booleans(),
        "nodes_needed": some.integers(1, 6),
        "restarts": some.integers(0, 2),
    }
)
HISTORIES = some.lists(
    some.builds(
        recovery,
        some.timedeltas(timedelta(0), timedelta(hours=3)),
        step=some.sampled_from([41, 42, None]),
        restarted=some.booleans(),
        cause=some.sampled_from(["unknown", "ecc"]),
    ),
    max_size=5,
).map(tuple)


@given(because=VERDICTS, job=JOBS, history=HISTORIES, eligible=some.sets(some.sampled_from(NODES)), mode=some.sampled_from(Mode))
def test_whatever_the_verdict_a_plan_stays_within_its_limits(
    because: Verdict, job: dict[str, Any], history: tuple[Recovery, ...], eligible: set[str], mode: Mode
) -> None:
    found = plan(because, around(job=job, history=history, eligible=tuple(sorted(eligible)), mode=mode))
    assert bool(found.refusal) != bool(found.steps)
    assert set(found.excluded) <= set(because.culprit_nodes)
    assert len(found.excluded) <= NODES_PER_INCIDENT
    if found.excluded:
        assert len(eligible - set(found.excluded)) >= job["nodes_needed"]
        assert found.has(StepKind.RESTART)
    if found.has(StepKind.RESTART):
        assert job["batch"]
        assert job["requeue"]
        assert job["restarts"] == ATTEMPT.restarts
    acts = any(found.has(kind) for kind in (StepKind.RESTART, StepKind.STOP, StepKind.EXCLUDE))
    assert found.ask == (acts and mode is Mode.MONITOR)


def test_watching_what_the_scheduler_restarts_needs_nobodys_approval_but_an_exclusion_does() -> None:
    assert not made(verdict(**UNKNOWN), back(), "scheduler-restarts").ask
    assert made(verdict(), back(), "scheduler-restarts").ask


def test_an_owners_no_requeue_is_lifted_only_where_the_site_allows_it() -> None:
    no = {"requeue": False}
    refused = made(verdict(), around(job=no), "cannot-requeue")
    assert "`scontrol update jobid=41001 Requeue=1` lifts that" in refused.refusal
    assert not refused.lifts
    allowed = made(verdict(), around(job=no, permits=Permits(lift_no_requeue=True)), "restart-elsewhere")
    assert (allowed.lifts, allowed.refusal) == (True, "")
    assert not made(verdict(), around(permits=Permits(lift_no_requeue=True)), "restart-elsewhere").lifts


def test_every_plan_of_a_batch_job_carries_the_command_that_submits_it_again() -> None:
    late = around(job={"requeue_until": OVER, "command": "/home/alice/run.sh"}, script="/bundles/1/batch.sh")
    found = made(verdict(), late, "cannot-requeue")
    assert "submit it again with the command below" in found.refusal
    assert found.again == "sbatch \\\n  --nodes=4 \\\n  --exclude=gpu-02 \\\n  /bundles/1/batch.sh"
