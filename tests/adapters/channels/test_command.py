"""The command, as a real process."""

import json
import os
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from adapters.channels.command import ENVIRONMENT, MAX_OUTPUT_BYTES, Command
from adapters.channels.wording import payload
from rerail.errors import Misconfigured, OutcomeUnknown, Permanent, Transient
from rerail.ports import Channel
from rerail.records import Notice, NoticeKind

NOTICE = Notice(
    key="k; touch /tmp/x",
    kind=NoticeKind.WAITING,
    cluster="alpha",
    title="$(id) waits",
    text="z" * 3_000,
    at=datetime(2026, 12, 1, 9, 30, tzinfo=UTC),
)


def python(program: str, *arguments: str, timeout_s: float = 20.0) -> Command:
    return Command([sys.executable, "-c", program, *arguments], timeout_s=timeout_s)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_it_is_a_channel() -> None:
    assert isinstance(Command(["/bin/true"]), Channel)


def test_the_program_gets_the_notice_and_little_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RERAIL_SECRET", "hunter2")
    program = (
        "import json, os, sys\njson.dump([sys.stdin.read(), dict(os.environ), sys.argv[2:], os.getcwd()], open(sys.argv[1], 'w'))"
    )
    python(program, str(tmp_path / "out"), "a b; id").send(NOTICE)
    came, environ, arguments, folder = json.loads((tmp_path / "out").read_text())
    assert came.encode() == payload(NOTICE)
    assert {name: environ[name] for name in ENVIRONMENT} == ENVIRONMENT
    assert "RERAIL_SECRET" not in environ
    assert arguments == ["a b; id"]
    assert folder == "/"


def test_a_program_that_reads_nothing_is_fine() -> None:
    Command(["/bin/true"]).send(NOTICE)


def test_a_failure_is_transient_and_tells_what_the_program_said() -> None:
    with pytest.raises(Transient, match=r"ended with 3 and said 'no \[31mroute'; it is tried again"):
        python("import sys; print('no \\x1b[31mroute', file=sys.stderr); sys.exit(3)").send(NOTICE)


@pytest.mark.parametrize("code", [os.EX_USAGE, os.EX_NOPERM, os.EX_CONFIG])
def test_a_failure_that_stays_is_permanent(code: int) -> None:
    with pytest.raises(Permanent, match=f"ended with {code}"):
        python(f"raise SystemExit({code})").send(NOTICE)


def test_a_program_ended_by_a_signal_is_transient() -> None:
    with pytest.raises(Transient, match="ended with -9"):
        python("import os; os.kill(os.getpid(), 9)").send(NOTICE)


def test_a_program_that_is_not_there_is_misconfigured(tmp_path: Path) -> None:
    (tmp_path / "page").write_text("#!/bin/sh\n")
    for program in (tmp_path / "gone", tmp_path / "page", tmp_path):
        with pytest.raises(Misconfigured, match="cannot be started"):
            Command([str(program)]).send(NOTICE)


def test_a_program_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    program = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "open(sys.argv[1], 'w').write(str(child.pid))\n"
        "time.sleep(600)"
    )
    with pytest.raises(OutcomeUnknown, match="did not end in 3 s and was ended"):
        python(program, str(tmp_path / "pid"), timeout_s=3).send(NOTICE)
    child = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 10
    while alive(child) and time.monotonic() < deadline:
        os.sched_yield()
    assert not alive(child)


def test_endless_output_neither_blocks_nor_fills_the_memory() -> None:
    program = "import sys\nfor _ in range(50_000): sys.stdout.write('x' * 100)\nraise SystemExit(1)"
    with pytest.raises(Transient) as caught:
        python(program).send(NOTICE)
    assert len(str(caught.value)) < MAX_OUTPUT_BYTES


def test_a_child_left_behind_on_purpose_does_not_hold_us_up(tmp_path: Path) -> None:
    program = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import sys; sys.stdin.readline()'], stdin=open(sys.argv[1]))\n"
        "open(sys.argv[2], 'w').write(str(child.pid))\n"
    )
    os.mkfifo(tmp_path / "fifo")
    held = os.open(tmp_path / "fifo", os.O_RDWR)
    began = time.monotonic()
    python(program, str(tmp_path / "fifo"), str(tmp_path / "pid"), timeout_s=60).send(NOTICE)
    assert time.monotonic() - began < 30
    assert alive(int((tmp_path / "pid").read_text()))
    os.write(held, b"\n")  # and lets it go
    os.close(held)
