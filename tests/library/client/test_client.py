"""What an engineer asks of rerail from Python, on a real server with the real workflows."""

import asyncio
from datetime import UTC, datetime

import pytest

from rerail import names
from rerail.client import Rerail
from rerail.client.find import Sort, cluster_of, sort_of
from rerail.errors import Malformed, NoSuchJob, NotFound, NotYet, Refused, RerailError
from rerail.records import Attempt, ClusterState, Incident, JobKey, JobWatch, Result, Stage, Verb
from tests.library.client.conftest import Scene


def test_ids_are_recognised_by_how_rerail_names_them() -> None:
    attempt = Attempt(job=JobKey(cluster="alpha", job_id="41001", submitted_at=datetime(2026, 12, 1, tzinfo=UTC)), number=1)
    assert sort_of(names.remediate_job_id(attempt)) is Sort.INCIDENT
    assert sort_of(names.watch_job_id(attempt.job)) is Sort.JOB
    assert sort_of(names.watch_cluster_id("alpha")) is Sort.CLUSTER
    assert sort_of(names.guard_cluster_id("alpha")) is Sort.GUARD
    assert sort_of("41001") is None
    assert {cluster_of(i) for i in (names.remediate_job_id(attempt), names.watch_cluster_id("alpha"))} == {"alpha"}


async def test_an_incident_is_found_approved_and_seen_to_its_end(rerail: Rerail, scene: Scene) -> None:
    incident = await scene.waiting(rerail)
    assert [i.id for i in await rerail.pending(scene.cluster)] == [incident.id]
    answer = await rerail.approve(incident.id, reason="the GPU is gone", by="anna")
    assert (answer.way, answer.plan, answer.verdict) == ("update", scene.plan, Verb.APPROVE)
    outcome = await rerail.wait(incident.id, timeout_s=20)
    assert (outcome.result, outcome.passed_step) == (Result.RECOVERED, 71)
    assert scene.done == ["requeue", "exclude", "start"]
    assert await rerail.pending(scene.cluster) == []
    assert [i.outcome for i in await rerail.incidents(scene.cluster)] == [outcome]


async def test_the_decision_keeps_the_name_given_and_the_identity_recorded(rerail: Rerail, scene: Scene) -> None:
    incident = await scene.waiting(rerail)
    await rerail.reject(incident.id, reason="I look myself", by="bob")
    await rerail.wait(incident.id, timeout_s=20)
    decided = (await rerail.incident(incident.id)).decided
    assert decided
    assert (decided.decision.by, decided.decision.reason) == ("bob", "I look myself")
    assert decided.identity == rerail.client.identity
    assert "@" in decided.identity


async def test_a_rejection_does_nothing_to_the_cluster(rerail: Rerail, scene: Scene) -> None:
    incident = await scene.waiting(rerail)
    await rerail.reject(incident.id, reason="no")
    assert (await rerail.wait(incident.id, timeout_s=20)).result is Result.REJECTED
    assert scene.done == []


async def test_of_two_approvals_at_once_exactly_one_wins(rerail: Rerail, scene: Scene) -> None:
    incident = await scene.waiting(rerail)
    answers = await asyncio.gather(
        *(rerail.approve(incident.id, reason="yes", by=name) for name in ("anna", "bob", "cleo")), return_exceptions=True
    )
    refusals = [a for a in answers if isinstance(a, Refused)]
    assert len(refusals) == 2
    assert len([a for a in answers if not isinstance(a, BaseException)]) == 1
    await rerail.wait(incident.id, timeout_s=20)
    assert scene.done == ["requeue", "exclude", "start"]


async def test_approval_after_a_rejection_is_refused_with_who_and_how(rerail: Rerail, scene: Scene) -> None:
    incident = await scene.waiting(rerail)
    await rerail.reject(incident.id, reason="no", by="bob")
    with pytest.raises(Refused, match=r"(reject by bob|rejected by bob)"):
        await rerail.approve(incident.id, reason="yes", by="anna")
    await rerail.wait(incident.id, timeout_s=20)
    with pytest.raises(Refused, match=r"has ended as rejected: .*reject by bob at .* UTC \(update\); nothing was changed"):
        await rerail.approve(incident.id, reason="yes", by="anna")
    assert scene.done == []


async def test_an_approval_holds_for_the_plan_that_was_shown(rerail: Rerail, scene: Scene) -> None:
    incident = await scene.waiting(rerail)
    with pytest.raises(Refused, match=rf"the plan is {scene.plan} now, not deadbeef.*rerail explain"):
        await rerail.approve(incident.id, reason="yes", plan="deadbeef")
    assert (await rerail.incident(incident.id)).stage is Stage.AWAITING_APPROVAL


