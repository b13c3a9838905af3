"""The whole story on a real Slurm: a real torchrun job breaks, the service notices, a person approves, training goes on."""

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from temporalio.client import Client

from adapters.audit.store import AuditStore
from adapters.schedulers.slurm import SlurmScheduler
from rerail.records import FaultClass, JobState, Result, StepKind
from tests.mortal import Mortal, approved_to_the_end, incidents, watched
from tests.slurm.conftest import Until
from tests.temporal import dev_server
from tests.testbed.cluster import Cluster
from tests.testbed.training import Training
from workers.settings import load

ARGUMENTS = "--steps 60 --checkpoint-every 10"
XID = "NVRM: Xid (PCI:0000:9a:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
LIKE = 1e-4
"""Sums of 32 bit numbers in another order differ by 1e-7; another batch or other weights by 1e-2."""

DEATHS = ["requeue:during", "exclude:after", "start:before"]


@dataclass(frozen=True)
class Service:
    """Temporal and the settings of a service that looks after the testbed."""

    client: Client
    settings: Path

    def rows(self) -> Counter[str]:
        """How many audit rows of each kind."""
        return Counter(str(row.kind) for _, row in AuditStore(load(self.settings).audit_url()).rows())


@pytest.fixture
async def service(cluster: Cluster, tmp_path: Path) -> AsyncIterator[Service]:
    server = await dev_server()
    settings = tmp_path / "rerail.yaml"
    settings.write_text(
        "state: ./state\n"
        f'temporal: {{address: "{server.client.service_client.config.target_host}"}}\n'
        "clusters:\n"
        "  testbed:\n"
        f"    scheduler: {{slurm: {{conf: {cluster.slurm_conf}}}}}\n"
        f'    kernel_log: "{cluster.kernel_log_template}"\n'
        "    hang: {floor_s: 300}\n"  # a machine shared with other tests is silent for long
    )
    yield Service(server.client, settings)
    await server.shutdown()


@pytest.mark.parametrize("deaths", [[], DEATHS], ids=["unharmed", "killed-three-times"])
async def test_a_crash_with_an_xid_is_restarted_once_on_other_nodes_and_trains_past_the_failed_step(
    cluster: Cluster, scheduler: SlurmScheduler, service: Service, until: Until, deaths: list[str]
) -> None:
    mortal = Mortal(service.settings, deaths)
    try:
        job = Training.submit(cluster, f"story-{len(deaths)}", arguments=ARGUMENTS)
        job.wait_for_step(13)
        await mortal.until(lambda: watched(service.client), "watcher of the job")
        node, _ = job.where(2)
        cluster.kernel_line(node, XID)
        job.signal(rank=2)
        incident = await mortal.until(lambda: approved_to_the_end(service.client), "end of the incident")
    finally:
        mortal.end()
    assert incident.verdict
    assert (incident.verdict.fault, incident.verdict.culprit_nodes) == (FaultClass.HARDWARE, (node,))
    assert incident.outcome
    assert incident.outcome.result is Result.RECOVERED, incident.outcome.why
    assert incident.outcome.resumed_step == incident.outcome.checkpoint_step
    assert mortal.deaths == len(deaths)
    restarted = scheduler.job(job.job_id)
    assert (restarted.restarts, restarted.excluded_nodes) == (1, (node,))
    assert node not in restarted.nodes
    assert service.rows() == {"detected": 1, "verdict": 1, "plan": 1, "decision": 1, "action": 3, "read_back": 3, "outcome": 1}
    assert len(await incidents(service.client)) == 1
    assert "saved checkpoint step=10" in Path(incident.bundle, "job.log").read_text()  # Slurm truncated the log itself


async def test_a_bug_in_the_training_code_is_stopped_and_said_why(
    cluster: Cluster, scheduler: SlurmScheduler, service: Service
) -> None:
    mortal = Mortal(service.settings, [])
    try:
        job = Training.submit(cluster, "bug-story", arguments=f"{ARGUMENTS} --bad-batch-at 3")
        incident = await mortal.until(lambda: approved_to_the_end(service.client), "end of the incident")
    finally:
        mortal.end()
    assert incident.verdict
    assert incident.verdict.fault is FaultClass.APPLICATION
    assert incident.plan
    assert incident.plan.has(StepKind.STOP)
    assert incident.outcome
    assert incident.outcome.result is Result.STOPPED
    assert "IndexError" in " ".join(line.text for line in incident.verdict.evidence)
    left = scheduler.job(job.job_id)
    assert (left.restarts, left.state) == (0, JobState.FAILED)
