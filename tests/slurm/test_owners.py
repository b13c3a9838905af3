"""One owner of restarts on a real Slurm: what failed is restarted once, what anybody else ended or restarts is left to them."""

import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from temporalio.client import Client

from adapters.audit.store import AuditStore
from adapters.schedulers.slurm import InCluster, SlurmScheduler
from rerail import names
from rerail.client import Rerail
from rerail.errors import RerailError
from rerail.records import Incident, Job, JobState, JobWatch, Result, Stage, StepKind
from tests.mortal import Mortal
from tests.slurm.conftest import PATIENCE_S, require
from tests.temporal import dev_server
from tests.testbed import packages, slots
from tests.testbed.cluster import Cluster
from tests.testbed.processes import wait_until
from tests.testbed.settings import OWNER
from workers.settings import load

STEPS = Path(__file__).parent / "jobs" / "steps.sh"
XID = "NVRM: Xid (PCI:0000:9a:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
REQUEUED_EXIT = 77
STEPPED = 8
"""Steps of 0.3 s: longer than a look of the service, so that it has seen the job run."""

URGENT = f"""\
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
RequeueExit={REQUEUED_EXIT}
"""
URGENT_PARTITION = "PartitionName=urgent Nodes=ALL PriorityTier=10 PreemptMode=OFF DefMemPerCPU=500 MaxTime=INFINITE State=UP"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Six nodes with a partition that preempts, and an exit code that Slurm requeues by itself."""
    require(packages.SLURM)
    with slots.running(nodes=6, extra=URGENT) as cluster:
        made = URGENT_PARTITION.replace("Nodes=ALL", "Nodes=node[1-6]").split()
        cluster.run(["scontrol", "create", *made])
        yield cluster


@dataclass(frozen=True)
class Site:
    """The cluster with a service that looks after it."""

    cluster: Cluster
    scheduler: SlurmScheduler
    client: Client
    mortal: Mortal

    def submit(self, *words: str) -> str:
        """A training on paper from a folder of its own; its job id."""
        folder = self.cluster.folder(f"steps-{len(list(self.cluster.shared.iterdir()))}")
        shutil.copy(STEPS, folder / STEPS.name)
        return self.cluster.sbatch(*words, STEPS.name, folder=folder)

    def job(self, job_id: str) -> Job:
        return self.scheduler.job(job_id)

    async def trains(self, job_id: str, attempt: int = 1) -> Job:
        """Once it has made some steps, and has its watcher."""

        async def seen() -> Job | None:
            watch = await self.explained(names.WATCH_JOB, job_id)
            if not isinstance(watch, JobWatch) or watch.attempt.number != attempt:
                return None
            job = self.job(job_id)
            log = Path(job.output)
            stepped = job.state is JobState.RUNNING and log.exists() and log.read_text().count("step=") > STEPPED
            return job if stepped else None

        return await self.mortal.until(seen, f"steps of attempt {attempt} of job {job_id}")

    def die(self, job_id: str, code: int = 1, task: int = 0) -> None:
        Path(self.job(job_id).folder, f"die-{task}").write_text(str(code))

    async def explained(self, kind: str, job_id: str, attempt: int = 0) -> object | None:
        """What the job's workflow of that kind answers; None while there is none."""
        end = f"/{attempt}" if attempt else ""
        async for found in self.client.list_workflows(f"WorkflowType = '{kind}'"):
            if f"/{job_id}/" in found.id and found.id.endswith(end):
                try:
                    return await self.person.explain(found.id)
                except RerailError:  # its worker is busy
                    return None
        return None

    @property
    def person(self) -> Rerail:
        return Rerail(self.client, by="test", patience_s=5, answer_s=5)

    async def incident(self, job_id: str, holds: Callable[[Incident], bool], attempt: int = 1) -> Incident:
        async def found() -> Incident | None:
            incident = await self.explained(names.REMEDIATE_JOB, job_id, attempt)
            return incident if isinstance(incident, Incident) and holds(incident) else None

        return await self.mortal.until(found, f"incident of job {job_id}")

    async def asked(self, job_id: str, attempt: int = 1) -> Incident:
        return await self.incident(job_id, lambda incident: incident.stage is Stage.AWAITING_APPROVAL, attempt)

    async def closed(self, job_id: str, attempt: int = 1) -> Incident:
        return await self.incident(job_id, lambda incident: incident.outcome is not None, attempt)

    async def approved(self, job_id: str, attempt: int = 1) -> Incident:
        """Asked, and approved."""
        incident = await self.asked(job_id, attempt)
        await self.person.approve(incident.id, reason="seen")
        return incident

    async def recovered(self, job_id: str, attempt: int = 1) -> Incident:
        await self.approved(job_id, attempt)
        incident = await self.closed(job_id, attempt)
        assert incident.outcome
        assert incident.outcome.result is Result.RECOVERED, incident.outcome.why
        return incident

    def actions(self, job_id: str) -> list[str]:
        """What was done to the job, by the audit trail."""
        settings = load(self.mortal.settings)
        if not (settings.state / "audit.db").exists():
            return []
        rows = AuditStore(settings.audit_url()).rows()
        return [row.text.split()[0] for _, row in rows if row.job_id == job_id and row.kind == "action"]