@pytest.mark.parametrize(("reason", "by"), [("", "anna"), ("  ", "anna"), ("x" * 501, "anna"), ("yes", "b" * 501)])
async def test_a_decision_without_reason_or_name_never_leaves(reason: str, by: str, rerail: Rerail, scene: Scene) -> None:
    with pytest.raises(Malformed, match=r"(is required|is longer than 500)"):
        await rerail.approve("remediate-job/x/1/2/3", reason=reason, by=by)


@pytest.mark.parametrize("message", [None, "yes", 7, [1], {"verdict": True}, {"verdict": "approve", "reason": 3, "by": []}])
async def test_wrong_types_in_a_message_are_refused_and_change_nothing(message: object, rerail: Rerail, scene: Scene) -> None:
    incident = await scene.waiting(rerail)
    with pytest.raises(Refused, match=r'send {"verdict"'):
        await rerail.line.update(incident.id, "decide", message, str)
    assert (await rerail.incident(incident.id)).stage is Stage.AWAITING_APPROVAL


async def test_a_job_id_is_enough_to_decide(rerail: Rerail, scene: Scene) -> None:
    incident = await scene.waiting(rerail)
    answer = await rerail.approve("41001", reason="yes", cluster=scene.cluster)
    assert answer.incident == incident.id


async def test_the_watcher_of_a_job_leads_to_its_incident(rerail: Rerail, scene: Scene) -> None:
    incident = await scene.waiting(rerail)
    watcher = await rerail.watch(scene.cluster, "41001")
    watch = await rerail.explain(watcher)
    assert isinstance(watch, JobWatch)
    assert watch.incident == incident.id
    assert (await rerail.incident(watcher)).id == incident.id


async def test_explain_shows_the_incident_of_a_job_before_its_watcher(rerail: Rerail, scene: Scene) -> None:
    await rerail.watch(scene.cluster, "41001")
    assert isinstance(await rerail.explain("41001", scene.cluster), JobWatch)
    incident = await scene.waiting(rerail)
    explained = await rerail.explain("41001", scene.cluster)
    assert isinstance(explained, Incident)
    assert explained.id == incident.id


async def test_explain_knows_clusters_by_name(rerail: Rerail, scene: Scene) -> None:
    explained = await rerail.explain(scene.cluster)
    assert isinstance(explained, ClusterState)
    assert explained.cluster == scene.cluster


async def test_a_job_id_on_two_clusters_is_ambiguous_and_both_are_named(rerail: Rerail, scene: Scene, other: Scene) -> None:
    scene.known = other.known = {"51001"}
    mine, theirs = await scene.waiting(rerail, "51001"), await other.waiting(rerail, "51001")
    with pytest.raises(Malformed) as refusal:
        await rerail.approve("51001", reason="yes")
    assert mine.id in str(refusal.value)
    assert theirs.id in str(refusal.value)


async def test_a_second_remediation_of_the_same_attempt_joins(rerail: Rerail, scene: Scene) -> None:
    first = await rerail.remediate(scene.cluster, "41001", reason="it hangs")
    assert await rerail.remediate(scene.cluster, "41001", reason="it still hangs") == first


async def test_an_unknown_cluster_is_told_with_those_that_are_known(rerail: Rerail, scene: Scene) -> None:
    for asking in (
        rerail.watch("gamma", "41001"),
        rerail.remediate("gamma", "41001", reason="why"),
        rerail.pause("gamma", reason="why"),
        rerail.guard("gamma"),
        rerail.explain("41001", "gamma"),
        rerail.pending("gamma"),
    ):
        with pytest.raises(NotFound, match=rf"no cluster 'gamma' is watched; known are .*{scene.cluster}"):
            await asking


async def test_an_unknown_job_is_told(rerail: Rerail, scene: Scene) -> None:
    with pytest.raises(NoSuchJob, match=r"knows no job 99"):
        await rerail.watch(scene.cluster, "99")
    with pytest.raises(NotFound, match=r"nothing is known of job 99"):
        await rerail.approve("99", reason="yes")
    with pytest.raises(NotFound, match=r"there is no remediate-job/x/1/2/3"):
        await rerail.approve("remediate-job/x/1/2/3", reason="yes")


HOSTILE = (
    "41001; rm -rf /",
    "$(id)",
    "`id`",
    "41001 OR 1=1",
    '41001" OR WorkflowType = "GuardCluster',
    "-1",
    "a\x1b[31mb",
    "",
    "x" * 65,
)


