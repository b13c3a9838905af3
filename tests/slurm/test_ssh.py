"""Real Slurm over SSH: as a plain reader, an operator and an administrator, each key bound to the gate."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from temporalio.testing import ActivityEnvironment

from activities.acting import Acting
from activities.asks import Effect, EffectAsk
from adapters.hosts.sftp import SftpKernelLogs
from adapters.logs.sftp import SftpLogs
from adapters.schedulers.slurm import SlurmScheduler
from adapters.schedulers.slurm.over_ssh import OverSsh
from adapters.ssh.files import RemoteFiles
from rerail import gate
from rerail.errors import Misconfigured, OutcomeUnknown, Refused, Transient
from rerail.identity import sight
from rerail.ports import Right
from rerail.records import GuardState, JobState
from tests.activities.paper import PaperAudit
from tests.adapters.schedulers.contract import SchedulerContract
from tests.slurm.conftest import Until, require
from tests.slurm.login import Login, keys_of
from tests.slurm.steered import SlurmSite, numbers
from tests.testbed import packages, slots
from tests.testbed.cluster import Cluster
from tests.testbed.processes import wait_until
from workers.doctor import slurm as doctor
from workers.doctor.finding import Level

Sleeper = Callable[..., str]

MID_COMMAND = """#!/bin/sh
/usr/bin/scontrol "$@"
said=$?
[ "$1" = requeue ] && [ ! -e {done} ] && touch {done} && exec /bin/sleep 30
exit $said
"""
"""scontrol whose first requeue is done and then tells nobody."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Six idle nodes with accounting, which knows operators."""
    require((*packages.SLURM, *packages.ACCOUNTING))
    with slots.running(nodes=6, accounting=True) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def login(cluster: Cluster) -> Iterator[Login]:
    made = Login.start(cluster)
    yield made
    made.sshd.stop()


@pytest.fixture
def logins(cluster: Cluster) -> Iterator[Callable[..., Login]]:
    """More login nodes, which are ended after the test."""
    started: list[Login] = []

    def start(**more: str) -> Login:
        started.append(Login.start(cluster, f"login-{next(numbers)}", **more))
        return started[-1]

    yield start
    for one in started:
        one.sshd.stop()


@pytest.fixture
def mute(cluster: Cluster) -> tuple[str, Path]:
    """A path for the gate on which scontrol does a requeue and never tells; and the mark that it was done."""
    folder = cluster.folder(f"mute-{next(numbers)}")
    folder.chmod(0o777)
    (folder / "scontrol").write_text(MID_COMMAND.format(done=folder / "done"))
    (folder / "scontrol").chmod(0o755)
    return f"{folder}:/usr/bin:/bin", folder / "done"


class TestSlurmOverSsh(SchedulerContract):
    @pytest.fixture
    def site(self, cluster: Cluster, login: Login) -> SlurmSite:
        return SlurmSite(cluster, SlurmScheduler("testbed", login.runner()))

    @pytest.fixture
    def folder(self, cluster: Cluster) -> Path:
        """All nodes see it, and the owner of the jobs may write there."""
        return cluster.folder(f"steering-{next(numbers)}")


def test_nothing_of_the_contract_was_refused_by_the_gate(login: Login) -> None:
    """The effects of all tests before it are in the gate's log."""
    lines = login.log.read_text().splitlines()
    assert [line for line in lines if " refuses " in line] == []


# Outcome unknown: look, never repeat


class NotPaused:
    """A guard that lets all pass."""

    def get_workflow_handle(self, _: str) -> Any:
        async def query(*_: Any, **__: Any) -> GuardState:
            return GuardState(cluster="testbed", paused=False)

        return SimpleNamespace(query=query)


async def requeued(scheduler: SlurmScheduler, job_id: str) -> Effect:
    """By the activity, as often as Temporal would try it."""
    attempt = sight(scheduler.job(job_id), None, datetime.now(UTC))
    acting = Acting({"testbed": scheduler}, PaperAudit(), NotPaused())  # type: ignore[arg-type]
    for _ in range(60):
        try:
            done: Effect = await ActivityEnvironment().run(acting.requeue, EffectAsk(run="run", attempt=attempt))
            return done
        except Transient:
            await asyncio.sleep(0.5)
    raise AssertionError("it never ended")


