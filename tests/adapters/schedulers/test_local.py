"""The scheduler `local`: the contract, and what is its own: ranks, logs, drains, and a daemon that may die at any moment."""

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from adapters.schedulers.local import LocalScheduler, Settings, bell, processes
from adapters.schedulers.local.__main__ import main
from adapters.schedulers.local.book import book_path, writing
from rerail.errors import Misconfigured, Refused, Unreadable
from rerail.records import Job, JobState, NodeState, Rank
from tests.adapters.schedulers.contract import WAITS, SchedulerContract, started, until

NODES = ("gpu-00", "gpu-01", "gpu-02", "gpu-03")
DEADLINE_S = 60.0
ROOT = Path(__file__).resolve().parents[3]


@dataclass
class LocalSite:
    scheduler: LocalScheduler
    folder: Path
    nodes: Sequence[str] = NODES
    deadline_s: float = DEADLINE_S

    def drain_by_hand(self, node: str, reason: str) -> None:
        self.scheduler.drain(node, reason)

    def submit(self, argv: Sequence[str], *, nodes: int = 1, requeue: bool = True, exclude: Sequence[str] = ()) -> str:
        return self.scheduler.submit(argv, nodes=nodes, requeue=requeue, exclude=exclude, folder=self.folder)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[LocalSite]:
    yield from _site(tmp_path, Settings(requeue_delay_s=4, bad_exit_grace_s=0.3, kill_wait_s=1, idle_exit_s=20))


@pytest.fixture
def hasty(tmp_path: Path) -> Iterator[LocalSite]:
    """Requeues at once, and forgets ended jobs at once."""
    yield from _site(
        tmp_path, Settings(requeue_delay_s=0, requeue_window_s=0, bad_exit_grace_s=0, kill_wait_s=1, idle_exit_s=0.2)
    )


def _site(tmp_path: Path, settings: Settings) -> Iterator[LocalSite]:
    work = tmp_path / "work"
    work.mkdir()
    scheduler = LocalScheduler.create(tmp_path / "cluster", "lab", NODES, settings=settings)
    yield LocalSite(scheduler, work)
    if book_path(scheduler.folder).exists():
        scheduler.shut_down()
    assert not bell.held(scheduler.folder)


def seen(site: LocalSite, job_id: str, wanted: Callable[[Job], bool]) -> Job:
    found: list[Job] = []

    def look() -> bool:
        found[:] = [site.scheduler.job(job_id)]
        return wanted(found[0])

    until(look, site.deadline_s)
    return found[0]


def over(job: Job) -> bool:
    return job.state.ended and not job.completing


def ranks_up(site: LocalSite, job_id: str, count: int) -> tuple[Rank, ...]:
    """The ranks, once all their commands run (the launcher's own image is gone)."""

    def look() -> tuple[Rank, ...]:
        ranks = site.scheduler.ranks(site.scheduler.job(job_id))
        return ranks if len([r for r in ranks if r.pid and r.state]) == count else ()

    return until(look, site.deadline_s)


def kill_daemon(site: LocalSite) -> None:
    folder = site.scheduler.folder
    os.kill(until(lambda: bell.pid(folder) or 0, site.deadline_s), signal.SIGKILL)
    until(lambda: not bell.held(folder), site.deadline_s)


def log(job: Job) -> str:
    return Path(job.output).read_text()


def sh(script: str, *arguments: object) -> list[str]:
    return ["sh", "-c", script, *(str(a) for a in arguments)]


def python(script: str, *arguments: object) -> list[str]:
    return [sys.executable, "-c", script, *(str(a) for a in arguments)]


class TestLocal(SchedulerContract):
    """`local` keeps the contract of all schedulers."""


# Ranks and their log


