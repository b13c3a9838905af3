"""Kernel logs as files: the last words of the right node, none older than asked for."""

import os
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from adapters.hosts.files import KernelLogFiles
from adapters.hosts.stamps import stamp
from rerail.errors import Misconfigured, Permanent
from rerail.ports import Hosts

SINCE = datetime(2026, 12, 1, 10, 0, tzinfo=UTC)
XID = b"NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."


@pytest.fixture
def hosts(tmp_path: Path) -> KernelLogFiles:
    return KernelLogFiles(f"{tmp_path}/{{node}}/kernel.log", zone=UTC)


def write(tmp_path: Path, text: bytes, node: str = "n1") -> None:
    (tmp_path / node).mkdir(exist_ok=True)
    (tmp_path / node / "kernel.log").write_bytes(text)


def test_it_is_a_hosts(hosts: KernelLogFiles) -> None:
    assert isinstance(hosts, Hosts)


def test_a_node_without_a_log_has_none(hosts: KernelLogFiles) -> None:
    assert hosts.kernel_log("n1", SINCE, 1_000) is None


def test_an_empty_log_is_not_the_same_as_none(hosts: KernelLogFiles, tmp_path: Path) -> None:
    write(tmp_path, b"")
    assert hosts.kernel_log("n1", SINCE, 1_000) == b""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"2026-12-01T09:59:59.999999+00:00 n1 kernel: ", b"2026-12-01T10:00:00.000000+00:00 n1 kernel: "),
        (b"2026-12-01T10:59:59,9+01:00 n1 kernel: ", b"2026-12-01T11:00:00+0100 n1 kernel: "),
        (b"2026-12-01T09:59:59Z ", b"2026-12-01T10:00:00Z "),
        (b"2026-12-01 09:59:59 ", b"2026-12-01 10:00:00 "),
        (b"[2026-12-01T09:59:59] ", b"[2026-12-01T10:00:01] "),
        (b"Dec  1 09:59:59 n1 kernel: [ 12.5] ", b"Dec  1 10:00:00 n1 kernel: [ 13.5] "),
        (b"[Tue Dec  1 09:59:59 2026] ", b"[Tue Dec  1 10:00:00 2026] "),
        (b"<3>[Tue Dec  1 09:59:59 2026] ", b"<3>[Tue Dec  1 10:00:00 2026] "),
    ],
)
def test_a_line_that_says_it_is_older_is_left_out(hosts: KernelLogFiles, tmp_path: Path, old: bytes, new: bytes) -> None:
    write(tmp_path, old + XID + b"\n" + new + XID + b"\n")
    assert hosts.kernel_log("n1", SINCE, 10_000) == new + XID + b"\n"


def test_a_line_of_the_very_second_is_kept(hosts: KernelLogFiles, tmp_path: Path) -> None:
    write(tmp_path, b"Dec  1 10:00:00 n1 kernel: " + XID + b"\n")
    assert hosts.kernel_log("n1", SINCE + timedelta(milliseconds=900), 1_000) != b""


def test_lines_without_a_time_are_kept(hosts: KernelLogFiles, tmp_path: Path) -> None:
    text = b"[ 1234.567890] " + XID + b"\n" + XID + b"\n6,1,2,-;" + XID + b"\n"
    write(tmp_path, text)
    assert hosts.kernel_log("n1", SINCE, 10_000) == text


def test_an_indented_line_goes_with_the_line_that_it_continues(hosts: KernelLogFiles, tmp_path: Path) -> None:
    write(tmp_path, b"2026-12-01T09:00:00Z old\n  of the old\n2026-12-01T11:00:00Z new\n  of the new\n")
    assert hosts.kernel_log("n1", SINCE, 10_000) == b"2026-12-01T11:00:00Z new\n  of the new\n"


def test_a_line_of_its_own_after_an_old_one_is_kept(hosts: KernelLogFiles, tmp_path: Path) -> None:
    write(tmp_path, b"2026-12-01T09:00:00Z old\n[99.5] " + XID + b"\n")
    assert hosts.kernel_log("n1", SINCE, 10_000) == b"[99.5] " + XID + b"\n"


def test_only_the_last_bytes_are_read_and_whole_lines_are_given(hosts: KernelLogFiles, tmp_path: Path) -> None:
    write(tmp_path, b"a" * 100 + b"\nsecond\nthird\n")
    assert hosts.kernel_log("n1", SINCE, 20) == b"second\nthird\n"
    assert hosts.kernel_log("n1", SINCE, 13) == b"second\nthird\n"
    assert hosts.kernel_log("n1", SINCE, 12) == b"third\n"
    assert hosts.kernel_log("n1", SINCE, 0) == b""


def test_half_a_line_without_an_end_is_kept(hosts: KernelLogFiles, tmp_path: Path) -> None:
    write(tmp_path, b"first\nhalf")
    assert hosts.kernel_log("n1", SINCE, 100) == b"first\nhalf"


def test_each_node_has_its_own_log(hosts: KernelLogFiles, tmp_path: Path) -> None:
    write(tmp_path, b"one\n", "gpu-node.1")
    write(tmp_path, b"two\n", "gpu-node.2")
    assert hosts.kernel_log("gpu-node.2", SINCE, 100) == b"two\n"


@pytest.mark.parametrize(
    "node", ["", "..", "../n1", "a/b", "/etc", "a\0", "a b", "-n", "a\n", "{node}", "n" * 300, "n;id", "nodé"]
)
def test_a_name_that_leads_elsewhere_is_refused(hosts: KernelLogFiles, node: str) -> None:
    with pytest.raises(Misconfigured, match="no node name"):
        hosts.kernel_log(node, SINCE, 100)


def test_a_log_that_is_a_pipe_is_refused_at_once(hosts: KernelLogFiles, tmp_path: Path) -> None:
    (tmp_path / "n1").mkdir()
    os.mkfifo(tmp_path / "n1" / "kernel.log")
    with pytest.raises(Permanent, match="a pipe"):
        hosts.kernel_log("n1", SINCE, 100)


def test_a_time_without_a_zone_is_in_the_zone_of_the_nodes() -> None:
    east = timezone(timedelta(hours=2))
    for line in (b"2026-12-01T12:00:00 x", b"Dec  1 12:00:00 n1 x", b"[Tue Dec  1 12:00:00 2026] x"):
        assert stamp(line, SINCE, east) == SINCE
        assert stamp(line, SINCE, None) == datetime(2026, 12, 1, 12).astimezone()


@pytest.mark.parametrize(
    ("near", "line", "year"),
    [
        (datetime(2027, 1, 1, tzinfo=UTC), b"Dec 31 23:59:00 n1 x", 2026),
        (datetime(2026, 12, 31, 23, tzinfo=UTC), b"Jan  1 00:01:00 n1 x", 2027),
        (datetime(2028, 3, 1, tzinfo=UTC), b"Feb 29 12:00:00 n1 x", 2028),
        (datetime(2027, 3, 1, tzinfo=UTC), b"Feb 29 12:00:00 n1 x", 2028),
    ],
)
def test_a_line_without_a_year_is_of_the_nearest_one(near: datetime, line: bytes, year: int) -> None:
    found = stamp(line, near, UTC)
    assert found is not None
    assert found.year == year


@pytest.mark.parametrize(
    "line",
    [b"", b"\xff\xfe", b"2026-13-01T00:00:00Z", b"2026-12-01T25:00:00Z", b"Foo  1 00:00:00", b"Feb 30 00:00:00 n1", b"[ 12.5] x"],
)
def test_what_is_no_time_is_none(line: bytes) -> None:
    assert stamp(line, SINCE, UTC) is None
