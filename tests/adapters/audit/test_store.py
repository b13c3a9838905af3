"""The audit trail: once, in order, never changed, on the disk."""

import json
import logging
import os
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, text

from adapters.audit import store as store_module
from adapters.audit.store import AuditStore
from rerail.errors import Misconfigured, Permanent, Transient, Unreadable
from rerail.ports import Audit
from rerail.records import AuditRow, RowKind

AT = datetime(2026, 12, 1, 9, 30, tzinfo=UTC)


def row(key: str, **other: Any) -> AuditRow:
    return AuditRow(**({"key": key, "at": AT, "kind": RowKind.PLAN, "cluster": "alpha"} | other))


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/audit.db"


@pytest.fixture
def store(url: str) -> AuditStore:
    return AuditStore(url)


def test_it_is_an_audit(store: AuditStore) -> None:
    assert isinstance(store, Audit)


def test_a_row_is_stored_once_and_read_back_as_it_was(store: AuditStore) -> None:
    one = row("a", job_id="7", attempt=2, incident="i", actor="ann", text="said so", body={"b": [1, None, True], "a": {"x": 1.5}})
    assert store.append(one) is True
    assert store.append(one) is False
    assert list(store.rows()) == [(1, one)]


def test_a_retry_with_a_later_clock_is_the_same_row(store: AuditStore, caplog: pytest.LogCaptureFixture) -> None:
    store.append(row("a"))
    assert store.append(row("a", at=AT + timedelta(seconds=5))) is False
    assert caplog.records == []
    assert next(store.rows())[1].at == AT


def test_another_row_of_the_same_key_is_told_and_never_overwrites(store: AuditStore, caplog: pytest.LogCaptureFixture) -> None:
    store.append(row("a", text="first"))
    with caplog.at_level(logging.WARNING):
        assert store.append(row("a", text="second")) is False
    assert "another row came for the key 'a'" in caplog.text
    assert [one.text for _, one in store.rows()] == ["first"]


def test_rows_come_in_order_after_a_number_bounded_and_filtered(store: AuditStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "PAGE_ROWS", 3)  # several pages
    for n in range(10):
        store.append(row(f"k{n}", cluster="alpha" if n % 2 else "beta", incident=f"i{n % 3}"))
    assert [seq for seq, _ in store.rows()] == list(range(1, 11))
    assert [seq for seq, _ in store.rows(after=4, limit=5)] == [5, 6, 7, 8, 9]
    assert [one.key for _, one in store.rows(cluster="beta")] == ["k0", "k2", "k4", "k6", "k8"]
    assert [one.key for _, one in store.rows(cluster="beta", incident="i0")] == ["k0", "k6"]
    assert list(store.rows(limit=0)) == []
    assert [seq for seq, _ in store.rows(after=store.before_last(2))] == [9, 10]
    assert [one.key for _, one in store.rows(after=store.before_last(1, cluster="beta"), cluster="beta")] == ["k8"]


def test_reading_does_not_make_a_trail(store: AuditStore, tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="no audit trail"):
        list(store.rows())
    assert list(tmp_path.iterdir()) == []


def test_an_empty_trail_reads_as_empty(store: AuditStore, url: str) -> None:
    store.check()
    assert list(AuditStore(url).rows()) == []
    assert store.before_last(5) == 0


def test_the_check_leaves_no_row_and_takes_no_number(store: AuditStore) -> None:
    store.append(row("a"))
    store.check()
    store.append(row("b"))
    assert [seq for seq, _ in store.rows()] == [1, 2]


@pytest.mark.parametrize("statement", ["DELETE FROM audit", "UPDATE audit SET key = 'x'"])
def test_the_database_itself_refuses_change(store: AuditStore, tmp_path: Path, statement: str) -> None:
    store.append(row("a"))
    connection = sqlite3.connect(tmp_path / "audit.db")
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        connection.execute(statement)
    connection.close()


def test_a_commit_is_on_the_disk_when_it_returns(store: AuditStore) -> None:
    with store._engine.connect() as connection:  # the two settings that promise it
        assert connection.execute(text("PRAGMA journal_mode")).scalar() == "wal"
        assert connection.execute(text("PRAGMA synchronous")).scalar() == 2