def test_ranks_know_their_place_as_under_torchrun(site: LocalSite, tmp_path: Path) -> None:
    wide = LocalScheduler.create(tmp_path / "cluster", "lab", ["fat-0", "fat-1"], slots=2)
    names = ["RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR"]
    names += ["RERAIL_NODE", "RERAIL_JOB_ID", "RERAIL_RESTART_COUNT"]
    script = f"import os; print(*(os.environ[n] for n in {names}), int(os.environ['MASTER_PORT']) > 1024)"
    job = seen(site, wide.submit(python(script), nodes=2, ranks_per_node=2, folder=tmp_path), over)
    assert job.nodes == ("fat-0", "fat-1")
    assert sorted(log(job).splitlines()) == [
        f"{r}: {r} 4 {r % 2} 2 {r // 2} 127.0.0.1 fat-{r // 2} {job.job_id} 0 True" for r in range(4)
    ]


def test_lines_of_ranks_that_write_at_once_stay_whole(site: LocalSite) -> None:
    script = "import os\nfor i in range(2000): print(os.environ['RANK'] * 40, i)\nprint('no newline', end='')"
    job = seen(site, site.submit(python(script), nodes=3), over)
    lines = log(job).splitlines()
    expected = [f"{r}: {str(r) * 40} {i}" for r in range(3) for i in range(2000)] + [f"{r}: no newline" for r in range(3)]
    assert sorted(lines) == sorted(expected)


def test_an_endless_line_is_broken_and_not_kept_in_memory(site: LocalSite) -> None:
    job = seen(site, site.submit(python("import os; os.write(1, b'x' * 1_000_000)")), over)
    assert log(job).count("x") == 1_000_000
    assert max(map(len, log(job).splitlines())) < 70_000


def test_one_rank_that_dies_takes_the_others_along_after_a_grace(site: LocalSite) -> None:
    job_id = site.submit(sh("exec sleep 600"), nodes=3)
    ranks = ranks_up(site, job_id, 3)
    pid = ranks[1].pid
    assert pid
    os.kill(pid, signal.SIGKILL)
    job = seen(site, job_id, over)
    assert (job.state, job.exit_code, job.exit_signal) == (JobState.FAILED, None, 9)
    assert job.failed_node == ""
    assert f"local: error: node {ranks[1].node}: rank 1: killed by signal 9\n" in log(job)
    assert log(job).count("error") == 1
    assert log(job).count("stopped by the scheduler") == 2
    after = site.scheduler.ranks(job)
    assert [(r.exit_signal, r.state) for r in after] == [(15, ""), (9, ""), (15, "")]
    assert all(r.ended_at for r in after)


def test_the_first_rank_that_fails_gives_the_job_its_exit_code(site: LocalSite) -> None:
    script = 'if [ "$RANK" = 1 ]; then exit 7; fi; trap "exit 5" TERM; sleep 600 & wait'
    job = seen(site, site.submit(sh(script), nodes=2), over)
    assert (job.state, job.exit_code, job.reason) == (JobState.FAILED, 7, "NonZeroExitCode")


def test_a_stopped_rank_leaves_the_job_running_and_is_shown_as_stopped(site: LocalSite) -> None:
    job_id = site.submit(sh("exec sleep 600"), nodes=2)
    ranks = ranks_up(site, job_id, 2)
    assert ranks[0].pid
    os.kill(ranks[0].pid, signal.SIGSTOP)
    until(lambda: site.scheduler.ranks(site.scheduler.job(job_id))[0].state == "T", DEADLINE_S)
    assert site.scheduler.job(job_id).state is JobState.RUNNING
    site.scheduler.requeue(job_id, running=True)
    assert site.scheduler.job(job_id).completing
    seen(site, job_id, lambda j: not j.completing)
    assert all(processes.stat(r.pid) is None for r in ranks if r.pid)


def test_a_rank_that_ignores_sigterm_is_killed(site: LocalSite) -> None:
    job_id = site.submit(
        python("import signal; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); signal.pause(); signal.pause()")
    )
    ranks = ranks_up(site, job_id, 1)
    until(lambda: "deaf" in log(site.scheduler.job(job_id)), DEADLINE_S)
    site.scheduler.cancel(job_id)
    job = seen(site, job_id, over)
    assert job.state is JobState.CANCELLED
    assert site.scheduler.ranks(job)[0].exit_signal == 9
    assert ranks[0].pid
    assert processes.stat(ranks[0].pid) is None