@pytest.mark.parametrize("job_id", HOSTILE)
async def test_what_is_no_job_id_is_refused_before_it_goes_anywhere(job_id: str, rerail: Rerail, scene: Scene) -> None:
    for asking in (
        rerail.watch(scene.cluster, job_id),
        rerail.remediate(scene.cluster, job_id, reason="why"),
        rerail.explain(job_id, scene.cluster),
        rerail.approve(job_id, reason="yes"),
    ):
        with pytest.raises(Malformed) as refusal:
            await asking
        assert str(refusal.value).isprintable()


@pytest.mark.parametrize(
    "cluster", ['x" OR RerailStage = "awaiting_approval', "x' OR 'a'='a", "x\\", 'x\\" OR "a" = "a', "%", "x`"]
)
async def test_a_value_in_a_list_filter_stays_inside_its_quotes(cluster: str, rerail: Rerail, scene: Scene) -> None:
    await scene.waiting(rerail)
    assert await rerail.pending(scene.cluster)
    for asking in (rerail.pending(cluster), rerail.incidents(cluster)):
        with pytest.raises(NotFound, match=r"no cluster .* is watched"):
            await asking
    assert await rerail.incidents(job_id=cluster) == []


async def test_waiting_that_takes_too_long_says_where_to_look(rerail: Rerail, scene: Scene) -> None:
    incident = await scene.waiting(rerail)
    with pytest.raises(NotYet, match=r"has not ended within 0.2 s; `rerail explain"):
        await rerail.wait(incident.id, timeout_s=0.2)


async def test_waiting_shows_every_stage(rerail: Rerail, scene: Scene) -> None:
    incident = await scene.waiting(rerail)
    stages: list[Stage] = []
    asked = asyncio.Event()

    def seen(now: Incident) -> None:
        stages.append(now.stage)
        asked.set()

    waiting = asyncio.create_task(rerail.wait(incident.id, timeout_s=20, seen=seen))
    await asked.wait()
    await rerail.approve(incident.id, reason="yes")
    assert (await waiting).result is Result.RECOVERED
    assert stages[0] is Stage.AWAITING_APPROVAL


async def test_an_expired_incident_ends_with_nothing_done(rerail: Rerail, scene: Scene) -> None:
    scene.expires_s = 0.3
    incident = await rerail.remediate(scene.cluster, "41001", reason="why")
    assert (await rerail.wait(incident, timeout_s=20)).result is Result.EXPIRED
    with pytest.raises(Refused, match=r"ended as expired: .*nobody decided"):
        await rerail.approve(incident, reason="yes")


async def test_a_terminated_incident_has_an_outcome_too(rerail: Rerail, scene: Scene) -> None:
    incident = await scene.waiting(rerail)
    await rerail.client.get_workflow_handle(incident.id).terminate("by hand")
    outcome = await rerail.wait(incident.id, timeout_s=20)
    assert outcome.result is Result.FAILED
    assert "look at the job itself" in outcome.why


async def test_a_pause_is_kept_and_its_end_too(rerail: Rerail, scene: Scene) -> None:
    assert "is paused" in await rerail.pause(scene.cluster, reason="maintenance", by="anna")
    guard = await rerail.guard(scene.cluster)
    assert (guard.paused, guard.paused_by, guard.paused_why) == (True, "anna", "maintenance")
    assert "paused already" in await rerail.pause(scene.cluster, reason="again", by="bob")
    await rerail.resume(scene.cluster, reason="done")
    assert not (await rerail.guard(scene.cluster)).paused


async def test_the_clusters_are_listed(rerail: Rerail, scene: Scene, other: Scene) -> None:
    assert {scene.cluster, other.cluster} <= {state.cluster for state in await rerail.clusters()}


async def test_an_incident_that_cannot_be_asked_does_not_hide_the_others(rerail: Rerail, scene: Scene) -> None:
    scene.known = {"1", "2"}
    good, bad = await scene.waiting(rerail, "1"), await scene.waiting(rerail, "2")
    unread: list[str] = []
    ask = rerail.lookup.ask

    async def stuck(incident: str) -> Incident:
        if incident == bad.id:
            raise RerailError("it is stuck")
        return await ask(incident)

    rerail.lookup.ask = stuck  # type: ignore[method-assign]
    assert [i.id for i in await rerail.pending(scene.cluster, unread=lambda name, _: unread.append(name))] == [good.id]
    assert unread == [bad.id]