def failed(sleeper: Sleeper, until: Until) -> str:
    return until(sleeper(seconds=0, exit_code=7), lambda job: job.state is JobState.FAILED and not job.completing).job_id


def asked(login: Login) -> list[str]:
    return [line for line in login.log.read_text().splitlines() if "runs 'scontrol requeue" in line]


async def test_sshd_killed_in_mid_requeue_is_looked_after_and_makes_one_restart(
    logins: Callable[..., Login], mute: tuple[str, Path], sleeper: Sleeper, until: Until
) -> None:
    path, done = mute
    login = logins(path=path)
    scheduler = SlurmScheduler("testbed", login.runner(), effect_deadline_s=20)
    job_id = failed(sleeper, until)
    scheduler.job(job_id)

    def accident() -> None:
        wait_until(done.exists, 30, "the requeue")
        login.sshd.restart()

    thread = threading.Thread(target=accident)
    thread.start()
    effect = await requeued(scheduler, job_id)
    thread.join()
    assert effect.state is JobState.PENDING
    assert (scheduler.job(job_id).restarts, len(asked(login))) == (1, 1)


async def test_a_login_node_frozen_in_mid_requeue_is_left_for_another_and_makes_one_restart(
    logins: Callable[..., Login], mute: tuple[str, Path], sleeper: Sleeper, until: Until
) -> None:
    path, done = mute
    one, two = logins(path=path), logins(path=path)
    for role in gate.ROLES:  # the same keys on both
        two.sshd.authorize((one.sshd.folder / role).with_suffix(".pub"), gate_line(two, role, path))
    both = {"hosts": [one.sshd.address, two.sshd.address], "keys": keys_of(one, two), "connect_s": 2.0}
    ways = {role: one.way(role, **both) for role in (gate.READER, gate.OPERATOR)}
    scheduler = SlurmScheduler("testbed", OverSsh(ways, gated=True), effect_deadline_s=5, read_deadline_s=5)
    job_id = failed(sleeper, until)
    scheduler.job(job_id)

    def accident() -> None:
        wait_until(done.exists, 30, "the requeue")
        one.sshd.freeze()

    thread = threading.Thread(target=accident)
    thread.start()
    effect = await requeued(scheduler, job_id)
    thread.join()
    assert effect.state is JobState.PENDING
    assert scheduler.job(job_id).restarts == 1
    assert (len(asked(one)), len(asked(two))) == (1, 0)
    one.sshd.thaw()


def gate_line(login: Login, role: str, path: str) -> str:
    conf = login.cluster.slurm_conf
    return f"{login.gate} --role {role} --path {path} --conf {conf} --log {login.log}"


def test_a_requeue_that_never_reached_the_login_node_is_no_unknown_outcome(logins: Callable[..., Login]) -> None:
    login = logins()
    runner = login.runner()
    login.sshd.stop()
    with pytest.raises(Transient, match="nothing was started") as caught:
        runner.run(["scontrol", "requeue", "7"], 5)
    assert not isinstance(caught.value, OutcomeUnknown)


# Identities


def test_without_an_operator_effects_are_refused_and_say_what_is_missing(login: Login, sleeper: Sleeper, until: Until) -> None:
    scheduler = SlurmScheduler("testbed", login.runner(gate.READER))
    assert scheduler.rights() == {Right.READ}
    job_id = failed(sleeper, until)
    verbs: tuple[Callable[[], None], ...] = (
        lambda: scheduler.requeue(job_id, running=False),
        lambda: scheduler.cancel(job_id),
        lambda: scheduler.start_now(job_id),
    )
    for verb in verbs:
        with pytest.raises(Misconfigured, match=r"the identity `operator`, which is not set up; add it under"):
            verb()
    assert scheduler.job(job_id).restarts == 0


