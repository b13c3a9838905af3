"""Effects: each looks, acts once at most and only on the attempt that failed, and reads back. On a cluster on paper."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities import acting, effects
from activities.acting import FORGOTTEN, PAUSED, TOO_LATE, Acting
from activities.asks import Effect, EffectAsk
from rerail.errors import OutcomeUnknown, Refused, Unreadable
from rerail.records import Attempt, GuardState, Isolation, JobKey, JobState
from tests.activities.paper import PaperAudit, PaperScheduler, failed_job

AT = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
ATTEMPT = Attempt(job=JobKey(cluster="alpha", job_id="41001", submitted_at=AT), number=1)


class Guard:
    """A guard that says whether the cluster is paused."""

    def __init__(self, paused: bool = False) -> None:
        self.paused = paused
        self.isolations: tuple[Isolation, ...] = ()

    def get_workflow_handle(self, _: str) -> Any:
        async def query(*_: Any, **__: Any) -> GuardState:
            said = {"paused": self.paused, "paused_by": "ada", "paused_why": "maintenance"}
            return GuardState(cluster="alpha", isolations=self.isolations, **said)

        return SimpleNamespace(query=query)


class World:
    """Scheduler, audit and guard, and the activities over them."""

    def __init__(self, **job: Any) -> None:
        self.scheduler = PaperScheduler({"41001": failed_job(**job)})
        self.audit = PaperAudit()
        self.guard = Guard()
        self.acting = Acting({"alpha": self.scheduler}, self.audit, self.guard)  # type: ignore[arg-type]

    async def do(self, name: str, nodes: tuple[str, ...] = ()) -> Effect:
        ask = EffectAsk(run="run", attempt=ATTEMPT, nodes=nodes)
        done: Effect = await ActivityEnvironment().run(getattr(self.acting, name), ask)
        return done

    @property
    def commands(self) -> list[str]:
        return [command[0] for command in self.scheduler.commands]

    def at(self, command: str, do: Callable[[], None]) -> None:
        """Have something happen right before the command's first use."""
        left = [do]

        def before(name: str) -> None:
            if name == command and left:
                left.pop()()

        self.scheduler.before = before


def raises(error: Exception) -> Callable[[], None]:
    def do() -> None:
        raise error

    return do


WAITING: dict[str, Any] = {"state": JobState.PENDING, "restarts": 1, "begins_at": datetime.now(UTC) + timedelta(hours=1)}


async def test_a_restart_is_three_commands_each_read_back_and_kept_once() -> None:
    world = World()
    for name, nodes in (("requeue", ()), ("exclude", ("gpu-02",)), ("start", ())):
        assert not (await world.do(name, nodes)).found_done
        assert (await world.do(name, nodes)).found_done, "a second try finds it done"
    assert world.commands == ["requeue", "exclude", "start_now"]
    assert [key.removeprefix("test/run/") for key in world.audit.kept] == [
        *("requeue", "requeue-read-back"),
        *("exclude", "exclude-read-back"),
        *("start", "start-read-back"),
    ]


async def test_a_command_whose_outcome_is_unknown_is_looked_for_and_not_repeated() -> None:
    world = World()
    requeue = world.scheduler.requeue

    def answers_never(job_id: str, *, running: bool) -> None:
        requeue(job_id, running=running)
        raise OutcomeUnknown("no answer within 10 s")

    world.scheduler.requeue = answers_never  # type: ignore[method-assign]
    assert not (await world.do("requeue")).found_done
    assert world.commands == ["requeue"]
    assert world.scheduler.jobs["41001"].restarts == 1


async def test_a_refusal_that_only_means_that_somebody_was_faster_is_no_failure() -> None:
    world = World()

    def somebody_else() -> None:
        world.scheduler.change("41001", restarts=1, state=JobState.PENDING)
        raise Refused("the job is pending")

    world.at("requeue", somebody_else)
    assert (await world.do("requeue")).state is JobState.PENDING
    assert world.commands == []


async def test_what_the_scheduler_refuses_for_good_is_final_with_its_sentence() -> None:
    world = World()
    world.at("requeue", raises(Refused("access denied; give rerail the operator's right")))
    with pytest.raises(ApplicationError, match="access denied") as caught:
        await world.do("requeue")
    assert caught.value.non_retryable
    assert world.audit.kept == {}


async def test_a_scheduler_that_cannot_be_read_is_tried_again_and_nothing_is_done() -> None:
    world = World()
    world.at("job", raises(Unreadable("slurmctld does not answer")))
    with pytest.raises(Unreadable):
        await world.do("requeue")
    assert world.commands == []


@pytest.mark.parametrize("name", ["requeue", "exclude", "start", "stop"])
async def test_while_paused_nothing_is_done(name: str) -> None:
    world = World(**({} if name == "requeue" else {"state": JobState.RUNNING} if name == "stop" else WAITING))
    world.guard.paused = True
    with pytest.raises(ApplicationError, match="paused by ada: maintenance") as caught:
        await world.do(name, ("gpu-02",) if name == "exclude" else ())
    assert caught.value.type == PAUSED
    assert world.commands == []
    assert world.audit.kept == {}