def test_no_descendant_outlives_its_attempt_whatever_session_it_chose(site: LocalSite) -> None:
    script = f"setsid sleep 600 & echo $! > {site.folder}/child; sleep 600"
    job_id = site.submit(sh(script))
    child = int(until(lambda: (site.folder / "child").exists() and (site.folder / "child").read_text().strip(), DEADLINE_S))
    site.scheduler.cancel(job_id)
    seen(site, job_id, over)
    until(lambda: (processes.stat(child) or "Z")[0] == "Z", DEADLINE_S)


def test_a_command_that_is_not_there_fails_with_a_line_in_the_log(site: LocalSite) -> None:
    job = seen(site, site.submit(["no-such-command-here"], nodes=2), over)
    assert (job.state, job.exit_code) == (JobState.FAILED, 127)
    assert "could not be started" in job.reason
    assert "rank 0: the command could not be started" in log(job)


def test_a_log_folder_that_vanished_fails_the_job_and_nothing_hangs(site: LocalSite) -> None:
    gone = site.folder / "gone"
    gone.mkdir()
    site.scheduler.drain(NODES[0], "hold on")
    job_id = site.scheduler.submit(sh("true"), folder=site.folder, output=gone / "log", exclude=NODES[1:])
    gone.rmdir()
    site.scheduler.resume(NODES[0])
    job = seen(site, job_id, over)
    assert job.state is JobState.FAILED
    assert "OutputUnwritable" in job.reason


@pytest.mark.parametrize(("append", "lines"), [(False, ["0: run 1"]), (True, ["0: run 0", "0: run 1"])])
def test_a_restart_begins_the_log_anew_unless_the_owner_chose_to_append(site: LocalSite, append: bool, lines: list[str]) -> None:
    job_id = site.scheduler.submit(sh("echo run $RERAIL_RESTART_COUNT"), folder=site.folder, append=append)
    seen(site, job_id, over)
    site.scheduler.requeue(job_id, running=False)
    site.scheduler.start_now(job_id)
    assert log(seen(site, job_id, over)).splitlines() == lines


