"""The doctor: what is missing is said in one line with the next step."""

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from adapters.logs.files import FileLogs
from rerail import names
from rerail.errors import Misconfigured, Unreadable
from rerail.ports import ALL_RIGHTS, Right
from rerail.records import Habits, Job, JobState, Node, NodeState, Rank, Reading
from workers.doctor import machine, run
from workers.doctor.cluster import cluster
from workers.doctor.finding import Finding, Level
from workers.doctor.temporal import SEARCH_ATTRIBUTES, temporal
from workers.settings import Settings, load
from workers.way import Way


class Scheduler:
    """A scheduler that tells what it is given."""

    def __init__(self, *jobs: Job, read_at: datetime | None = None, error: Unreadable | None = None) -> None:
        self.cluster = "alpha"
        self.jobs = jobs
        self.read_at = read_at
        self.error = error
        self.known: tuple[Node, ...] = (Node(name="n1", state=NodeState.UP), Node(name="n2", state=NodeState.DOWN))

    def rights(self) -> frozenset[Right]:
        return ALL_RIGHTS

    def read(self) -> Reading:
        if self.error:
            raise self.error
        return Reading(cluster="alpha", read_at=self.read_at or datetime.now(UTC), jobs=self.jobs)

    def nodes(self) -> tuple[Node, ...]:
        return self.known

    def job(self, job_id: str) -> Job:
        raise NotImplementedError

    def node(self, name: str) -> Node:
        return next(node for node in self.nodes() if node.name == name)

    def ranks(self, job: Job) -> tuple[Rank, ...]:
        raise NotImplementedError

    def script(self, job_id: str) -> bytes:
        raise AssertionError("the doctor reads no script")

    def habits(self) -> Habits:
        return Habits()

    def permit_requeue(self, job_id: str) -> None:
        raise AssertionError("the doctor changes nothing")

    def requeue(self, job_id: str, *, running: bool) -> None:
        raise AssertionError("the doctor changes nothing")

    def exclude(self, job_id: str, nodes: object) -> None:
        raise AssertionError("the doctor changes nothing")

    def start_now(self, job_id: str) -> None:
        raise AssertionError("the doctor changes nothing")

    def cancel(self, job_id: str) -> None:
        raise AssertionError("the doctor changes nothing")

    def annotate(self, job_id: str, comment: str, *, instead_of: str) -> None:
        raise AssertionError("the doctor changes nothing")

    def drain(self, node: str, reason: str) -> None:
        raise AssertionError("the doctor changes nothing")

    def resume(self, node: str, *, drained: Node | None = None) -> None:
        raise AssertionError("the doctor changes nothing")

    def cannot_drain(self) -> str:
        return ""


def settled(folder: Path, more: str = "") -> Settings:
    path = folder / "rerail.yaml"
    path.write_text(f"clusters:\n  alpha:\n    scheduler:\n      local: {{folder: x}}\n{more}")
    return load(path)


def running(**other: object) -> Job:
    values = {"cluster": "alpha", "job_id": "7", "state": JobState.RUNNING} | other
    return Job.model_validate(values)


def looked_at(settings: Settings, scheduler: Scheduler) -> list[Finding]:
    return list(cluster(settings, "alpha", Way(scheduler, FileLogs())))


CLOCK = r"^cluster alpha: (clocks agree|its clock)"


def about(findings: list[Finding], words: str) -> Finding:
    (one,) = [finding for finding in findings if re.search(words, finding.what)]
    return one


def test_a_healthy_cluster_is_ok_in_all(tmp_path: Path) -> None:
    settings = settled(tmp_path)
    for node in ("n1", "n2"):
        (tmp_path / "x" / "nodes" / node).mkdir(parents=True)
        (tmp_path / "x" / "nodes" / node / "kernel.log").touch()
    (tmp_path / "job.log").touch()
    job = running(output=str(tmp_path / "job.log"), started_at=datetime.now(UTC) - timedelta(hours=1))
    findings = looked_at(settings, Scheduler(job))
    assert [one.level for one in findings] == [Level.OK] * 5
    assert "kernel logs of 2 of 2 nodes" in findings[-1].what


def test_a_scheduler_that_does_not_answer_fails_and_nothing_more_is_said_of_it(tmp_path: Path) -> None:
    (only,) = looked_at(settled(tmp_path), Scheduler(error=Unreadable("squeue is slow; look at slurmctld.")))
    assert (only.level, only.step) == (Level.FAIL, "squeue is slow; look at slurmctld.")


