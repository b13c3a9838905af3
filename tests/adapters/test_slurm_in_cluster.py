"""Commands end when they must, leave nothing behind, and never see a shell."""

import os
import time
from pathlib import Path

import pytest

from adapters.schedulers.slurm import InCluster, Ran, SlurmScheduler
from rerail.errors import Misconfigured, OutcomeUnknown, Transient, Unreadable
from tests.testbed.processes import wait_until


@pytest.fixture
def commands(tmp_path: Path) -> Path:
    """A folder of commands of our own making."""
    folder = tmp_path / "bin"
    folder.mkdir()
    return folder


def command(folder: Path, name: str, script: str) -> None:
    file = folder / name
    file.write_text("#!/bin/sh\n" + script)
    file.chmod(0o755)


NO_TABLE = """case "$*" in *--Format=*) echo 'squeue: error: Invalid job format specification: exit_code' >&2; exit 1;; esac
"""
"""As a squeue says that has other fields than we ask for; then its JSON is read."""


def way_in(folder: Path, most_output: int = 1_000_000) -> InCluster:
    return InCluster(search_path=f"{folder}:/usr/bin:/bin", most_output=most_output)


def test_a_missing_command_says_what_to_install(commands: Path) -> None:
    scheduler = SlurmScheduler("c", InCluster(search_path=str(commands)))
    with pytest.raises(Misconfigured, match=r"no command squeue in .*; install"):
        scheduler.read()


def test_both_streams_and_the_exit_status_come_back(commands: Path) -> None:
    command(commands, "both", 'printf "%s|" "$@"; echo wrong >&2; exit 3')
    assert way_in(commands).run(["both", "$(id)", "; rm"], 5) == Ran(3, b"$(id)|; rm|", b"wrong\n")


def test_a_hanging_command_is_stopped_with_its_children_and_its_outcome_is_unknown(commands: Path, tmp_path: Path) -> None:
    command(commands, "hang", f"sleep 600 & echo $! >{tmp_path}/child; wait")
    began = time.monotonic()
    with pytest.raises(OutcomeUnknown, match=r"hang did not end within 0\.5 s"):
        way_in(commands).run(["hang"], 0.5)
    assert time.monotonic() - began < 3
    child = Path("/proc") / (tmp_path / "child").read_text().strip() / "stat"
    wait_until(lambda: not child.exists() or ") Z " in child.read_text(), 5, "end of the child")


def test_a_command_that_closes_its_output_and_goes_on_is_stopped_too(commands: Path) -> None:
    command(commands, "mute", "exec >/dev/null 2>&1; exec sleep 600")
    with pytest.raises(OutcomeUnknown):
        way_in(commands).run(["mute"], 0.5)


def test_output_without_end_is_cut(commands: Path) -> None:
    command(commands, "flood", "exec cat /dev/zero")
    with pytest.raises(OutcomeUnknown, match="more than 1000000 bytes"):
        way_in(commands).run(["flood"], 20)


def test_what_hangs_while_reading_is_unreadable_and_while_acting_unknown(commands: Path) -> None:
    entry = '{"job_id": 7, "job_state": "RUNNING", "batch_flag": true, "requeue": true}'
    answer = f"""echo '{{"errors": [], "jobs": [{entry}]}}'"""
    command(commands, "squeue", f"{NO_TABLE}[ -e {commands}/slow ] && exec sleep 600; {answer}")
    command(commands, "scontrol", '[ "$1" = show ] && echo "MinJobAge = 300 sec" || exec sleep 600')
    scheduler = SlurmScheduler("c", way_in(commands), read_deadline_s=0.5, effect_deadline_s=0.5)
    with pytest.raises(OutcomeUnknown):
        scheduler.requeue("7", running=True)
    (commands / "slow").touch()
    with pytest.raises(Unreadable):
        scheduler.read()
    with pytest.raises(Transient) as caught:
        scheduler.requeue("7", running=True)
    assert not isinstance(caught.value, OutcomeUnknown)  # it could not even look, so nothing was done


def test_a_job_never_starts_in_the_second_in_which_its_last_attempt_ended(commands: Path) -> None:
    """Slurm kills it then: "Killing non-startable batch job: Job credential revoked"."""
    command(commands, "squeue", NO_TABLE + """echo '{"errors": [], "jobs": [{"job_id": 7, "job_state": "PENDING"}]}'""")
    command(commands, "scontrol", f'echo "$@" >> {commands}/asked')
    SlurmScheduler("c", way_in(commands)).start_now("7")
    assert (commands / "asked").read_text().splitlines()[-1] == "update jobid=7 StartTime=now+2seconds"


def test_nothing_of_our_environment_changes_what_commands_say(commands: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQUEUE_STATES", "PENDING")
    command(commands, "show", "exec env")
    conf = commands / "slurm.conf"
    conf.touch()
    said = InCluster(str(conf), search_path=f"{commands}:/usr/bin:/bin").run(["show"], 5).stdout.decode()
    assert "SQUEUE_STATES" not in said
    assert f"SLURM_CONF={conf}" in said
    assert os.environ["SQUEUE_STATES"]