def test_secrets_of_the_submitter_do_not_reach_the_job_or_the_record(site: LocalSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_TOKEN", "hunter2hunter2")
    job_id = site.scheduler.submit(sh("env"), folder=site.folder, env={"WANTED": "yes"})
    text = log(seen(site, job_id, over))
    assert "WANTED=yes" in text
    assert "hunter2" not in text
    assert all(b"hunter2" not in p.read_bytes() for p in site.scheduler.folder.rglob("*") if p.is_file())


def test_only_the_owner_can_read_the_record(site: LocalSite) -> None:
    job_id = site.submit(sh("true"))
    seen(site, job_id, over)
    folder = site.scheduler.folder
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(book_path(folder).stat().st_mode) == 0o600
    assert stat.S_IMODE((folder / "jobs" / job_id / "0" / "spec.json").stat().st_mode) == 0o600


# Who may die


def test_a_killed_daemon_neither_loses_nor_doubles_a_job(site: LocalSite) -> None:
    job_id = site.submit(sh(WAITS, site.folder), nodes=3)
    for _ in range(8):
        kill_daemon(site)
        site.scheduler.job(job_id)
    ranks_up(site, job_id, 3)
    kill_daemon(site)
    until(lambda: len(started(site.folder)) >= 3, DEADLINE_S)
    (site.folder / "end").write_text("0")
    job = seen(site, job_id, over)
    assert (job.state, job.restarts) == (JobState.COMPLETED, 0)
    assert len(started(site.folder)) == 3


def test_exit_codes_survive_while_no_daemon_lives(site: LocalSite) -> None:
    job_id = site.submit(sh(f"{WAITS}", site.folder), nodes=2)
    ranks = ranks_up(site, job_id, 2)
    kill_daemon(site)
    (site.folder / "end").write_text("7")
    until(lambda: all(processes.stat(r.pid) is None for r in ranks if r.pid), DEADLINE_S)
    job = seen(site, job_id, over)
    assert (job.state, job.exit_code) == (JobState.FAILED, 7)
    assert [r.exit_code for r in site.scheduler.ranks(job)] == [7, 7]


def test_a_daemon_killed_in_the_middle_of_a_requeue_loses_nothing(site: LocalSite) -> None:
    job_id = site.submit(sh(WAITS, site.folder), nodes=2)
    first = ranks_up(site, job_id, 2)
    until(lambda: len(started(site.folder)) == 2, DEADLINE_S)
    for _ in range(3):
        kill_daemon(site)
        if site.scheduler.job(job_id).state is JobState.RUNNING:
            site.scheduler.requeue(job_id, running=True)
    seen(site, job_id, lambda j: not j.completing)
    site.scheduler.start_now(job_id)
    kill_daemon(site)
    job = seen(site, job_id, lambda j: j.state is JobState.RUNNING and len(started(site.folder)) >= 4)
    assert job.restarts == 1
    (site.folder / "end").write_text("0")
    seen(site, job_id, over)
    assert len(started(site.folder)) == 4
    assert all(processes.stat(r.pid) is None for r in first if r.pid)


def test_a_rank_whose_guard_was_killed_is_lost_and_leaves_nothing_behind(site: LocalSite) -> None:
    job_id = site.submit(sh("exec sleep 600"), nodes=2)
    ranks = ranks_up(site, job_id, 2)
    claim = site.scheduler.folder / "jobs" / job_id / "0" / "0.claim"
    os.kill(int(claim.read_text()), signal.SIGKILL)
    job = seen(site, job_id, over)
    assert (job.state, job.reason) == (JobState.FAILED, "RankLost")
    until(lambda: all(processes.stat(r.pid) is None for r in ranks if r.pid), DEADLINE_S)


def test_a_job_goes_on_when_its_submitter_is_killed(site: LocalSite) -> None:
    script = (
        "import sys, time; from pathlib import Path; from adapters.schedulers.local import LocalScheduler;"
        "s = LocalScheduler.at(Path(sys.argv[1]));"
        "print(s.submit(['sh', '-c', sys.argv[2], sys.argv[3]], folder=sys.argv[3]), flush=True); time.sleep(600)"
    )
    with _python(script, site.scheduler.folder, WAITS, site.folder) as submitter:
        assert submitter.stdout
        job_id = submitter.stdout.readline().strip()
        ranks_up(site, job_id, 1)
        submitter.kill()
    until(lambda: len(started(site.folder)) == 1, DEADLINE_S)
    assert site.scheduler.job(job_id).state is JobState.RUNNING
    (site.folder / "end").write_text("0")
    assert seen(site, job_id, over).state is JobState.COMPLETED


def test_of_many_processes_that_requeue_a_job_one_succeeds(site: LocalSite) -> None:
    job_id = site.submit(sh("exit 1"))
    seen(site, job_id, over)
    script = (
        "import sys; from pathlib import Path; from adapters.schedulers.local import LocalScheduler\n"
        "from rerail.errors import Refused\n"
        "s = LocalScheduler.at(Path(sys.argv[1])); print('ready', flush=True); sys.stdin.readline()\n"
        "try: s.requeue(sys.argv[2], running=False); print('done')\n"
        "except Refused as error: print(error)"
    )
    callers = [_python(script, site.scheduler.folder, job_id) for _ in range(5)]
    for caller in callers:
        assert caller.stdout
        assert caller.stdout.readline() == "ready\n"
    answers = []
    for caller in callers:
        assert caller.stdin
        caller.stdin.write("\n")
        caller.stdin.flush()
    for caller in callers:
        answers.append(caller.communicate(timeout=DEADLINE_S)[0].strip())
    assert sorted(a == "done" for a in answers) == [False] * 4 + [True]
    assert all("pending" in a or "runs again" in a for a in answers if a != "done")
    assert site.scheduler.job(job_id).restarts == 1


def test_many_processes_that_submit_share_one_daemon(site: LocalSite) -> None:
    script = (
        "import sys; from pathlib import Path; from adapters.schedulers.local import LocalScheduler\n"
        "s = LocalScheduler.at(Path(sys.argv[1]))\n"
        "print(*[s.submit(['true'], folder=sys.argv[2]) for _ in range(5)])"
    )
    callers = [_python(script, site.scheduler.folder, site.folder) for _ in range(4)]
    ids = [int(i) for caller in callers for i in caller.communicate(timeout=DEADLINE_S)[0].split()]
    assert sorted(ids) == list(range(1, 21))
    for number in ids:
        assert seen(site, str(number), over).state is JobState.COMPLETED
    assert _daemons(site.scheduler.folder) == 1


def test_an_idle_daemon_goes_and_the_next_job_brings_one(hasty: LocalSite) -> None:
    for _ in range(3):
        assert seen(hasty, hasty.submit(sh("true")), over).state is JobState.COMPLETED
        until(lambda: not bell.held(hasty.scheduler.folder), DEADLINE_S)


def test_a_daemon_that_does_not_move_makes_reads_unknown_and_not_stale(site: LocalSite) -> None:
    job_id = site.submit(sh("exec sleep 600"))
    ranks_up(site, job_id, 1)
    pid = bell.pid(site.scheduler.folder)
    assert pid
    os.kill(pid, signal.SIGSTOP)
    until(lambda: (processes.stat(pid) or "")[0] == "T", DEADLINE_S)
    os.utime(site.scheduler.folder / "beat", (time.time() - 100, time.time() - 100))
    try:
        with pytest.raises(Unreadable, match="has not moved"):
            site.scheduler.read()
        with pytest.raises(Unreadable, match=str(pid)):
            site.scheduler.job(job_id)
    finally:
        os.kill(pid, signal.SIGCONT)
    until(lambda: _moves(site), DEADLINE_S)
    assert site.scheduler.job(job_id).state is JobState.RUNNING


def _moves(site: LocalSite) -> bool:
    return time.time() - (site.scheduler.folder / "beat").stat().st_mtime < 10


def test_a_daemon_that_is_told_to_go_leaves_the_ranks_alone(site: LocalSite) -> None:
    job_id = site.submit(sh("exec sleep 600"), nodes=2)
    before = ranks_up(site, job_id, 2)
    site.scheduler.stop_daemon()
    assert bell.pid(site.scheduler.folder) is None
    assert all(processes.stat(r.pid) for r in before if r.pid)
    job = site.scheduler.job(job_id)
    assert job.state is JobState.RUNNING
    assert [r.pid for r in site.scheduler.ranks(job)] == [r.pid for r in before]


# What is refused


def test_a_job_that_ended_too_long_ago_is_not_requeued(hasty: LocalSite) -> None:
    job = seen(hasty, hasty.submit(sh("exit 1")), over)
    assert job.requeue_until == job.ended_at
    with pytest.raises(Refused, match="too long"):
        hasty.scheduler.requeue(job.job_id, running=False)


def test_a_cancelled_job_is_not_requeued(site: LocalSite) -> None:
    job_id = site.submit(sh("exec sleep 600"))
    site.scheduler.cancel(job_id)
    with pytest.raises(Refused, match="was cancelled by"):
        site.scheduler.requeue(job_id, running=False)
    assert seen(site, job_id, over).restarts == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"nodes": 5}, "the cluster has 4"),
        ({"ranks_per_node": 2}, "the cluster has 0"),
        ({"nodes": 0}, "at least one node"),
        ({"exclude": ["gpu-99"]}, "no node gpu-99"),
        ({"exclude": ["../../etc"]}, "no node name"),
        ({"name": "a\nb"}, "one line"),
        ({"name": "x" * 300}, "200 characters"),
        ({"comment": "\x1b[2J"}, "control characters"),
        ({"folder": "/no/such/folder"}, "does not exist"),
        ({"output": "/no/such/folder/log"}, "missing or not writable"),
        ({"output": "/dev/full"}, "no ordinary file"),
        ({"env": {"A=B": "1"}}, "environment"),
    ],
)
def test_what_can_never_run_is_refused_at_submit(site: LocalSite, options: dict[str, object], words: str) -> None:
    with pytest.raises(Refused, match=words):
        site.scheduler.submit(sh("true"), **{"folder": site.folder, **options})  # type: ignore[arg-type]
    assert site.scheduler.read().jobs == ()