@pytest.mark.parametrize("state", [JobState.CANCELLED, JobState.COMPLETED, JobState.PREEMPTED, JobState.PENDING])
async def test_a_job_that_went_on_by_itself_is_not_requeued(state: JobState) -> None:
    world = World(state=state)
    with pytest.raises(ApplicationError) as caught:
        await world.do("requeue")
    assert caught.value.type == TOO_LATE
    assert world.commands == []


async def test_a_job_that_was_started_again_is_not_stopped() -> None:
    world = World(state=JobState.RUNNING, restarts=1)
    with pytest.raises(ApplicationError) as caught:
        await world.do("stop")
    assert caught.value.type == TOO_LATE
    assert world.commands == []


async def test_a_job_that_has_ended_already_stays_ended() -> None:
    world = World()
    assert (await world.do("stop")).found_done
    assert world.commands == []


async def test_an_exclusion_comes_too_late_for_a_job_that_runs_already() -> None:
    world = World(state=JobState.RUNNING, restarts=1)
    with pytest.raises(ApplicationError) as caught:
        await world.do("exclude", ("gpu-02",))
    assert caught.value.type == TOO_LATE


async def test_an_exclusion_keeps_what_the_owner_excluded() -> None:
    world = World(**WAITING, excluded_nodes=("gpu-06",))
    await world.do("exclude", ("gpu-02",))
    assert world.scheduler.commands == [("exclude", "41001", ("gpu-02", "gpu-06"))]


async def test_a_begin_time_stays_until_the_failed_attempt_is_cleaned_up() -> None:
    world = World(**WAITING, flags=("completing",))
    looks = []

    def cleaned_up(name: str) -> None:
        if name == "job":
            looks.append(len(world.scheduler.commands))
            if len(looks) == 3:
                world.scheduler.change("41001", flags=())

    world.scheduler.before = cleaned_up
    await world.do("start")
    assert world.commands == ["start_now"]
    assert looks[:3] == [0, 0, 0]


async def test_a_requeue_that_the_controller_has_forgotten_is_waited_for() -> None:
    """A slurmctld that is killed comes back with what it had written down, and sees later that the job is gone."""
    world = World(state=JobState.RUNNING)
    looks: list[str] = []

    def gone(name: str) -> None:
        looks.append(name)
        if looks.count("job") == 3:
            world.scheduler.change("41001", **WAITING)

    world.scheduler.before = gone
    assert not (await world.do("exclude", ("gpu-02",))).found_done
    assert world.commands == ["exclude"]
    assert looks.index("exclude") > 2


@pytest.mark.parametrize("name", ["exclude", "take_back", "start"])
async def test_a_requeue_that_stays_forgotten_is_told_apart_from_one_that_is_slow(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = {"exclude": effects.EXCLUDE, "take_back": effects.TAKE_BACK, "start": effects.START}
    monkeypatch.setattr(acting, name.upper(), replace(kinds[name], patience_s=0.0))
    world = World(excluded_nodes=("gpu-02",) if name == "take_back" else ())
    with pytest.raises(ApplicationError, match="has forgotten the requeue") as caught:
        await world.do(name, ("gpu-02",))
    assert caught.value.type == FORGOTTEN
    assert world.commands == []


async def test_a_node_is_given_back_and_the_owners_own_list_stays() -> None:
    world = World(**WAITING, excluded_nodes=("gpu-02", "gpu-03", "gpu-06"))
    await world.do("take_back", ("gpu-03",))
    assert world.scheduler.commands == [("exclude", "41001", ("gpu-02", "gpu-06"))]
    assert (await world.do("take_back", ("gpu-03",))).found_done


@pytest.mark.parametrize(("lifts", "said"), [(True, ["permit_requeue", "requeue"]), (False, ["requeue"])])
async def test_an_owners_no_requeue_is_lifted_only_when_the_plan_says_so(lifts: bool, said: list[str]) -> None:
    world = World(requeue=False)
    ask = EffectAsk(run="run", attempt=ATTEMPT, lifts=lifts)
    await ActivityEnvironment().run(world.acting.requeue, ask)
    assert world.commands == said  # a scheduler that minds refuses the requeue itself


async def test_an_exclusion_of_ours_whose_node_was_readmitted_goes_and_the_owners_own_stays() -> None:
    world = World(**WAITING, excluded_nodes=("gpu-03", "gpu-04", "gpu-06"))
    world.guard.isolations = (Isolation(node="gpu-03", incident="i", job="41001", since=AT),)
    ask = EffectAsk(run="run", attempt=ATTEMPT, nodes=("gpu-02",), ours=("gpu-03", "gpu-04"))
    await ActivityEnvironment().run(world.acting.exclude, ask)
    assert world.scheduler.commands == [("exclude", "41001", ("gpu-02", "gpu-03", "gpu-06"))]
    assert "readmitted: gpu-04" in next(iter(world.audit.kept.values())).text


async def test_where_nothing_is_to_be_excluded_and_nothing_was_readmitted_nothing_is_done_nor_kept() -> None:
    world = World(**WAITING, excluded_nodes=("gpu-03",))
    world.guard.isolations = (Isolation(node="gpu-03", incident="i", job="41001", since=AT),)
    ask = EffectAsk(run="run", attempt=ATTEMPT, ours=("gpu-03",))
    await ActivityEnvironment().run(world.acting.exclude, ask)
    assert (world.scheduler.commands, world.audit.kept) == ([], {})
