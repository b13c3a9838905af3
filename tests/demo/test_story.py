"""The story of each fault, from the first process to the last, as a person sees it."""

import os
import re
import shlex
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from demo.faults import SCENES, Fault
from tests.demo.performed import DEADLINE_S, ROOT, performed

YES = {"YES": "1"}
WHOM = {Fault.CRASH: 2, Fault.KILLED: 0, Fault.HANG: 3, Fault.BUG: 1, Fault.STRAGGLER: 1, Fault.THROTTLED: 2}

ENDS = {
    Fault.CRASH: r"past the failed step \d+: training is at step \d+",
    Fault.KILLED: r"past the failed step \d+: training is at step \d+",
    Fault.HANG: r"past the failed step \d+: training is at step \d+",
    Fault.BUG: r"stopped, as approved\n +stopped: \S+",
    Fault.STRAGGLER: r"verdict: straggler, unknown \(\w+\), rank 1\n +no_action: ",
    Fault.THROTTLED: r"verdict: straggler, hardware \(cpu_thermal_throttle\)(?s:.*)past the failed step \d+: training is",
}


@pytest.mark.parametrize("fault", SCENES)
def test_the_story_of_a_fault_ends_as_it_has_to(tmp_path: Path, fault: Fault) -> None:
    with performed(tmp_path, fault, "--rank", str(WHOM[fault]), "--hang-floor", "8", variables=YES) as demo:
        assert demo.exit_code() == 0, demo.shown
        assert demo.left() == {}
    timeline = demo.shown.partition("Timeline, in seconds since the fault:")[2]
    moments = [float(s) for s in re.findall(r"^ +(\d+\.\d)  ", timeline, re.MULTILINE)]
    assert moments == sorted(moments)
    assert re.search(ENDS[fault], timeline)
    assert re.search(r"/namespaces/default/workflows/remediate-job%2F\S+/[0-9a-f-]{36}/user-metadata", demo.shown)


def test_a_person_at_the_terminal_is_asked_and_has_to_say_why(tmp_path: Path) -> None:
    with performed(tmp_path, Fault.CRASH, terminal=True) as demo:
        demo.until(r"Approve or reject\? \[a/r\]")
        demo.type("perhaps\n")
        demo.until(r"(?s)Approve or reject.*Approve or reject")
        demo.type("a\n")
        demo.until(r"Your name \[.+\]:")
        demo.type("anna\n")
        demo.until(r"Why\?")
        demo.type("\n")
        demo.until("Something has to stand here")
        demo.type("the GPU is gone\n")
        assert demo.exit_code() == 0, demo.shown
    assert re.search(r"Approved by anna \(by update\): the GPU is gone", demo.shown)
    assert "came another way" not in demo.shown


def test_the_printed_command_answers_and_the_question_goes_away(tmp_path: Path) -> None:
    with performed(tmp_path, Fault.KILLED, terminal=True) as demo:
        demo.until(r"Approve or reject\? \[a/r\]")
        command = demo.until(r"\S+/rerail (approve [^\r\n]+)")[1].replace("WHY", "'seen from elsewhere'")
        argv = [sys.executable, "-m", "rerail.cli", *shlex.split(command), "--by", "bert"]
        subprocess.run(argv, check=True, timeout=DEADLINE_S, cwd=ROOT / "src")
        assert demo.exit_code() == 0, demo.shown
    assert "(The answer came another way.)" in demo.shown
    assert re.search(r"Approved by bert \(by update\): seen from elsewhere", demo.shown)


def test_what_a_person_rejects_is_not_done_and_told_as_another_end(tmp_path: Path) -> None:
    with performed(tmp_path, Fault.KILLED, terminal=True) as demo:
        for question, answer in ((r"\[a/r\]", "r"), (r"Your name", ""), (r"Why\?", "not now")):
            demo.until(question)
            demo.type(f"{answer}\n")
        assert demo.exit_code() == 1, demo.shown
    assert re.search(r"the outcome is rejected, not recovered", demo.shown)
    assert "running again" not in demo.shown


MOMENTS: dict[str, tuple[str, signal.Signals, dict[str, str]]] = {
    "at the start": ("The story of a fault", signal.SIGINT, {}),
    "before the job": ("Temporal runs at", signal.SIGTERM, {}),
    "in training": ("is submitted", signal.SIGINT, {}),
    "while a person is asked": ("Answer in one of these ways", signal.SIGHUP, {}),
    "during the restart": ("the plan is carried out|has taken the job back", signal.SIGTERM, {"YES": "1"}),
    "while it is kept": ("KEEP=1", signal.SIGINT, {"YES": "1", "KEEP": "1"}),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_signal_ends_everything(tmp_path: Path, moment: str) -> None:
    text, number, variables = MOMENTS[moment]
    with performed(tmp_path, Fault.KILLED, variables=variables) as demo:
        demo.until(text)
        demo.process.send_signal(number)
        assert demo.exit_code() == (0 if "KEEP" in variables else 128 + number), demo.shown
        assert demo.left() == {}
    assert "Nothing is left running." in demo.shown


def test_ctrl_c_at_the_question_ends_everything(tmp_path: Path) -> None:
    with performed(tmp_path, Fault.HANG, "--hang-floor", "4", terminal=True) as demo:
        demo.until(r"Approve or reject\? \[a/r\]")
        demo.type("\x03")
        assert demo.exit_code() == 128 + signal.SIGINT, demo.shown
        assert demo.left() == {}
    assert "came another way" not in demo.shown


def test_nothing_outlives_a_story_that_is_killed(tmp_path: Path) -> None:
    with performed(tmp_path, Fault.CRASH) as demo:
        demo.until("It trains on")
        demo.process.kill()
        demo.process.wait()
        demo.wait_until_nothing_is_left()


def test_a_service_that_dies_is_told_and_ends_the_story(tmp_path: Path) -> None:
    with performed(tmp_path, Fault.CRASH) as demo:
        demo.until("Temporal runs at")
        os.kill(next(pid for pid, line in demo.left().items() if "temporal server" in line), signal.SIGKILL)
        assert demo.exit_code() == 1
        assert demo.left() == {}
    assert re.search(r"The story broke off: temporal ended unexpectedly", demo.shown)


def test_two_demonstrations_run_side_by_side(tmp_path: Path) -> None:
    with ExitStack() as both:
        demos = [both.enter_context(performed(tmp_path / name, Fault.BUG, variables=YES)) for name in ("one", "two")]
        addresses = {demo.until(r"Temporal runs at (\S+);")[1] for demo in demos}
        assert len(addresses) == 2
        assert [demo.exit_code() for demo in demos] == [0, 0]


def test_an_unknown_fault_is_refused_with_the_names_of_those_there_are(tmp_path: Path) -> None:
    with performed(tmp_path, "flood") as demo:
        assert demo.exit_code() == 2
    assert "FAULT has to be one of crash, killed, hang, bug" in demo.shown
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_told_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with performed(tmp_path / "file" / "home", Fault.CRASH) as demo:
        assert demo.exit_code() == 2
    assert "choose one by DEMO_DIR=" in demo.shown
    assert "Traceback" not in demo.shown