@pytest.mark.parametrize("argv", [[], [""], ["a\0b"], ["x", "y" * 200_000]])
def test_what_is_no_command_line_is_refused(site: LocalSite, argv: list[str]) -> None:
    with pytest.raises(Refused):
        site.submit(argv)


@pytest.mark.parametrize("name", ["../x", "a/b", "", "-n", "x" * 80, "a b", ".", "\x1b[1m"])
def test_a_node_name_that_could_leave_the_folder_is_refused(site: LocalSite, tmp_path: Path, name: str) -> None:
    with pytest.raises(Refused):
        LocalScheduler.create(tmp_path / "other", "lab", ["good", name])
    with pytest.raises(Refused):
        site.scheduler.kernel_log(name)
    with pytest.raises(Refused):
        site.scheduler.drain(name, "why")


def test_a_folder_without_a_cluster_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="create"):
        LocalScheduler("lab", tmp_path).read()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_another_cluster_is_not_read(site: LocalSite) -> None:
    with pytest.raises(Misconfigured, match="belongs to the local cluster lab"):
        LocalScheduler("prod", site.scheduler.folder).read()
    with pytest.raises(Refused, match="holds the local cluster lab"):
        LocalScheduler.create(site.scheduler.folder, "prod", ["x"])


def test_a_record_that_is_garbage_is_unreadable_and_never_empty(tmp_path: Path) -> None:
    scheduler = LocalScheduler.create(tmp_path / "c", "lab", NODES)
    for path in scheduler.folder.glob("record.db*"):
        path.write_bytes(b"\0garbage" * 1000)
    with pytest.raises(Unreadable):
        scheduler.read()