@pytest.mark.parametrize(("apart_s", "level"), [(1, Level.OK), (10, Level.WARN), (-10, Level.WARN), (90, Level.FAIL)])
def test_clocks_apart_are_told(tmp_path: Path, apart_s: int, level: Level) -> None:
    scheduler = Scheduler(read_at=datetime.now(UTC) + timedelta(seconds=apart_s))
    assert about(looked_at(settled(tmp_path), scheduler), CLOCK).level is level


def test_a_job_that_started_in_our_future_shows_a_clock_ahead(tmp_path: Path) -> None:
    job = running(started_at=datetime.now(UTC) + timedelta(seconds=30))
    assert about(looked_at(settled(tmp_path), Scheduler(job)), CLOCK).level is Level.WARN


def test_logs_that_cannot_be_read_are_named_by_job(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    jobs = (
        running(job_id="1", output=str(tmp_path / "gone.log")),
        running(job_id="2"),
        running(job_id="3", output=str(tmp_path / "pipe")),
        running(job_id="4", output=str(tmp_path / "other"), state=JobState.FAILED),
    )
    found = about(looked_at(settled(tmp_path), Scheduler(*jobs)), "running jobs have no log")
    assert found.level is Level.WARN
    assert "3 of 3" in found.what
    assert all(f"job {n}" in found.what for n in (1, 2, 3))


def test_no_node_up_is_a_warning(tmp_path: Path) -> None:
    scheduler = Scheduler()
    scheduler.known = (Node(name="n1", state=NodeState.DRAINED),)
    assert about(looked_at(settled(tmp_path), scheduler), "0 of 1 nodes are up").level is Level.WARN


def test_nobody_to_tell_is_a_warning(tmp_path: Path) -> None:
    (only,) = machine.channels(settled(tmp_path))
    assert only.level is Level.WARN


def test_channels_are_looked_at_without_a_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", "k")
    monkeypatch.delenv("NO_KEY", raising=False)
    settings = settled(
        tmp_path,
        "channels:\n"
        "  - webhook: {url: 'https://h.example/s3cret', secret_env: KEY}\n"
        "  - webhook: {url: 'https://h.example/s3cret'}\n"
        "  - webhook: {url: 'http://h.example/s3cret', secret_env: KEY}\n"
        "  - webhook: {url: 'https://h.example/s3cret', secret_env: NO_KEY}\n"
        "  - command: {argv: [/bin/true]}\n"
        f"  - command: {{argv: [{tmp_path}/gone]}}\n",
    )
    findings = list(machine.channels(settings))
    assert [one.level for one in findings] == [Level.OK, Level.WARN, Level.WARN, Level.FAIL, Level.OK, Level.FAIL]
    assert "s3cret" not in " ".join(map(str, findings))
    assert "NO_KEY" in findings[3].step


def test_a_state_folder_yet_to_be_made_is_ok(tmp_path: Path) -> None:
    settings = settled(tmp_path)
    assert [one.level for one in machine.state_folder(settings)] == [Level.OK]
    assert [one.level for one in machine.audit(settings)] == [Level.OK]
    assert not settings.state.exists()


def test_a_state_folder_that_is_a_file_fails(tmp_path: Path) -> None:
    (tmp_path / "state").touch()
    (only,) = machine.state_folder(settled(tmp_path))
    assert only.level is Level.FAIL


def test_a_state_folder_open_to_everybody_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state").chmod(0o777)
    found = about(list(machine.state_folder(settled(tmp_path))), "by everybody")
    assert (found.level, found.step) == (Level.WARN, f"chmod o-w {tmp_path}/state")


def test_a_low_disk_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "state").mkdir()
    monkeypatch.setattr(machine, "LOW_DISK_BYTES", 2**62)
    assert about(list(machine.state_folder(settled(tmp_path))), "MiB free").level is Level.WARN


def test_an_audit_that_takes_no_row_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "audit.db").write_text("something else " * 100)
    settings = settled(tmp_path, "temporal: {address: '127.0.0.1:1'}\n")
    assert run(settings, {}) == 1
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "audit" in line and line.startswith("fail")]
    assert "move it away" in line


def test_an_old_python_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settled(tmp_path)
    assert [one.level for one in machine.python(settings)] == [Level.OK]
    monkeypatch.setattr(machine, "OLDEST_PYTHON", (99, 0))
    assert [one.level for one in machine.python(settings)] == [Level.FAIL]


