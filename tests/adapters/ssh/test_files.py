"""Logs over SFTP are as logs on this machine: by sshd's own server, and by the gate's that serves some folders only."""

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from adapters.hosts.sftp import SftpKernelLogs
from adapters.logs.sftp import SftpLogs
from adapters.ssh.files import RemoteFiles
from rerail import gate
from rerail.errors import Misconfigured, Permanent, Unreadable
from rerail.ports import Chunk, Hosts, Logs
from tests import sshd
from tests.testbed.processes import wait_until


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where logs lie."""
    made = tmp_path / "logs"
    made.mkdir()
    return made


@pytest.fixture(params=["sshd", "gate"])
def gated(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "gate")


@pytest.fixture
def host(login: sshd.Start, folder: Path, gated: bool) -> sshd.Sshd:
    command = f"{sys.executable} -I {gate.__file__} --role reader --read {folder} --log {folder.parent}/gate.log"
    return login(command=command if gated else "")


@pytest.fixture
def files(host: sshd.Sshd, gated: bool) -> Iterator[RemoteFiles]:
    way = host.connection()
    made = RemoteFiles(way, gated=gated, deadline_s=10)
    yield made
    made.close()
    way.close()


@pytest.fixture
def logs(files: RemoteFiles) -> SftpLogs:
    return SftpLogs(files)


def test_it_is_a_logs_and_a_hosts(files: RemoteFiles) -> None:
    assert isinstance(SftpLogs(files), Logs)
    assert isinstance(SftpKernelLogs("/{node}", files), Hosts)


def test_a_growing_file_is_read_piece_by_piece(logs: SftpLogs, folder: Path) -> None:
    log = folder / "job.log"
    log.write_bytes(b"step 1\nstep 2\n")
    first = logs.read(str(log), 0, 9)
    assert first == Chunk(b"step 1\nst", 0, 9, 14)
    mark = logs.fingerprint_at(str(log), first.end)
    with log.open("ab") as stream:
        stream.write(b"step 3\n")
    assert logs.read(str(log), 9, 100, mark) == Chunk(b"ep 2\nstep 3\n", 9, 21, 21)
    assert logs.read(str(log), 21, 100) == Chunk(b"", 21, 21, 21)


def test_replaced_and_truncated_files_are_recognised(logs: SftpLogs, folder: Path) -> None:
    log = folder / "job.log"
    log.write_bytes(b"first attempt\n")
    mark = logs.fingerprint_at(str(log), 14)
    log.write_bytes(b"new\n")
    assert logs.read(str(log), 14, 100, mark) == Chunk(b"new\n", 0, 4, 4, replaced=True)
    log.write_bytes(b"another attempt\n" * 10)
    assert logs.read(str(log), 14, 100, mark).replaced
    log.unlink()
    assert logs.read(str(log), 14, 100, mark) == Chunk(b"", 14, 14, 0)


def test_a_large_file_comes_whole(logs: SftpLogs, folder: Path) -> None:
    data = os.urandom(3_000_001)
    (folder / "large").write_bytes(data)
    assert logs.read(str(folder / "large"), 0, 1 << 30).data == data
    assert logs.read(str(folder / "large"), 1_000_000, 100_000).data == data[1_000_000:1_100_000]


def test_a_file_that_is_not_there_yet_reads_as_empty(logs: SftpLogs, folder: Path) -> None:
    assert logs.read(str(folder / "later.log"), 0, 10) == Chunk(b"", 0, 0, 0)


def test_only_regular_files_are_read(logs: SftpLogs, folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    (folder / "link").symlink_to(folder / "pipe")
    (folder / "inside").symlink_to(folder / "job.log")
    (folder / "job.log").write_text("step 1\n")
    for path in (folder / "pipe", folder / "link", folder):
        with pytest.raises((Permanent, Unreadable), match=r"regular|rights"):
            logs.read(str(path), 0, 10)
    assert logs.read(str(folder / "inside"), 0, 10).data == b"step 1\n"
    with pytest.raises(Misconfigured, match="no full path"):
        logs.read("job.log", 0, 10)


def test_a_server_that_said_no_goes_on_being_asked(logs: SftpLogs, folder: Path, host: sshd.Sshd) -> None:
    os.mkfifo(folder / "pipe")
    (folder / "job.log").write_text("step 1\n")
    for _ in range(5):
        with pytest.raises(Permanent):
            logs.read(str(folder / "pipe"), 0, 10)
        assert logs.read(str(folder / "job.log"), 0, 4).data == b"step"
    starts = [line for line in (host.folder / "sshd.log").read_text().splitlines() if "Accepted" in line]
    assert len(starts) == 1


def test_strange_names_are_only_names(logs: SftpLogs, folder: Path) -> None:
    for name in ("a b", "$(touch pwned)", "; rm -rf .", "-rf", "\x1b[31m", "é", "a\nb", '"'):
        (folder / name).write_text(name)
        assert logs.read(str(folder / name), 0, 100).data.decode() == name


def test_many_readers_share_two_channels(logs: SftpLogs, folder: Path) -> None:
    for number in range(20):
        (folder / f"{number}.log").write_bytes(b"%d" % number * 1000)
    with ThreadPoolExecutor(12) as pool:
        read = list(pool.map(lambda n: logs.read(str(folder / f"{n}.log"), 0, 10**6).data, range(20)))
    assert read == [b"%d" % n * 1000 for n in range(20)]


def test_a_restart_of_sshd_costs_one_reading_at_most(logs: SftpLogs, folder: Path, host: sshd.Sshd) -> None:
    (folder / "job.log").write_text("step 1\n")
    logs.read(str(folder / "job.log"), 0, 10)
    host.restart()

    def read_again() -> bool:
        try:
            return logs.read(str(folder / "job.log"), 0, 10).data == b"step 1\n"
        except Unreadable:
            return False

    wait_until(read_again, 10, "a reading")


def test_a_frozen_server_is_unreadable_and_nothing_is_gone(host: sshd.Sshd, folder: Path, gated: bool) -> None:
    (folder / "job.log").write_text("step 1\n")
    logs = SftpLogs(RemoteFiles(host.connection(connect_s=2), gated=gated, deadline_s=2))
    wait_until(lambda: read(logs, folder / "job.log") == b"step 1\n", 15, "a reading")
    host.freeze()
    with pytest.raises(Unreadable):
        logs.read(str(folder / "job.log"), 0, 10)
    host.thaw()
    wait_until(lambda: read(logs, folder / "job.log") == b"step 1\n", 30, "a reading")


def read(logs: SftpLogs, path: Path) -> bytes:
    try:
        return logs.read(str(path), 0, 10).data
    except Unreadable:
        return b""


def test_kernel_logs_are_read_by_node(files: RemoteFiles, folder: Path) -> None:
    (folder / "node1.log").write_text("2026-12-01T05:00:00Z node1 kernel: old\n2026-12-01T06:00:00Z node1 kernel: NVRM: Xid\n")
    hosts = SftpKernelLogs(f"{folder}/{{node}}.log", files)
    since = datetime(2026, 12, 1, 5, 30, tzinfo=UTC)
    assert hosts.kernel_log("node1", since, 1 << 20) == b"2026-12-01T06:00:00Z node1 kernel: NVRM: Xid\n"
    assert hosts.kernel_log("node2", since, 1 << 20) is None
    with pytest.raises(Misconfigured):
        hosts.kernel_log("../node1", since, 10)


def test_files_without_rights_are_unreadable_and_not_gone(login: sshd.Start, tmp_path: Path, folder: Path) -> None:
    """What lies outside of the gate's folders is denied, wherever links lead, and so logged by nobody as gone."""
    (tmp_path / "secret").write_text("secret")
    (folder / "way out").symlink_to(tmp_path / "secret")
    (folder / "folder out").symlink_to(tmp_path)
    command = f"{sys.executable} -I {gate.__file__} --role reader --read {folder} --log {tmp_path}/gate.log"
    logs = SftpLogs(RemoteFiles(login(command=command).connection(), gated=True))
    for path in ("/etc/passwd", f"{tmp_path}/secret", f"{folder}/way out", f"{folder}/folder out/secret", f"{folder}/../secret"):
        with pytest.raises(Unreadable, match="let the user that runs rerail read it"):
            logs.read(path, 0, 10)


def test_a_gate_without_folders_serves_no_files_and_says_what_it_needs(login: sshd.Start, tmp_path: Path) -> None:
    command = f"{sys.executable} -I {gate.__file__} --role reader --log {tmp_path}/gate.log"
    logs = SftpLogs(RemoteFiles(login(command=command).connection(), gated=True))
    with pytest.raises(Unreadable, match=r"refused: files take the role reader and a folder.*--read FOLDER"):
        logs.read("/etc/passwd", 0, 10)
