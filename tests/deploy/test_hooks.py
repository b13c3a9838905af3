"""The hooks of Slurm are gone in milliseconds with exit code 0, whatever rerail does; what they tell arrives."""

import contextlib
import os
import shutil
import signal
import socket
import statistics
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.stage import ROOT, free_port
from workers.intake import understood

HOOKS = ROOT / "deploy" / "slurm" / "hooks"
TOKEN = "0123456789abcdef" * 4
PATIENCE_S = 20.0


@pytest.fixture
def hooks(tmp_path: Path) -> Path:
    """A copy of them, with settings of its own."""
    folder = tmp_path / "hooks"
    shutil.copytree(HOOKS, folder)
    configure(folder, SOCKET=tmp_path / "in.sock")
    return folder


@pytest.fixture
def heard(tmp_path: Path) -> Iterator[socket.socket]:
    """What an intake would hear."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(tmp_path / "in.sock"))
        receiver.settimeout(PATIENCE_S)
        yield receiver


def configure(hooks: Path, **settings: object) -> None:
    (hooks / "hook.conf").write_text("".join(f"{name}='{value}'\n" for name, value in settings.items()))


def run(program: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    """As slurmctld runs a script: few variables, a pipe for its words, and it waits until all have closed that pipe."""
    made = {"SLURM_JOB_ID": "41001", "SLURM_CLUSTER_NAME": "alpha", "PATH": "/usr/bin:/bin", **environment}
    return subprocess.run([program], env=made, capture_output=True, text=True, timeout=PATIENCE_S, check=False, cwd="/")


@pytest.mark.parametrize(
    ("hook", "message"), [("epilog-slurmctld", b"ended alpha 41001"), ("prolog-slurmctld", b"started alpha 41001")]
)
def test_a_hook_tells_the_job(hooks: Path, heard: socket.socket, hook: str, message: bytes) -> None:
    assert run(hooks / hook).returncode == 0
    assert heard.recv(1000) == message
    assert understood(message)


def test_the_settings_may_name_the_cluster_as_rerail_knows_it(hooks: Path, heard: socket.socket, tmp_path: Path) -> None:
    configure(hooks, SOCKET=tmp_path / "in.sock", CLUSTER="beta")
    run(hooks / "epilog-slurmctld")
    assert heard.recv(1000) == b"ended beta 41001"


def test_a_hook_does_not_wait_for_the_message_to_go(hooks: Path, heard: socket.socket) -> None:
    """Even on a busy machine its own time is far below a python's start."""
    took = []
    for _ in range(20):
        began = time.monotonic()
        assert run(hooks / "epilog-slurmctld").returncode == 0
        took.append(time.monotonic() - began)
        heard.recv(1000)
    assert statistics.median(took) < 0.25


def test_the_message_survives_the_end_of_the_scripts_process_group(hooks: Path, heard: socket.socket) -> None:
    """Newer Slurm ends the group of a script that has ended: TERM, then KILL 10 ms later (here later, for busy machines)."""
    environment = {"SLURM_JOB_ID": "7", "SLURM_CLUSTER_NAME": "alpha", "PATH": "/usr/bin:/bin"}
    script = subprocess.Popen([hooks / "epilog-slurmctld"], env=environment, start_new_session=True)
    assert script.wait(PATIENCE_S) == 0
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(script.pid, number)
        time.sleep(0.5)
    assert heard.recv(1000) == b"ended alpha 7"


def test_nothing_is_started_while_rerail_is_down(hooks: Path) -> None:
    spy = hooks / "python"
    spy.write_text(f"#!/bin/sh\ntouch {hooks}/started\n")
    spy.chmod(0o755)
    with (hooks / "hook.conf").open("a") as conf:
        conf.write(f"PYTHON={spy}\n")
    assert run(hooks / "epilog-slurmctld").returncode == 0
    assert not (hooks / "started").exists()


def test_a_rerail_that_hangs_holds_nobody_up_and_leaves_nothing_behind(hooks: Path, heard: socket.socket, tmp_path: Path) -> None:
    """Its queue is full: each sender gives up within its second."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as filler:
        filler.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                filler.sendto(b"x", str(tmp_path / "in.sock"))
    for _ in range(5):
        assert run(hooks / "epilog-slurmctld").returncode == 0
    deadline = time.monotonic() + PATIENCE_S
    while senders(hooks) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert senders(hooks) == []


def senders(hooks: Path) -> list[str]:
    """Processes that still send."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path("/proc", pid, "cmdline").read_bytes()
        except OSError:
            continue
        if str(hooks / "send.py").encode() in words:
            found.append(pid)
    return found


@pytest.mark.parametrize("conf", ["SOCKET=(", "exit 9", "set -e; false", "CLUSTER='a b; $(id)'", "PYTHON=/nowhere/python"])
def test_wrong_settings_never_fail_slurm(hooks: Path, heard: socket.socket, conf: str) -> None:
    (hooks / "hook.conf").write_text(conf + "\n")
    for hook in ("epilog-slurmctld", "prolog-slurmctld"):
        assert run(hooks / hook).returncode == 0


def test_a_health_check_runs_the_sites_own_and_tells_when_it_fails(hooks: Path, heard: socket.socket, tmp_path: Path) -> None:
    check = tmp_path / "check"
    check.write_text("#!/bin/sh\necho told; exit $CODE\n")
    check.chmod(0o755)
    configure(hooks, SOCKET=tmp_path / "in.sock", CLUSTER="alpha", HEALTH_CHECK=check)
    healthy = run(hooks / "health-check", CODE="0", SLURMD_NODENAME="gpu-01")
    assert (healthy.returncode, healthy.stdout) == (0, "told\n")
    assert run(hooks / "health-check", CODE="3", SLURMD_NODENAME="gpu-02").returncode == 3
    assert heard.recv(1000) == b"node alpha gpu-02"


def test_over_http_the_token_comes_from_a_file_and_no_list_of_processes_shows_it(hooks: Path, tmp_path: Path) -> None:
    got: list[tuple[str, bytes]] = []

    class Taker(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append((self.headers["Authorization"], self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    token, port = tmp_path / "token", free_port()
    token.write_text(TOKEN + "\n")
    configure(hooks, URL=f"http://127.0.0.1:{port}", TOKEN_FILE=token)
    with HTTPServer(("127.0.0.1", port), Taker) as server:
        server.timeout = PATIENCE_S
        waiting = threading.Thread(target=server.handle_request)
        waiting.start()
        assert run(hooks / "epilog-slurmctld").returncode == 0
        waiting.join(PATIENCE_S)
    assert got == [(f"Bearer {TOKEN}", b"ended alpha 41001")]
