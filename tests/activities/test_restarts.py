"""Before and after a restart: who requeued, who else restarts, why a job waits, what is kept. On a cluster on paper."""

from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from temporalio.testing import ActivityEnvironment

from activities import verifying
from activities.asks import FollowAsk, ProposeAsk, Proposed, RecheckAsk, Rechecked, Seen, VerifyAsk
from activities.evidence import SCRIPT, Sources, collect
from activities.judging import Judging, Terms
from activities.tail import Tails
from activities.verifying import Proof, Verifier
from activities.view import ClusterView
from activities.watching import Follower
from adapters.hosts.silent import SilentHosts
from adapters.logs.files import FileLogs
from policies.permits import Permits
from rerail.errors import Unreadable
from rerail.records import Advice, Anomaly, Attempt, FaultClass, Habits, Job, JobKey, JobState, Kind, StepKind, Verdict
from tests.activities.paper import NODES, PaperAudit, PaperScheduler, failed_job

AT = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
ATTEMPT = Attempt(job=JobKey(cluster="alpha", job_id="41001", submitted_at=AT), number=1, started_at=AT)
BACK: dict[str, Any] = {"state": JobState.PENDING, "restarts": 1, "nodes": (), "started_at": None}
VERDICT = Verdict(
    kind=Kind.CRASH, fault=FaultClass.SYSTEM, culprit_nodes=(NODES[1],), advice=Advice.RESTART_EXCLUDING_NODES, why="it is down"
)


class World:
    """A scheduler on paper with real files for logs."""

    def __init__(self, folder: Path, **job: Any) -> None:
        self.folder = folder
        self.log = folder / "train.log"
        self.log.write_text("step=1 loss=2\n")
        self.scheduler = PaperScheduler({"41001": failed_job(output=str(self.log), started_at=AT, **job)})
        self.sources = Sources(self.scheduler, FileLogs(), SilentHosts())
        self.view = ClusterView(self.scheduler, clock=count(0.0, 10.0).__next__)  # a read is due at each look

    def judging(self, **terms: Any) -> Judging:
        return Judging({"alpha": self.sources}, {"alpha": Terms(**terms)}, PaperAudit(), self.folder / "bundles")

    async def proposed(self, verdict: Verdict = VERDICT, *, bundle: str = "", **terms: Any) -> Proposed:
        ask = ProposeAsk(run="run", anomaly=self.anomaly(), verdict=verdict, bundle=bundle)
        made: Proposed = await ActivityEnvironment().run(self.judging(**terms).propose, ask)
        return made

    def anomaly(self, **more: Any) -> Anomaly:
        said = {"kind": Kind.CRASH, "detector": "exited", "seen_at": AT, "ran_on": "gpu-[01-04]"}
        return Anomaly(id="a", attempt=ATTEMPT, **(said | more))

    def add(self, job_id: str, **more: Any) -> None:
        self.scheduler.jobs[job_id] = Job(cluster="alpha", job_id=job_id, **more)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def following(world: World) -> Follower:
    """A follower that has seen the job run."""
    world.scheduler.change("41001", state=JobState.RUNNING)
    follower = Follower(world.view, world.sources.logs, FollowAsk(attempt=ATTEMPT))
    assert await follower.look() is None
    return follower


async def test_a_job_that_the_scheduler_requeued_after_a_nodes_failure_is_an_anomaly_of_its_last_attempt(world: World) -> None:
    follower = await following(world)
    world.scheduler.down.add(NODES[1])
    world.scheduler.change("41001", **BACK)
    seen = await follower.look()
    assert seen
    assert (seen.seen, seen.before, seen.at.attempt.number) == (Seen.NEXT_ATTEMPT, ATTEMPT, 2)
    assert [symptom.kind for symptom in seen.symptoms] == [Kind.CRASH]
    assert seen.at.ran_on == "gpu-[01-04]"


@pytest.mark.parametrize("word", ["DUE TO PREEMPTION", "DUE TO JOB REQUEUE", ""])
async def test_preemption_and_a_persons_requeue_are_no_anomalies(world: World, word: str) -> None:
    follower = await following(world)
    world.log.write_text(f"step=1\nslurmstepd: error: *** JOB 41001 ON gpu-01 CANCELLED AT 12:00 {word} ***\n")
    world.scheduler.change("41001", **BACK)
    seen = await follower.look()
    assert seen
    assert (seen.seen, seen.symptoms) == (Seen.NEXT_ATTEMPT, ())


async def test_nodes_that_can_not_be_asked_make_no_anomaly_of_a_requeue(world: World) -> None:
    follower = await following(world)

    def silent(name: str) -> None:
        if name == "nodes":
            raise Unreadable("slurmctld is silent")

    world.scheduler.before = silent
    world.scheduler.change("41001", **BACK)
    seen = await follower.look()
    assert seen
    assert (seen.seen, seen.symptoms) == (Seen.NEXT_ATTEMPT, ())


async def test_who_waits_for_the_end_of_a_job_is_remembered_from_while_it_ran(world: World) -> None:
    world.add("41002", state=JobState.PENDING, dependency="afternotok:41001(unfulfilled)")
    follower = await following(world)
    world.scheduler.change("41002", state=JobState.RUNNING, dependency="")
    world.scheduler.change("41001", state=JobState.FAILED)
    seen = await follower.look()
    assert seen
    assert seen.at.dependants == ("41002",)


