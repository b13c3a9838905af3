"""The gate: exactly the rows of its table pass, by role, without a shell; all else is refused and logged."""

import ast
import os
import shlex
import struct
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.schedulers.slurm.runner import ENVIRONMENT
from rerail import gate

EXAMPLES = {
    "job": "4711_3",
    "node": "gpu-001.cluster",
    "nodes": "gpu-[001-003,7],login",
    "begin": "now+2seconds",
    "table": "JobID:0x0123456789abcdef,exit_code:0x0123456789abcdef",
    "end": "x0123456789abcdef",
    "fields": "JobIDRaw,State",
    "user": "rerail-op",
    "reason": "rerail: remediate-job/alpha/7/1/1 gpu fell off the bus",
    "comment": '{"rerail": {"off": true}}\nleave it, I\'m debugging',
}
RECORD = '#!/bin/sh\nprintf "%s\\0" "$@" > "$0.argv"; /usr/bin/env > "$0.env"; exit 3\n'


def filled(words: str) -> tuple[str, ...]:
    return tuple(word.format(**EXAMPLES) for word in words.split(" "))


@pytest.fixture
def stubs(tmp_path: Path) -> Path:
    """A folder in which each command of the table records what it gets."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in {row.words.split(" ")[0] for row in gate.TABLE}:
        (folder / name).write_text(RECORD)
        (folder / name).chmod(0o755)
    return folder


def asked(
    folder: Path, request: str | bytes, *roles: str, environ: Mapping[str, str] | None = None, more: tuple[str, ...] = ()
) -> "subprocess.CompletedProcess[bytes]":
    """The gate as sshd starts it."""
    own = [sys.executable, "-I", gate.__file__, "--path", str(folder), "--log", str(folder / "log")]
    own += [word for role in roles for word in ("--role", role)]
    line = request.encode() if isinstance(request, str) else request
    around = {b"SSH_ORIGINAL_COMMAND": line, b"SSH_CONNECTION": b"192.0.2.7 5 192.0.2.1 22", b"PATH": b"/usr/bin:/bin"}
    around |= {name.encode(): value.encode() for name, value in (environ or {}).items()}
    return subprocess.run([*own, *more], env=around, capture_output=True, stdin=subprocess.DEVNULL, check=False)


def log(folder: Path) -> list[str]:
    return (folder / "log").read_text().splitlines() if (folder / "log").exists() else []


@pytest.mark.parametrize("row", gate.TABLE, ids=lambda row: row.words)
def test_each_row_is_run_as_it_was_asked_for_by_its_role_alone(stubs: Path, row: gate.Row) -> None:
    argv = filled(row.words)
    done = asked(stubs, shlex.join(argv), row.role)
    assert (done.returncode, done.stdout, done.stderr) == (3, b"", b"")
    assert (stubs / f"{argv[0]}.argv").read_bytes().split(b"\0")[:-1] == [word.encode() for word in argv[1:]]
    (stubs / f"{argv[0]}.argv").unlink()
    others = [role for role in gate.ROLES if role != row.role]
    no = asked(stubs, shlex.join(argv), *others)
    assert no.returncode == gate.REFUSED
    assert no.stderr.decode().startswith(f"{gate.SAYS}refused: this key's role is {', '.join(others)}")
    assert not (stubs / f"{argv[0]}.argv").exists()


def test_effects_and_refusals_are_logged_with_role_and_address_and_readings_are_not(stubs: Path) -> None:
    asked(stubs, "squeue --all --states=all --json", "reader")
    assert log(stubs) == []
    asked(stubs, "scontrol requeue 7", "operator")
    asked(stubs, "scontrol requeue 7", "reader")
    asked(stubs, b"\x1b[31m\nscontrol \xff shutdown", "operator")
    done, wrong_role, wrong = (line.partition(" ")[2] for line in log(stubs))
    assert done == "operator from 192.0.2.7 runs 'scontrol requeue 7'"
    assert wrong_role.startswith("reader from 192.0.2.7 refuses 'scontrol requeue 7': this key's role is reader")
    assert wrong.startswith("operator from 192.0.2.7 refuses '\\x1b[31m\\nscontrol \\\\xff shutdown': it cannot be read")


REFUSED = (
    "",
    " ",
    "sh -c id",
    "/usr/bin/squeue --all --states=all --json",
    "squeue --all --states=all --json; id",
    "squeue --all --states=all --json --json",
    "squeue --all --states=all",
    "scontrol shutdown",
    "scontrol reconfigure",
    "scontrol requeue",
    "scontrol requeue 1,2",
    "scontrol requeue 1_[1-3]",
    "scontrol requeue 01",
    "scontrol requeue -1",
    "scontrol requeue \N{ARABIC-INDIC DIGIT ONE}",
    "scontrol requeue 7 8",
    "scontrol requeue '7\n'",
    "scontrol requeue $(id)",
    "scontrol requeue `id`",
    "scontrol requeuehold 7",
    "scontrol update jobid=7 UserID=0",
    "scontrol update jobid=7 ExcNodeList=ALL",
    "scontrol update jobid=7 ExcNodeList=a,all",
    "scontrol update jobid=7 ExcNodeList=-a",
    "scontrol update jobid=7 StartTime=tomorrow",
    "scontrol update jobid=7 StartTime=now Comment=x",
    "scontrol update 'jobid=7 UserID=0' StartTime=now",
    "scontrol update nodename=ALL state=drain 'reason=rerail: x'",
    "scontrol update nodename=all state=resume",
    "scontrol update nodename=a,b state=drain 'reason=rerail: x'",
    "scontrol update nodename=a[1-9] state=drain 'reason=rerail: x'",
    "scontrol update nodename=a state=down 'reason=rerail: x'",
    "scontrol update nodename=a state=drain 'reason=broken'",
    "scontrol update nodename=a state=drain 'reason=rerail: \x1b[31m'",
    "scontrol update nodename=a state=drain 'reason=rerail: a\nb'",
    f"scontrol update nodename=a state=drain 'reason=rerail{'x' * 251}'",
    f"scontrol update jobid=7 'Comment={'x' * 1025}'",
    "scancel --verbose 7 --user=root",
    "scancel --verbose --user=root",
    "scontrol write batch_script 7 /etc/passwd",
    "sacctmgr --noheader --parsable2 show user x; format=AdminLevel",
    "squeue --all --states=all --noheader --Format=JobID:0zzzzzzzzzzzzzzzz",
    "scontrol requeue 'unfinished",
    "internal-sftp",
    "/usr/lib/openssh/sftp-server",
    "scp -t /etc",
    "x" * (gate.MOST_REQUEST + 1),
)


@pytest.mark.parametrize("request_", REFUSED, ids=lambda text: text[:60] or "nothing")
def test_what_is_no_row_is_refused_whatever_the_role(stubs: Path, request_: str) -> None:
    done = asked(stubs, request_, *gate.ROLES)
    assert done.returncode == gate.REFUSED
    assert done.stderr.decode().startswith(f"{gate.SAYS}refused: ")
    assert list(stubs.glob("*.argv")) == []
    (line,) = log(stubs)
    assert line.isascii()
    assert line.isprintable()
    assert len(line) < 3000


def test_the_commands_see_no_environment_but_the_gates(stubs: Path) -> None:
    environ = {"SQUEUE_STATES": "PD", "LD_PRELOAD": "/tmp/x", "SLURM_CONF": "/tmp/conf", "SLURM_CLUSTERS": "b"}
    asked(stubs, "squeue --all --states=all --json", "reader", environ=environ, more=("--conf", "/etc/slurm/a.conf"))
    lines = (stubs / "squeue.env").read_text().splitlines()
    seen = {
        name: value for name, _, value in (line.partition("=") for line in lines) if name not in ("PWD", "_", "OLDPWD", "SHLVL")
    }
    assert seen == {"PATH": str(stubs), "SLURM_CONF": "/etc/slurm/a.conf", **ENVIRONMENT}


def test_a_command_that_hangs_is_ended_by_an_alarm_that_survives_the_gate(stubs: Path) -> None:
    (stubs / "squeue").write_text("#!/bin/sh\nexec /bin/sleep 600\n")
    done = asked(stubs, "squeue --all --states=all --json", "reader", more=("--seconds", "1"))
    assert done.returncode == -14


def test_a_command_that_is_not_there_is_told(stubs: Path) -> None:
    (stubs / "squeue").unlink()
    done = asked(stubs, "squeue --all --states=all --json", "reader")
    assert (done.returncode, done.stderr.decode()) == (gate.MISSING, f"rerail-gate: no command squeue in {stubs}; set --path\n")


def test_it_tells_what_a_key_may_do(stubs: Path) -> None:
    assert asked(stubs, "roles", "reader", "operator").stdout == b"reader operator\n"


def test_it_runs_as_one_copied_file_on_an_older_python(tmp_path: Path, stubs: Path) -> None:
    source = Path(gate.__file__).read_text()
    ast.parse(source, feature_version=(3, 9))
    imported = {name.partition(".")[0] for node in ast.walk(ast.parse(source)) for name in names(node)}
    assert imported <= sys.stdlib_module_names
    copy = tmp_path / "rerail-gate"
    copy.write_text(source)
    copy.chmod(0o755)
    around = {"SSH_ORIGINAL_COMMAND": "squeue --all --states=all --json", "PATH": "/usr/bin:/bin"}
    own = [sys.executable, "-I", str(copy), "--role", "reader", "--path", str(stubs)]
    assert subprocess.run(own, env=around, check=False).returncode == 3
    assert source.startswith("#!/usr/bin/python3 -I\n")


def names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else []


def test_its_environment_is_that_of_the_other_way_in() -> None:
    assert dict(ENVIRONMENT) == gate.ENVIRONMENT


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), max_size=6))
def test_words_are_the_same_after_the_way_through_ssh(argv: list[str]) -> None:
    line = shlex.join(argv).encode()
    if len(line) <= gate.MOST_REQUEST:
        assert gate.words_of(line) == tuple(argv)


@given(st.binary(max_size=200))
def test_any_bytes_are_words_or_a_refusal(line: bytes) -> None:
    try:
        argv = gate.words_of(line)
    except ValueError:
        return
    assert all(isinstance(word, str) for word in argv)
    gate.understood(argv)


# Files


@pytest.fixture
def served(tmp_path: Path) -> gate.Files:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "log").write_bytes(b"step 1\nstep 2\n")
    (tmp_path / "out").write_bytes(b"secret")
    return gate.Files((str(tmp_path / "in"),))


def packed(*parts: object) -> bytes:
    made = b""
    for part in parts:
        made += struct.pack(">I", len(part)) + part if isinstance(part, bytes) else struct.pack(">I", part)
    return made


def opened(files: gate.Files, path: Path | str, flags: int = gate.READING) -> bytes:
    return files.answer(bytes([gate.OPEN]) + packed(1, os.fsencode(path), flags, 0))


def code(answer: bytes) -> int:
    assert answer[0] == gate.STATUS
    return int(struct.unpack_from(">I", answer, 5)[0])


def test_a_file_inside_is_served(served: gate.Files, tmp_path: Path) -> None:
    assert served.answer(bytes([gate.INIT]) + packed(3)) == bytes([gate.VERSION]) + packed(3)
    answer = opened(served, tmp_path / "in/log")
    handle = answer[9:]
    assert answer[0] == gate.HANDLE
    read = served.answer(bytes([gate.READ]) + packed(2, handle) + struct.pack(">QI", 5, 4))
    assert read == bytes([gate.DATA]) + packed(2, b"1\nst"[:4])
    end = served.answer(bytes([gate.READ]) + packed(2, handle) + struct.pack(">QI", 2**64 - 1, 2**32 - 1))
    assert code(end) == gate.EOF
    assert code(served.answer(bytes([gate.CLOSE]) + packed(3, handle))) == gate.OK
    assert code(served.answer(bytes([gate.CLOSE]) + packed(4, handle))) == gate.FAILURE


def test_nothing_outside_is_served_wherever_links_and_dots_lead(served: gate.Files, tmp_path: Path) -> None:
    inside = tmp_path / "in"
    (inside / "link").symlink_to(tmp_path / "out")
    (inside / "dir").symlink_to("/etc")
    (tmp_path / "in-not").mkdir()
    (tmp_path / "in-not" / "log").touch()
    for path in (
        tmp_path / "out",
        inside / "link",
        inside / "dir/passwd",
        f"{inside}/../out",
        tmp_path / "in-not/log",
        "/etc/passwd",
        f"/proc/self/root{tmp_path}/out",
        "in/log",
        "",
    ):
        assert code(opened(served, path)) == gate.PERMISSION_DENIED, path
        assert code(served.answer(bytes([gate.STAT]) + packed(1, os.fsencode(path)))) == gate.PERMISSION_DENIED, path


def test_a_folder_that_becomes_a_link_after_the_look_is_noticed(
    served: gate.Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in/deep").mkdir()
    (tmp_path / "in/deep/out").touch()

    def exchange(path: bytes) -> os.stat_result:  # between the look at where it leads and the opening
        (tmp_path / "in/deep/out").unlink()
        (tmp_path / "in/deep").rmdir()
        (tmp_path / "in/deep").symlink_to(tmp_path)
        monkeypatch.undo()
        return os.stat(path)

    monkeypatch.setattr(os, "stat", exchange)
    assert code(opened(served, tmp_path / "in/deep/out")) == gate.PERMISSION_DENIED


def test_only_reading_and_only_regular_files(served: gate.Files, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "in/pipe")
    for flags in (2, 3, 8, 16, 32, 0):
        assert code(opened(served, tmp_path / "in/log", flags)) == gate.PERMISSION_DENIED
    assert code(opened(served, tmp_path / "in/pipe")) == gate.PERMISSION_DENIED
    assert code(opened(served, tmp_path / "in")) == gate.PERMISSION_DENIED
    for kind in (6, 9, 10, 11, 12, 13, 14, 15, 18, 19, 20, 200):  # write, setstat, opendir, remove, mkdir, rename, link ...
        assert code(served.answer(bytes([kind]) + packed(1, b"/"))) == gate.UNSUPPORTED
    assert (tmp_path / "in/log").read_bytes() == b"step 1\nstep 2\n"


def test_open_files_are_bounded(served: gate.Files, tmp_path: Path) -> None:
    for _ in range(gate.MOST_OPEN):
        assert opened(served, tmp_path / "in/log")[0] == gate.HANDLE
    assert code(opened(served, tmp_path / "in/log")) == gate.FAILURE
    served.close()
    assert opened(served, tmp_path / "in/log")[0] == gate.HANDLE
    served.close()


@given(st.binary(max_size=64))
def test_no_packet_breaks_it(packet: bytes) -> None:
    files = gate.Files(("/nowhere-at-all",))
    try:
        answer = files.answer(packet)
    except ValueError:
        return
    assert answer[0] in (gate.VERSION, gate.STATUS)


@given(st.binary(max_size=64))
def test_no_stream_breaks_it(stream: bytes) -> None:
    answers = BytesIO()
    with suppress(ValueError):
        gate.converse(gate.Files(("/nowhere-at-all",)), BytesIO(stream), answers)
    assert len(answers.getvalue()) <= 20 * len(stream)
