"""Hostile ids, names, reasons, comments and paths through both ways in and the gate: none reaches a shell, none breaks a parser.

A run tries some; RERAIL_HOSTILE=100000 tries all of them.
"""

import contextlib
import json
import os
import shlex
import struct
import subprocess
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from adapters.logs.files import FileLogs
from adapters.schedulers.slurm import InCluster, Ran, SlurmScheduler, fleet, reading, table
from adapters.schedulers.slurm.over_ssh import OverSsh
from adapters.ssh.command import run
from rerail import gate
from rerail.errors import RerailError
from rerail.ports import ALL_RIGHTS, Right
from rerail.records import Node, NodeState
from tests import sshd
from tests.adapters.ssh.hostile import texts, wanted

REAL = max(20, wanted() // 100)
"""Through a real sshd, and as real processes: each takes a gate some hundredths of a second to start, more on a busy machine."""
BATCH = 500
"""Command lines in one real shell."""
NODE = "node1"


class Recorder:
    """A way in that runs nothing: it keeps every argv, and knows any job by the id that is asked for."""

    def __init__(self) -> None:
        self.argvs: list[tuple[str, ...]] = []

    def rights(self) -> frozenset[Right]:
        return ALL_RIGHTS

    def run(self, argv: Sequence[str], deadline_s: float) -> Ran:
        self.argvs.append(tuple(argv))
        return Ran(*answer(argv))


def answer(argv: Sequence[str]) -> tuple[int, bytes, bytes]:
    if argv[0] == "sinfo":
        return 0, b"", b""
    if argv[0] != "squeue":
        return 0, b"MinJobAge = 300 sec\n", b""
    if "--json" not in argv:
        return 1, b"", table.UNKNOWN_FIELD.encode()
    number = next((int(word[7:]) for word in argv if word.startswith("--jobs=") and word[7:].isdecimal()), 7)
    return 0, json.dumps({"errors": [], "jobs": [{"job_id": number, "job_state": "PENDING", "batch_flag": True}]}).encode(), b""


class AnyNode(SlurmScheduler):
    """Knows every node, so that hostile names get as far as they can."""

    def node(self, name: str) -> Node:
        return Node(name=name, state=NodeState.UP)


def everything(scheduler: SlurmScheduler, text: str) -> Iterator[Callable[[], object]]:
    """Each verb with the text in each of its places."""
    yield lambda: scheduler.job(text)
    yield lambda: scheduler.requeue(text, running=True)
    yield lambda: scheduler.exclude(text, [NODE])
    yield lambda: scheduler.exclude("7", [text])
    yield lambda: scheduler.exclude("7", [NODE, text])
    yield lambda: scheduler.start_now(text)
    yield lambda: scheduler.cancel(text)
    yield lambda: scheduler.annotate("7", text, instead_of="")
    yield lambda: scheduler.drain(NODE, f"rerail: {text}")
    yield lambda: scheduler.drain(text, "rerail: x")
    yield lambda: scheduler.resume(text)
    yield lambda: scheduler.script(text)


def sent(scheduler: SlurmScheduler, recorder: Recorder, text: str) -> list[tuple[str, ...]]:
    """The argvs that the text brought about; whatever is raised is ours, and can be shown."""
    recorder.argvs.clear()
    for verb in everything(scheduler, text):
        assert refusal(verb).isprintable()
    return list(recorder.argvs)


def refusal(verb: Callable[[], object]) -> str:
    """What it said no with, if it did."""
    try:
        verb()
    except RerailError as error:
        return str(error)
    return ""


@pytest.fixture(scope="module")
def argvs() -> list[tuple[str, ...]]:
    """All that any text brought about, each once."""
    recorder = Recorder()
    scheduler = AnyNode("c", recorder)
    found: dict[tuple[str, ...], None] = {}
    for text in texts(wanted()):
        found.update(dict.fromkeys(sent(scheduler, recorder, text)))
    return list(found)


def forms(number: int) -> Iterator[tuple[str, ...]]:
    """Rows of the gate's table with a hostile text in a place of theirs, unchecked by anything before."""
    rows = [row.words for row in gate.TABLE if "{" in row.words]
    for count, text in enumerate(texts(number, seed=7)):
        words = rows[count % len(rows)].split(" ")
        yield tuple(filled(word, text) for word in words)


def filled(word: str, text: str) -> str:
    before, brace, rest = word.partition("{")
    return before + text + rest.partition("}")[2] if brace else word


def test_whatever_is_sent_is_a_row_of_the_table(argvs: list[tuple[str, ...]]) -> None:
    """So a text stands in a place that is meant for it, and is of the kind that may stand there."""
    assert argvs
    strangers = [argv for argv in argvs if gate.understood(argv) is None]
    assert strangers == []


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_real_shell_cuts_what_ssh_carries_into_the_same_words(argvs: list[tuple[str, ...]], shell: str) -> None:
    """Without a gate the login shell reads the line; a function stands where it would run something, and tells its words."""
    way = OverSsh({}, gated=False, search_path="/usr/bin")
    accepted = [argv for argv in (*argvs, *forms(wanted())) if gate.understood(argv)]
    lines = [way.line(argv, 15) for argv in accepted]
    for start in range(0, len(lines), BATCH):
        script = 'env() { printf "%s\\0" "$#" "$@"; }\n' + "\n".join(lines[start : start + BATCH]) + "\n"
        told = subprocess.run([shell], input=script.encode(), capture_output=True, check=True, env={"PATH": "/usr/bin:/bin"})
        assert told.stderr == b""
        assert told.stdout == b"".join(told_of(argv) for argv in accepted[start : start + BATCH])


def told_of(argv: tuple[str, ...]) -> bytes:
    before = ["-i", "PATH=/usr/bin", "LC_ALL=C.UTF-8", "TZ=UTC0", "SLURM_TIME_FORMAT=%s", "timeout", "-k", "1", "15"]
    words = [*before, *argv]
    return b"".join(word.encode() + b"\0" for word in (str(len(words)), *words))


def test_the_gate_reads_the_words_that_were_sent_or_refuses(argvs: list[tuple[str, ...]]) -> None:
    accepted = refused = 0
    for argv in (*argvs, *forms(wanted())):
        line = shlex.join(argv).encode("utf-8", "replace")
        words = gate.words_of(line)
        if gate.understood(words) is None:
            refused += 1
            continue
        accepted += 1
        assert words == argv
    assert accepted
    assert refused


def test_raw_lines_are_read_or_refused_and_never_more_than_one_word_of_the_rows_own_role() -> None:
    """Nobody quoted these: a client that is not ours sends what it likes."""
    for count, text in enumerate(texts(wanted(), seed=8)):
        row = gate.TABLE[count % len(gate.TABLE)]
        with contextlib.suppress(ValueError):
            words = gate.words_of(f"{row.words} {text}".encode("utf-8", "replace"))
            found = gate.understood(words)
            before = tuple(row.words.split(" "))
            assert found is None or (found.role == row.role and words[: len(before)] == before), ascii(text)
            assert found is None or len(words) <= len(before) + 1, ascii(text)


def test_a_smaller_number_of_real_processes_gets_exactly_these_words(tmp_path: Path, argvs: list[tuple[str, ...]]) -> None:
    """In the cluster: stub programs tell what reached them."""
    for name in ("squeue", "scontrol", "scancel", "sinfo", "sacct"):
        (tmp_path / name).write_text('#!/bin/sh\nprintf "%s\\0" "$@"\n')
        (tmp_path / name).chmod(0o755)
    way = InCluster(search_path=f"{tmp_path}:/usr/bin:/bin")
    for argv in spread(argvs, REAL):
        assert way.run(argv, 10).stdout == b"".join(word.encode() + b"\0" for word in argv[1:])
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize("gated", [True, False])
def test_a_smaller_number_through_a_real_sshd_gets_exactly_these_words(
    login: sshd.Start, tmp_path: Path, argvs: list[tuple[str, ...]], gated: bool
) -> None:
    stubs = tmp_path / "bin"
    stubs.mkdir()
    for name in ("squeue", "scontrol", "scancel", "sinfo", "sacct", "sacctmgr"):
        (stubs / name).write_text('#!/bin/sh\nprintf "%s\\0" "$@"\n')
        (stubs / name).chmod(0o755)
    copy = tmp_path / "rerail-gate"
    copy.write_text(Path(gate.__file__).read_text())
    copy.chmod(0o755)
    roles = " ".join(f"--role {role}" for role in gate.ROLES)
    host = login(command=f"{copy} {roles} --path {stubs} --log {tmp_path}/log" if gated else "")
    connection = host.connection()
    way = OverSsh(dict.fromkeys(gate.ROLES, connection), gated=gated, search_path=f"{stubs}:/usr/bin:/bin")
    accepted = [argv for argv in (*argvs, *forms(wanted())) if gate.understood(argv)]
    for argv in spread(accepted, REAL):
        assert way.run(argv, 20).stdout == b"".join(word.encode() + b"\0" for word in argv[1:])
    if gated:
        for text in texts(REAL // 4, seed=9):
            line = text.replace("\ud800", "")
            ended = run(connection, line, 20)
            assert ended.status == gate.REFUSED or line.strip() in ("", "roles"), ascii(line)
    assert not list(tmp_path.rglob("pwned*"))
    assert not Path("pwned").exists()


def spread(argvs: Sequence[tuple[str, ...]], number: int) -> Sequence[tuple[str, ...]]:
    return argvs[:: max(1, len(argvs) // number)][:number]


# Paths


def test_no_path_leads_out_of_the_folders_that_are_served(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "job.log").write_bytes(b"step")
    files = gate.Files((str(tmp_path / "in"),))
    for text in texts(wanted(), seed=10):
        path = os.fsencode(text.replace("\ud800", ""))
        for place in (path, os.fsencode(tmp_path / "in") + b"/" + path):
            packet = bytes([gate.OPEN]) + struct.pack(">II", 1, len(place)) + place + struct.pack(">II", gate.READING, 0)
            told = files.answer(packet)
            status = struct.unpack_from(">I", told, 5)[0]
            assert told[0] == gate.HANDLE or status in (gate.PERMISSION_DENIED, gate.NO_SUCH_FILE, gate.FAILURE)
            if told[0] == gate.HANDLE:
                assert os.path.realpath(place) == os.fsencode(tmp_path / "in/job.log")
                files.close()


def test_a_path_is_read_or_refused_in_our_own_words(tmp_path: Path) -> None:
    logs = FileLogs()
    for text in texts(wanted(), seed=11):
        for path in (text, f"{tmp_path}/{text}"):
            assert refusal(partial(logs.read, path, 0, 10)).isprintable()


# What comes back


def test_strangers_words_come_back_as_they_were_and_make_no_second_job() -> None:
    for text in texts(wanted(), seed=12):
        clean = text.replace("\ud800", "")
        job = {"job_id": 7, "job_state": "RUNNING", "name": clean, "comment": clean, "current_working_directory": f"/{clean}"}
        (found,) = reading.jobs(json.dumps({"errors": [], "jobs": [job]}).encode(), "c", 300).values()
        assert (found.job_id, found.comment) == ("7", clean)


def test_strangers_words_in_a_table_make_no_second_row() -> None:
    for text in texts(wanted(), seed=13):
        clean = text.replace("\ud800", "")
        word = table.new_word()
        fields = ["7" if column.field == "JobID" else clean for column in table.COLUMNS]
        (row,) = table.rows("".join(f"{field}{word}" for field in fields).encode() + b"\n", word).values()
        assert list(row)[1:] == fields[1:]


def test_a_reason_makes_no_second_node_and_changes_no_other() -> None:
    for text in texts(wanted(), seed=14):
        clean = text.replace("\ud800", "")
        word = table.new_word()
        rows = f"node1|drained|main*|{clean}|{word}\nnode2|drained|main*|x|{word}\n"
        assert [(node.name, node.state) for node in fleet.nodes(rows, word)] == [
            ("node1", NodeState.DRAINED),
            ("node2", NodeState.DRAINED),
        ]