def test_settings_that_cannot_be_read_are_the_only_finding(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(Misconfigured("rerail.yaml, line 3: no.")) == 1
    assert capsys.readouterr().out == "fail  settings cannot be read  — rerail.yaml, line 3: no.\n"


def test_a_cluster_without_scheduler_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(settled(tmp_path, "temporal: {address: '127.0.0.1:1'}\n"))
    assert "warn  cluster alpha: not looked at" in capsys.readouterr().out


def test_an_examination_that_breaks_is_a_finding_and_the_rest_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Broken(Scheduler):
        def nodes(self) -> tuple[Node, ...]:
            raise ZeroDivisionError("oh\x1b[2J")

    assert run(settled(tmp_path, "temporal: {address: '127.0.0.1:1'}\n"), {"alpha": Way(Broken(), FileLogs())}) == 1
    shown = capsys.readouterr().out
    assert "ZeroDivisionError" in shown
    assert "\x1b" not in shown


# Temporal itself


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real server of its own; gives its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    binary = Path(sys.executable).with_name("temporal")
    words = ["server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", str(port), "--log-level", "never"]
    process = subprocess.Popen([binary, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    yield f"127.0.0.1:{port}"
    process.terminate()
    process.wait(30)


@pytest.fixture
def reached(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Settings for that server, once it answers."""
    for name in ("TEMPORAL_ADDRESS", "TEMPORAL_NAMESPACE", "TEMPORAL_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", str(tmp_path / "none.toml"))
    settings = settled(tmp_path, f"temporal: {{address: '{server}'}}\n")
    deadline = time.monotonic() + 60
    while next(temporal(settings)).level is Level.FAIL:
        assert time.monotonic() < deadline, "the server did not start"
    return settings


def create(server: str, name: str, kind: str) -> None:
    binary = Path(sys.executable).with_name("temporal")
    words = ["operator", "search-attribute", "create", "--address", server, "--name", name, "--type", kind]
    subprocess.run([binary, *words], check=True, capture_output=True)


def test_a_temporal_that_is_not_there_fails_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TEMPORAL_ADDRESS", raising=False)
    (only,) = temporal(settled(tmp_path, "temporal: {address: '127.0.0.1:1'}\n"))
    assert only.level is Level.FAIL
    assert only.what == "Temporal at 127.0.0.1:1, namespace default: cannot be reached (refused)"


def test_a_namespace_that_is_not_there_fails(reached: Settings, server: str, tmp_path: Path) -> None:
    (only,) = temporal(settled(tmp_path, f"temporal: {{address: '{server}', namespace: nonesuch}}\n"))
    assert only.level is Level.FAIL
    assert "nonesuch" in only.what


def test_missing_attributes_and_idle_queues_are_told_until_they_are_there(reached: Settings, server: str) -> None:
    answers, attributes, queues = temporal(reached)
    assert answers.level is Level.OK
    assert attributes.level is Level.WARN
    assert all(name in attributes.what for name in SEARCH_ATTRIBUTES)
    assert queues.level is Level.WARN
    assert all(queue in queues.what for queue in (names.CONTROL_QUEUE, names.detect_queue("alpha"), names.act_queue("alpha")))
    create(server, names.SA_NODES, "KeywordList")
    create(server, names.SA_CLASS, "Int")
    _, attributes, _ = temporal(reached)
    assert attributes.level is Level.FAIL
    assert "RerailClass as Keyword" in attributes.step


def test_the_whole_examination_as_json(reached: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    code = run(reached, {"alpha": Way(Scheduler(), FileLogs())}, as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert told["ok"] is (code == 0)
    assert all(set(one) == {"level", "what", "step"} for one in told["findings"])
    assert "Temporal" in " ".join(one["what"] for one in told["findings"])


def test_a_sites_signatures_that_cannot_be_used_are_told_with_their_line(tmp_path: Path) -> None:
    (tmp_path / "rows.yaml").write_text("- id: site.x\n  pattern: '(?=x)'\n")
    settings = settled(tmp_path, "signatures: rows.yaml\n")
    found = list(machine.signatures(settings))
    assert [one.level for one in found] == [Level.FAIL]
    assert "rows.yaml:1: missing" in found[0].step


def test_no_signatures_of_a_sites_own_are_nothing_to_tell(tmp_path: Path) -> None:
    assert list(machine.signatures(settled(tmp_path, ""))) == []