# Nodes


def test_a_drained_node_keeps_its_job_and_gets_no_new_one(site: LocalSite) -> None:
    first = seen(site, site.submit(sh("exec sleep 600")), lambda j: j.state is JobState.RUNNING)
    site.scheduler.drain(first.nodes[0], "fan is loud")
    second = seen(site, site.submit(sh("exec sleep 600"), nodes=3), lambda j: j.state is JobState.RUNNING)
    node = next(n for n in site.scheduler.nodes() if n.name == first.nodes[0])
    assert (node.state, node.reason, node.busy) == (NodeState.DRAINED, "fan is loud", True)
    assert site.scheduler.job(first.job_id).state is JobState.RUNNING
    assert first.nodes[0] not in second.nodes
    site.scheduler.cancel(first.job_id)
    seen(site, first.job_id, over)
    waiting = site.submit(sh("true"))
    assert seen(site, waiting, lambda j: bool(j.reason)).reason == "Resources"
    site.scheduler.resume(first.nodes[0])
    assert seen(site, waiting, over).nodes == first.nodes


def test_an_exclusion_that_is_too_wide_is_told_as_the_reason(site: LocalSite) -> None:
    job_id = site.submit(sh("true"), nodes=2, exclude=NODES[1:])
    assert seen(site, job_id, lambda j: bool(j.reason)).reason == "BadConstraints"
    site.scheduler.exclude(job_id, [])
    assert seen(site, job_id, over).state is JobState.COMPLETED