async def test_the_record_of_a_requeued_attempt_is_kept_as_it_ended(world: World, tmp_path: Path) -> None:
    world.scheduler.down.add(NODES[1])
    world.scheduler.scripts["41001"] = b"#!/bin/sh\nsrun train\n"
    world.scheduler.change("41001", **BACK)
    bundle = collect(world.sources, world.anomaly(), tmp_path / "bundle")
    assert (bundle.job.state, bundle.job.nodes, bundle.job.restarts) == (JobState.NODE_FAIL, NODES[:4], 0)
    script = bundle.folder / SCRIPT
    assert script.read_bytes() == b"#!/bin/sh\nsrun train\n"
    assert script.stat().st_mode & 0o077 == 0  # a script may hold secrets


async def test_slurms_own_requeue_is_watched_with_the_convicted_node_excluded(world: World) -> None:
    world.scheduler.down.add(NODES[1])
    world.scheduler.change("41001", **BACK)
    made = (await world.proposed()).plan
    assert [(s.kind, s.nodes) for s in made.steps] == [(StepKind.EXCLUDE, (NODES[1],)), (StepKind.WATCH, ())]


async def test_signs_of_a_second_owner_are_found_in_script_log_settings_and_queue(world: World, tmp_path: Path) -> None:
    assert (await world.proposed()).plan.rule == "restart-elsewhere"
    (tmp_path / SCRIPT).write_text('#!/bin/sh\nsrun train || scontrol requeue "$SLURM_JOB_ID"\n')
    assert "the job's own script" in (await world.proposed(bundle=str(tmp_path))).plan.refusal
    (tmp_path / SCRIPT).unlink()
    (tmp_path / "job.log").write_bytes(b"step=1\n" * 500_000 + b"INFO requeing job 41001...\n" + b"step=2\n" * 9)
    assert "Lightning" in (await world.proposed(bundle=str(tmp_path))).plan.refusal
    (tmp_path / "job.log").unlink()
    world.add("41002", name="train", state=JobState.PENDING, dependency="singleton")
    assert "chain of jobs" in (await world.proposed(bundle=str(tmp_path))).plan.refusal
    world.scheduler.ways = Habits(requeue_exits=(3,))
    world.scheduler.change("41001", exit_code=3)
    assert "RequeueExit in slurm.conf" in (await world.proposed()).plan.refusal


async def test_what_changed_while_a_person_was_asked_is_named(world: World) -> None:
    plan = (await world.proposed()).plan

    async def again(**anomaly: Any) -> Rechecked:
        ask = RecheckAsk(run="run", attempt=ATTEMPT, plan=plan, anomaly=world.anomaly(**anomaly))
        seen: Rechecked = await ActivityEnvironment().run(world.judging().recheck, ask)
        return seen

    assert ((await again()).void, (await again()).owner) == ("", "")
    world.add("41002", state=JobState.RUNNING)
    assert "job 41002 was to run after this one had failed" in (await again(dependants=("41002",))).void
    world.scheduler.change("41001", **BACK)
    taken = await again()
    assert "restarted by somebody else" in taken.void
    assert taken.owner == "somebody else who requeues it, by hand or by a rule"
    world.scheduler.down.add(NODES[1])
    by_slurm = await again()
    assert (by_slurm.void, by_slurm.owner) == ("the scheduler requeued it by itself after a node had failed", "")


async def test_no_requeue_is_lifted_where_the_settings_permit_it(world: World) -> None:
    world.scheduler.change("41001", requeue=False)
    assert "Requeue=1` lifts that" in (await world.proposed()).plan.refusal
    assert (await world.proposed(permits=Permits(lift_no_requeue=True))).plan.lifts


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifying, "WAIT_TOLD_AFTER", timedelta(0))


def verifier(world: World, told: str = "") -> Verifier:
    ask = VerifyAsk(run="run", attempt=ATTEMPT, give_up_s=60, told=told)
    return Verifier(ask, world.view, Tails(world.sources.logs, {}), Proof())


@pytest.mark.usefixtures("soon")
async def test_why_a_restarted_job_waits_is_told_once(world: World) -> None:
    world.scheduler.change("41001", **BACK, reason="QOSMaxJobsPerUserLimit")
    said = await verifier(world).look()
    assert said
    assert (said.waits, said.unfit, said.moving) == (True, False, False)
    assert "a limit of its QOS or account" in said.why
    assert said.places["out"].offset == world.log.stat().st_size
    assert await verifier(world, told=said.why).look() is None


@pytest.mark.usefixtures("soon")
async def test_a_job_that_no_nodes_are_left_for_is_unfit_and_one_in_a_full_cluster_just_waits(world: World) -> None:
    world.scheduler.change("41001", **BACK, reason="BadConstraints")
    said = await verifier(world).look()
    assert said
    assert said.unfit
    world.scheduler.change("41001", reason="Resources")
    assert await verifier(world).look() is None


async def test_a_reason_that_comes_and_goes_is_not_told(world: World) -> None:
    world.scheduler.change("41001", **BACK, reason="ReqNodeNotAvail")
    assert await verifier(world).look() is None


async def test_a_restart_that_the_scheduler_has_forgotten_is_no_recovery(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifying, "FORGOTTEN_AFTER_S", -1.0)
    said = await verifier(world).look()
    assert said
    assert (said.moving, said.why) == (False, "the scheduler does not show the restart within -1 s")