@pytest.fixture(scope="module")
async def site(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    server = await dev_server()
    settings = tmp_path_factory.mktemp("owners") / "rerail.yaml"
    settings.write_text(
        "state: ./state\n"
        f'temporal: {{address: "{server.client.service_client.config.target_host}"}}\n'
        "clusters:\n"
        "  testbed:\n"
        f"    scheduler: {{slurm: {{conf: {cluster.slurm_conf}}}}}\n"
        f'    kernel_log: "{cluster.kernel_log_template}"\n'
        "    interval_s: 0.5\n"
        "    hang: {floor_s: 300}\n"  # a machine shared with other tests is silent for long
    )
    mortal = Mortal(settings, [])
    yield Site(cluster, SlurmScheduler("testbed", InCluster(str(cluster.slurm_conf))), server.client, mortal)
    mortal.end()
    await server.shutdown()


def plan_of(incident: Incident) -> list[str]:
    assert incident.plan
    return [" ".join([step.kind, *step.nodes]) for step in incident.plan.steps]


async def test_a_node_that_loses_its_power_is_excluded_and_slurms_own_requeue_is_watched_not_repeated(site: Site) -> None:
    job_id = site.submit("--nodes=3")
    first = await site.trains(job_id)
    lost = first.nodes[2]
    site.cluster.kill_node(lost)
    try:
        incident = await site.approved(job_id)
        assert plan_of(incident) == [f"exclude {lost}", "watch"]
        incident = await site.closed(job_id)
    finally:
        site.cluster.start_node(lost)
    assert incident.outcome
    assert incident.outcome.result is Result.RECOVERED, incident.outcome.why
    after = site.job(job_id)
    assert (after.restarts, after.excluded_nodes) == (1, (lost,))
    assert lost not in after.nodes
    assert site.actions(job_id) == ["exclude"]


async def test_the_batch_host_that_loses_its_power_leaves_no_words_and_is_known_all_the_same(site: Site) -> None:
    job_id = site.submit("--nodes=2")
    first = await site.trains(job_id)
    lost = first.nodes[0]
    site.cluster.kill_node(lost)
    try:
        incident = await site.asked(job_id)
    finally:
        site.cluster.start_node(lost)
    assert plan_of(incident) == [f"exclude {lost}", "watch"]
    assert incident.verdict
    assert incident.verdict.culprit_nodes == (lost,)


async def test_what_somebody_or_slurm_ended_on_purpose_opens_no_incident(site: Site) -> None:
    limited = site.submit("--time=1", "--nodelist=node2")
    preempted, cancelled = site.submit("--exclusive", "--nodelist=node1"), site.submit("--nodelist=node3")
    for job_id in (limited, preempted, cancelled):
        await site.trains(job_id)
    site.cluster.run(["scancel", cancelled], user=OWNER)
    site.cluster.sbatch("--partition=urgent", "--exclusive", "--nodelist=node1", "--wrap=sleep 600")

    async def over() -> bool:
        return site.job(limited).state is JobState.TIMEOUT and site.job(preempted).restarts == 1

    await site.mortal.until(over, "end of the jobs")

    async def seen() -> bool:
        watches = [await site.explained(names.WATCH_JOB, job_id) for job_id in (limited, preempted, cancelled)]
        told = [watch.last if isinstance(watch, JobWatch) else "" for watch in watches]
        return "timeout" in told[0] and told[1].startswith("next attempt") and "cancelled" in told[2]

    await site.mortal.until(seen, "watchers that have seen it")
    for job_id in (limited, preempted, cancelled):
        assert await site.explained(names.REMEDIATE_JOB, job_id) is None
        assert site.actions(job_id) == []


async def test_one_task_of_an_array_is_restarted_and_its_sister_goes_on(site: Site) -> None:
    array = site.submit("--array=1-2")
    for task in (1, 2):
        await site.trains(f"{array}_{task}")
    site.die(f"{array}_1", task=1)
    await site.recovered(f"{array}_1")
    assert site.job(f"{array}_1").restarts == 1
    sister = site.job(f"{array}_2")
    assert (sister.restarts, sister.state) == (0, JobState.RUNNING)


async def test_a_heterogeneous_job_is_one_job_and_is_restarted_by_its_leader(site: Site) -> None:
    leader = site.submit("--nodes=1", ":", "--nodes=2")
    first = await site.trains(leader)
    assert (len(first.nodes), first.nodes_needed) == (3, 3)
    bad = first.nodes[2]  # of the second component
    site.cluster.kernel_line(bad, XID)
    site.die(leader)
    incident = await site.recovered(leader)
    assert plan_of(incident) == [f"exclude {bad}", "restart"]
    again = site.job(leader)
    assert again.restarts == 1
    assert bad not in again.nodes
    assert await site.explained(names.WATCH_JOB, f"{leader}+1") is None


async def test_an_owner_who_requeues_while_we_ask_owns_the_restarts_from_then_on(site: Site) -> None:
    job_id = site.submit()
    await site.trains(job_id)
    site.die(job_id)
    await site.asked(job_id)
    site.cluster.run(["scontrol", "requeue", job_id], user=OWNER)
    incident = await site.closed(job_id)
    assert incident.outcome
    assert incident.outcome.result is Result.VOIDED
    assert "restarted by somebody else" in incident.outcome.why
    site.cluster.run(["scontrol", "update", f"jobid={job_id}", "StartTime=now+2seconds"])
    await site.trains(job_id, attempt=2)
    site.die(job_id)
    second = await site.closed(job_id, attempt=2)
    assert second.plan
    assert second.plan.rule == "second-owner"
    assert second.plan.refusal.endswith("it would have proposed restart")
    assert site.actions(job_id) == []


async def test_an_exclusion_that_would_leave_too_few_nodes_is_refused(site: Site) -> None:
    job_id = site.submit("--nodes=6")
    await site.trains(job_id)
    site.cluster.kernel_line("node4", XID)
    site.die(job_id)
    incident = await site.closed(job_id)
    assert incident.plan
    assert incident.plan.refusal == "without node4 only 5 nodes remain of 6 needed: it would never start"
    assert site.job(job_id).restarts == 0


async def test_a_node_that_the_owner_asks_for_by_name_is_not_excluded_but_told(site: Site) -> None:
    job_id = site.submit("--nodes=2", "--nodelist=node4")
    await site.trains(job_id)
    site.cluster.kernel_line("node4", XID)
    site.die(job_id)
    incident = await site.closed(job_id)
    assert incident.plan
    assert incident.plan.refusal.startswith("its owner asks for node4 by name (--nodelist)")


async def test_slurmctld_restarts_in_mid_recovery_and_the_job_is_restarted_once(site: Site) -> None:
    job_id = site.submit("--nodes=2")
    first = await site.trains(job_id)
    bad = first.nodes[1]
    site.cluster.kernel_line(bad, XID)
    site.die(job_id)
    await site.approved(job_id)

    async def requeued() -> bool:
        return site.job(job_id).restarts == 1

    await site.mortal.until(requeued, "requeue")
    moment = time.time()  # one that forgets the requeue is a story of its own: tests/activities/test_acting.py
    wait_until(lambda: site.cluster.state_saved_since(moment), PATIENCE_S, "slurmctld's word on disk")
    site.cluster.kill_controller()
    site.cluster.start_controller()
    wait_until(site.cluster.controller_answers, PATIENCE_S, "slurmctld")
    incident = await site.closed(job_id)
    assert incident.outcome
    assert incident.outcome.result is Result.RECOVERED, incident.outcome.why
    after = site.job(job_id)
    assert (after.restarts, after.excluded_nodes) == (1, (bad,))


async def test_a_dependant_that_started_on_the_failure_never_runs_beside_a_restart(site: Site) -> None:
    job_id = site.submit()
    dependant = site.cluster.sbatch(f"--dependency=afternotok:{job_id}", "--wrap=sleep 600")
    await site.trains(job_id)
    site.die(job_id)
    incident = await site.closed(job_id)
    assert incident.plan
    assert incident.plan.rule == "would-run-beside"
    assert incident.plan.refusal.startswith(f"job {dependant} was to run after this one had failed, and ")
    assert (site.job(job_id).restarts, site.actions(job_id)) == (0, [])


async def test_no_requeue_is_refused_with_the_command_that_lifts_it_and_the_script_is_kept(site: Site) -> None:
    job_id = site.submit("--no-requeue")
    await site.trains(job_id)
    site.die(job_id)
    incident = await site.closed(job_id)
    assert incident.plan
    assert f"`scontrol update jobid={job_id} Requeue=1` lifts that" in incident.plan.refusal
    kept = Path(incident.bundle, "batch.sh")
    assert kept.read_bytes() == STEPS.read_bytes()
    assert incident.plan.again.startswith("sbatch \\\n  --job-name=steps.sh")
    assert incident.plan.again.endswith(f"\n  {kept}")


async def test_an_exit_code_that_slurm_requeues_by_itself_is_slurms(site: Site) -> None:
    job_id = site.submit()
    await site.trains(job_id)
    site.die(job_id, code=REQUEUED_EXIT)

    async def back() -> Awaitable[bool] | bool:
        watch = await site.explained(names.WATCH_JOB, job_id)
        return site.job(job_id).restarts == 1 and isinstance(watch, JobWatch) and watch.attempt.number == 2

    await site.mortal.until(back, "Slurm's own requeue")
    assert site.actions(job_id) == []
    incident = await site.explained(names.REMEDIATE_JOB, job_id)
    assert incident is None or (isinstance(incident, Incident) and not (incident.plan and incident.plan.has(StepKind.RESTART)))


async def test_the_exclusion_is_taken_back_when_the_job_could_never_start_with_it_and_people_are_told(site: Site) -> None:
    """Two nodes leave the partition after the restart: with the exclusion only three would be left for four."""
    for node in ("node5", "node6"):  # so that the restarted job waits
        site.cluster.sbatch("--exclusive", f"--nodelist={node}", "--wrap=sleep 600")
    job_id = site.submit("--nodes=4")
    assert (await site.trains(job_id)).nodes == ("node1", "node2", "node3", "node4")
    site.cluster.kernel_line("node2", XID)
    site.die(job_id)
    await site.approved(job_id)

    async def waits() -> bool:
        job = site.job(job_id)
        return job.state is JobState.PENDING and job.excluded_nodes == ("node2",)

    await site.mortal.until(waits, "restarted job that waits")
    site.cluster.run(["scontrol", "update", "partitionname=main", "nodes=node[1-4]"])
    try:
        incident = await site.closed(job_id)
    finally:
        site.cluster.run(["scontrol", "update", "partitionname=main", "nodes=node[1-6]"])
    assert incident.outcome
    assert incident.outcome.result is Result.RECOVERED, incident.outcome.why
    assert site.job(job_id).excluded_nodes == ()
    assert site.actions(job_id) == ["requeue", "exclude", "start", "take_back"]
    assert any("node2: taken off the job's exclusion list" in note for note in incident.notes)