def test_a_locked_database_is_transient(store: AuditStore, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store.append(row("a"))
    monkeypatch.setattr(store_module, "BUSY_S", 0.05)
    other = sqlite3.connect(tmp_path / "audit.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Transient, match="another process holds it"):
        AuditStore(url).append(row("b"))
    other.close()
    assert AuditStore(url).append(row("b")) is True


def test_an_absent_folder_is_transient_and_tells_the_next_step(tmp_path: Path) -> None:
    store = AuditStore(f"sqlite:///{tmp_path}/gone/audit.db")
    with pytest.raises(Transient, match="create the folder"):
        store.append(row("a"))
    (tmp_path / "gone").mkdir()
    assert store.append(row("a")) is True


def test_a_full_database_is_transient(store: AuditStore, tmp_path: Path) -> None:
    store.append(row("a"))

    def bounded(connection: Any, _record: object) -> None:
        connection.execute("PRAGMA max_page_count=1").close()

    event.listen(store._engine, "connect", bounded)
    with pytest.raises(Transient, match="make room"):
        store.append(row("b", body={"x": "y " * 20_000}))


def test_a_file_of_another_kind_is_told(tmp_path: Path) -> None:
    (tmp_path / "audit.db").write_text("no database " * 100)
    with pytest.raises(Transient, match="move it away"):
        AuditStore(f"sqlite:///{tmp_path}/audit.db").append(row("a"))


def test_a_file_taken_away_is_begun_anew(store: AuditStore, tmp_path: Path) -> None:
    store.append(row("a"))
    for file in tmp_path.iterdir():
        file.unlink()
    with pytest.raises(Transient, match="tried again"):
        store.append(row("b"))
    assert store.append(row("b")) is True


def test_an_unknown_database_is_told_without_its_password() -> None:
    with pytest.raises(Misconfigured) as caught:
        AuditStore("nonesuch://u:hunter2@h/d")
    assert "hunter2" not in str(caught.value)


def test_a_row_changed_outside_is_told(store: AuditStore, tmp_path: Path) -> None:
    store.append(row("a"))
    connection = sqlite3.connect(tmp_path / "audit.db", isolation_level=None)
    connection.execute("DROP TRIGGER audit_no_update")
    connection.execute("UPDATE audit SET row = '{}'")
    connection.close()
    with pytest.raises(Permanent, match="changed outside rerail"):
        list(store.rows())


def test_hostile_text_is_kept_as_text(store: AuditStore) -> None:
    one = row("k\ud800\0", text="a\ud800b\0", job_id="'; DROP TABLE audit; --", body={"\ud800": "\ud800"})
    assert store.append(one) is True
    assert store.append(one) is False
    kept = next(store.rows())[1]
    assert (kept.key, kept.text) == ("k?\ufffd", "a?b\ufffd")


WRITER = """
import sys
from datetime import UTC, datetime
from adapters.audit.store import AuditStore
from rerail.records import AuditRow, RowKind
store, count = AuditStore(sys.argv[1]), int(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
for n in range(count):
    stored = store.append(AuditRow(key=f"k{n}", at=datetime.now(UTC), kind=RowKind.PLAN, cluster="alpha"))
    print(n, stored, flush=True)
"""
"""Another process that appends `count` rows and says so after each."""


def writer(url: str, count: int) -> subprocess.Popen[str]:
    environ = {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONWARNINGS": "ignore"}
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, url, str(count)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def begin(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def test_many_processes_append_each_row_once(url: str) -> None:
    processes = [writer(url, 40) for _ in range(4)]
    for process in processes:
        begin(process)
    said = [process.communicate(timeout=60)[0] for process in processes]
    assert all(words.count("\n") == 40 for words in said)
    assert sum(words.count("True") for words in said) == 40
    assert [seq for seq, _ in AuditStore(url).rows()] == list(range(1, 41))


def test_what_was_appended_before_a_sigkill_is_there(url: str) -> None:
    process = writer(url, 1_000_000)
    begin(process)
    assert process.stdout is not None
    for _ in range(5):
        process.stdout.readline()
    process.kill()
    acknowledged = 5 + process.communicate(timeout=60)[0].count("True\n")
    kept = [json.loads(line)["key"] for _, line in AuditStore(url).lines(limit=100_000)]
    assert kept[:acknowledged] == [f"k{n}" for n in range(acknowledged)]
    assert len(kept) - acknowledged <= 1  # the one that was stored and not yet told
    assert AuditStore(url).append(row("after")) is True