def test_without_an_administrator_nodes_are_not_drained_and_it_is_known_beforehand(login: Login) -> None:
    scheduler = SlurmScheduler("testbed", login.runner(gate.READER, gate.OPERATOR))
    assert scheduler.rights() == {Right.READ, Right.OPERATE}
    assert "the identity `admin`, which is not set up" in scheduler.cannot_drain()


def test_a_key_bound_to_another_role_is_refused_and_names_what_to_change(login: Login) -> None:
    swapped = OverSsh({gate.READER: login.way(gate.READER), gate.OPERATOR: login.way(gate.READER)}, gated=True)
    with pytest.raises(Misconfigured, match=r"this key's role is reader.*needs another --role"):
        swapped.run(["scontrol", "requeue", "7"], 10)


def test_what_is_not_in_the_table_is_not_even_sent(login: Login) -> None:
    with pytest.raises(Refused, match="no command that rerail sends over SSH"):
        login.runner().run(["scontrol", "shutdown"], 10)


def test_without_a_gate_the_login_shell_runs_the_same_commands(
    cluster: Cluster, logins: Callable[..., Login], sleeper: Sleeper, until: Until
) -> None:
    login = logins()
    login.sshd.authorize(login.sshd.folder / "user.pub")
    way = login.sshd.connection()
    ways = dict.fromkeys((gate.READER, gate.OPERATOR), way)
    scheduler = SlurmScheduler("testbed", OverSsh(ways, gated=False, slurm_conf=str(cluster.slurm_conf)))
    job_id = failed(sleeper, until)
    scheduler.requeue(job_id, running=False)
    scheduler.exclude(job_id, ["node1", "node2"])
    job = scheduler.job(job_id)
    assert (job.restarts, job.excluded_nodes) == (1, ("node1", "node2"))
    with pytest.raises(Misconfigured, match=r"finds no command squeue on the login node; set `bin`"):
        OverSsh({gate.READER: way}, gated=False, search_path="/nowhere:/bin/..").run(["squeue", "--version"], 10)


# The rest of it


def test_logs_and_kernel_logs_are_read_over_the_same_way(cluster: Cluster, login: Login, sleeper: Sleeper, until: Until) -> None:
    files = RemoteFiles(login.way(gate.READER), gated=True)
    job = until(sleeper(seconds=600), lambda job: job.state is JobState.RUNNING)
    Path(job.output).write_text("step 1\n")
    assert SftpLogs(files).read(job.output, 0, 100).data == b"step 1\n"
    cluster.kernel_line("node1", "NVRM: Xid (PCI:0000:9a:00): 79")
    found = SftpKernelLogs(cluster.kernel_log_template, files).kernel_log("node1", job.started_at or datetime.now(UTC), 1 << 20)
    assert found is not None
    assert b"NVRM: Xid" in found


def test_the_doctor_finds_every_way_open_and_says_what_each_setting_costs(login: Login) -> None:
    findings = list(doctor.examine("testbed", login.runner(), 1.0))
    told = {finding.what: finding.level for finding in findings}
    assert [what for what, level in told.items() if level is Level.FAIL] == []
    assert "cluster testbed: Slurm 22.05.8" in told
    assert "cluster testbed: slurmctld's clock agrees with ours" in told
    assert "cluster testbed: `operator` is rerailop with AdminLevel Operator" in told
    assert "cluster testbed: `admin` is root, who may do all" in told
    assert "cluster testbed: a requeued job starts by itself after 41 s, should rerail not be there to start it" in told
    assert any("a restart truncates the job's log" in what and level is Level.WARN for what, level in told.items())
    fewer = [str(finding) for finding in doctor.examine("testbed", login.runner(gate.READER), 1.0)]
    assert any("no identity `operator`: rerail can't requeue" in line for line in fewer)
    swapped = OverSsh({gate.READER: login.way(gate.READER), gate.ADMIN: login.way(gate.OPERATOR)}, gated=True)
    closed = [str(finding) for finding in doctor.examine("testbed", swapped, 1.0)]
    assert any("fail  cluster testbed: the way of `admin` is closed" in line for line in closed)
