"""Logs as files: nothing lost, nothing read twice, and nothing but regular files."""

import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.logs import files as files_module
from adapters.logs.files import FileLogs
from rerail.errors import Misconfigured, Permanent, Unreadable
from rerail.ports import Chunk, Logs


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "job.log"
    path.write_bytes(b"step 1\nstep 2\n")
    return path


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> pytest.TempPathFactory:
    """A folder an example, where one a test is too few."""
    return tmp_path_factory


def follow(path: Path, offset: int, fingerprint: str, limit: int = 1_000) -> tuple[Chunk, int, str]:
    """One poll, as a watcher makes it: the chunk, and what to keep for the next one."""
    logs = FileLogs()
    chunk = logs.read(str(path), offset, limit, fingerprint)
    return chunk, chunk.end, logs.fingerprint_at(str(path), chunk.end)


def test_it_is_a_logs() -> None:
    assert isinstance(FileLogs(), Logs)


def test_a_growing_file_is_read_piece_by_piece(log: Path) -> None:
    first, offset, mark = follow(log, 0, "", limit=9)
    assert first == Chunk(b"step 1\nst", 0, 9, 14)
    with log.open("ab") as stream:
        stream.write(b"step 3\n")
    second, offset, mark = follow(log, offset, mark)
    assert second == Chunk(b"ep 2\nstep 3\n", 9, 21, 21)
    third, _, _ = follow(log, offset, mark)
    assert third == Chunk(b"", 21, 21, 21)


def test_a_file_not_there_yet_reads_as_empty(tmp_path: Path) -> None:
    assert FileLogs().read(str(tmp_path / "later.log"), 0, 10) == Chunk(b"", 0, 0, 0)


def test_a_file_gone_for_a_moment_is_taken_up_where_it_was(log: Path) -> None:
    _, offset, mark = follow(log, 0, "")
    log.rename(log.with_suffix(".away"))
    gone = FileLogs().read(str(log), offset, 10, mark)
    assert (gone.data, gone.start, gone.size, gone.replaced) == (b"", offset, 0, False)
    log.with_suffix(".away").rename(log)
    with log.open("ab") as stream:
        stream.write(b"more")
    assert follow(log, gone.end, mark)[0].data == b"more"


def test_a_truncated_file_is_read_again_from_its_beginning(log: Path) -> None:
    _, offset, mark = follow(log, 0, "")
    log.write_bytes(b"new\n")
    assert follow(log, offset, mark)[0] == Chunk(b"new\n", 0, 4, 4, replaced=True)


def test_a_file_truncated_and_grown_past_the_offset_is_recognised(log: Path) -> None:
    _, offset, mark = follow(log, 0, "")
    log.write_bytes(b"another attempt\n" * 10)
    chunk = follow(log, offset, mark)[0]
    assert (chunk.start, chunk.replaced) == (0, True)


def test_a_file_replaced_by_another_is_recognised(log: Path, tmp_path: Path) -> None:
    _, offset, mark = follow(log, 0, "")
    other = tmp_path / "other"
    other.write_bytes(b"x" * 100)
    other.replace(log)
    assert follow(log, offset, mark)[0].replaced


def test_a_file_truncated_between_reading_and_marking_is_recognised_at_the_next_read(log: Path) -> None:
    logs = FileLogs()
    end = logs.read(str(log), 0, 1_000).end
    log.write_bytes(b"s")
    mark = logs.fingerprint_at(str(log), end)
    log.write_bytes(b"all new words, and more of them than before\n")
    assert logs.read(str(log), end, 1_000, mark).replaced


def test_without_a_mark_only_the_size_tells(log: Path) -> None:
    assert not FileLogs().read(str(log), 14, 10).replaced
    assert FileLogs().read(str(log), 15, 10).replaced


def test_the_mark_of_the_beginning_is_empty(log: Path) -> None:
    assert FileLogs().fingerprint_at(str(log), 0) == ""


def test_a_read_is_bounded_whatever_is_asked_for(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_module, "MAX_READ_BYTES", 5)
    assert FileLogs().read(str(log), 0, 10**12).data == b"step "


def test_a_link_to_a_regular_file_is_followed(log: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(log)
    assert FileLogs().read(str(tmp_path / "link"), 0, 4).data == b"step"


def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Permanent, match="a pipe; only regular files"):
        FileLogs().read(str(tmp_path / "pipe"), 0, 10)


def test_a_link_to_a_device_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/dev/zero")
    with pytest.raises(Permanent, match="a device"):
        FileLogs().read(str(tmp_path / "link"), 0, 10)


def test_a_socket_and_a_folder_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        monkeypatch.chdir(tmp_path)  # a socket's path has room for 107 bytes only
        one.bind("s")
        with pytest.raises(Permanent, match="a socket"):
            FileLogs().read(str(tmp_path / "s"), 0, 10)
    with pytest.raises(Permanent, match="a folder"):
        FileLogs().fingerprint_at(str(tmp_path), 5)


@pytest.mark.parametrize("path", ["", "relative.log", "/a\0b", "/" + "a" * 5_000])
def test_what_is_no_full_path_is_refused(path: str) -> None:
    with pytest.raises(Misconfigured, match="no full path"):
        FileLogs().read(path, 0, 10)


def test_links_in_a_circle_are_unreadable(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(Unreadable, match="circle"):
        FileLogs().read(str(tmp_path / "a"), 0, 10)


def test_a_file_without_rights_is_unreadable_and_not_gone(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:  # root, who runs many a test, may open everything
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(Unreadable, match="let the user that runs rerail read it"):
        FileLogs().read(str(log), 0, 10)


def test_a_disk_that_fails_is_unreadable(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> bytes:
        raise OSError(116, "Stale file handle")

    monkeypatch.setattr(os, "pread", fail)
    with pytest.raises(Unreadable, match="check the mount"):
        FileLogs().read(str(log), 0, 10)


def test_no_descriptor_stays_open(log: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        follow(log, 0, "")
        with pytest.raises(Permanent):
            FileLogs().read(str(tmp_path / "pipe"), 0, 10)
    assert len(os.listdir("/proc/self/fd")) == before


@given(pieces=st.lists(st.binary(max_size=50), max_size=8), limit=st.integers(1, 40))
def test_every_byte_is_read_once_however_it_grows(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], limit: int
) -> None:
    path = tmp_path_factory.mktemp("grow") / "log"
    seen, offset, mark = b"", 0, ""
    for piece in pieces:
        with path.open("ab") as stream:
            stream.write(piece)
        chunk, offset, mark = follow(path, offset, mark, limit)
        seen += chunk.data
        assert not chunk.replaced
    chunk, _, _ = follow(path, offset, mark)
    assert seen + chunk.data == b"".join(pieces)