# Cheap to ask


def test_a_read_stays_fast_with_thousands_of_ended_jobs(site: LocalSite) -> None:
    ended = time.time() - 4000
    row = {
        **{"name": "old", "user": "u", "argv": [], "env": {}, "folder": "/", "output": "/x", "append": False, "nodes_needed": 1},
        **{"ranks_per_node": 1, "requeue": True, "excluded": [], "state": JobState.COMPLETED, "nodes": ["gpu-00"]},
        **{"submitted_at": ended, "started_at": ended, "ended_at": ended},
    }
    with writing(site.scheduler.folder) as book:
        for _ in range(5000):
            book.add(**row)
    job_id = site.submit(sh("exec sleep 600"))
    samples = []
    for _ in range(20):
        began = time.perf_counter()
        reading = site.scheduler.read()
        samples.append(time.perf_counter() - began)
    assert [j.job_id for j in reading.jobs] == [job_id]
    assert min(samples) < 0.02
    assert site.scheduler.job("17").name == "old"


# The command line


def test_the_command_line_walks_a_job_through_its_life(site: LocalSite, capsys: pytest.CaptureFixture[str]) -> None:
    folder = ["--folder", str(site.scheduler.folder)]

    def says(*argv: str) -> str:
        assert main([*folder, *argv]) == 0
        return capsys.readouterr().out

    job_id = says(
        "submit", "--nodes", "2", "--chdir", str(site.folder), "--exclude", "gpu-00", "--", *sh(WAITS, site.folder)
    ).strip()
    ranks_up(site, job_id, 2)
    assert "gpu-01,gpu-02" in says("jobs")
    assert "rank 1" in says("job", job_id)
    says("requeue", job_id)
    says("exclude", job_id, "gpu-01,gpu-00")
    says("drain", "gpu-02", "--reason", "burnt")
    assert "burnt" in says("nodes")
    says("resume", "gpu-02")
    assert json.loads(says("job", "--json", job_id))["excluded_nodes"] == ["gpu-01", "gpu-00"]
    says("start-now", job_id)
    seen(site, job_id, lambda j: j.state is JobState.RUNNING)
    says("cancel", job_id)
    seen(site, job_id, over)
    assert json.loads(says("jobs", "--json"))["jobs"][0]["state"] == "cancelled"
    says("stop-daemon", "--cancel-jobs")
    assert bell.pid(site.scheduler.folder) is None


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (["job", "7"], 1, "no job 7"),
        (["job", "x;y"], 1, "no job id"),
        (["drain", "nope", "--reason", "x"], 1, "no node nope"),
        (["drain", "gpu-00", "--reason", " "], 1, "needs a reason"),
        (["submit", "--env", "AB", "--", "true"], 1, "NAME=VALUE"),
        (["create", "--cluster", "lab", "--nodes", "x", "--kill-wait-s", "-1"], 1, "between 0 and 86400"),
    ],
)
def test_the_command_line_refuses_with_one_sentence(
    site: LocalSite, capsys: pytest.CaptureFixture[str], argv: list[str], code: int, words: str
) -> None:
    assert main(["--folder", str(site.scheduler.folder), *argv]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert words in captured.err
    assert captured.err.startswith("error: ")
    assert captured.err.count("\n") == 1


def test_times_are_utc_and_of_today(site: LocalSite) -> None:
    job = seen(site, site.submit(sh("true")), over)
    for moment in (job.submitted_at, job.started_at, job.ended_at):
        assert moment is not None
        assert abs(datetime.now(UTC) - moment) < timedelta(minutes=5)


def _python(script: str, *arguments: object) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        python(script, *arguments),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])},
    )


def _daemons(folder: Path) -> int:
    """Processes that run the daemon of that folder."""
    lines = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                lines.append((entry / "cmdline").read_bytes().split(b"\0"))
            except OSError:
                continue
    return sum(b"adapters.schedulers.local.daemon" in line and str(folder).encode() in line for line in lines)
