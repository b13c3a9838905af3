"""The record of one local cluster: a SQLite file in WAL mode, written by callers and the daemon, one transaction a change."""

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adapters.schedulers.local.settings import Settings
from rerail.errors import Misconfigured, NoSuchJob, OutcomeUnknown, Refused, Unreadable
from rerail.records import JobState

BUSY_S = 5.0
"""How long a call waits for another writer before it gives up. Writers hold the lock for a millisecond."""

SCHEMA = """
PRAGMA journal_mode = WAL;
CREATE TABLE IF NOT EXISTS cluster (name TEXT NOT NULL, settings TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS nodes (
    seq INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, slots INTEGER NOT NULL,
    drained INTEGER NOT NULL DEFAULT 0, reason TEXT NOT NULL DEFAULT '', reason_by TEXT NOT NULL DEFAULT '', reason_at REAL);
CREATE TABLE IF NOT EXISTS jobs (
    id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, user TEXT NOT NULL, argv TEXT NOT NULL, env TEXT NOT NULL,
    folder TEXT NOT NULL, output TEXT NOT NULL, append INTEGER NOT NULL, nodes_needed INTEGER NOT NULL,
    ranks_per_node INTEGER NOT NULL, requeue INTEGER NOT NULL, excluded TEXT NOT NULL, comment TEXT NOT NULL DEFAULT '',
    state TEXT NOT NULL, reason TEXT NOT NULL DEFAULT '', restarts INTEGER NOT NULL DEFAULT 0, submitted_at REAL NOT NULL,
    begins_at REAL, started_at REAL, ended_at REAL, exit_code INTEGER, exit_signal INTEGER, nodes TEXT NOT NULL DEFAULT '[]',
    cancelled_by TEXT NOT NULL DEFAULT '', live INTEGER, token TEXT NOT NULL DEFAULT '', port INTEGER NOT NULL DEFAULT 0);
CREATE INDEX IF NOT EXISTS jobs_by_state ON jobs (state, ended_at);
CREATE INDEX IF NOT EXISTS jobs_live ON jobs (live) WHERE live IS NOT NULL;
"""
RECENT = """SELECT * FROM jobs WHERE state IN ('pending', 'running') UNION SELECT * FROM jobs WHERE live IS NOT NULL
UNION SELECT * FROM jobs WHERE state IN ('completed', 'failed', 'cancelled') AND ended_at > ? ORDER BY id"""
ACTIVE = "SELECT * FROM jobs WHERE state IN ('pending', 'running') UNION SELECT * FROM jobs WHERE live IS NOT NULL ORDER BY id"


@dataclass(frozen=True)
class Entry:
    """A job's row. Times are seconds since the epoch. `live` is the attempt whose processes may still exist, else None."""

    id: int
    name: str
    user: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    folder: str
    output: str
    append: bool
    nodes_needed: int
    ranks_per_node: int
    requeue: bool
    excluded: tuple[str, ...]
    comment: str
    state: JobState
    reason: str
    restarts: int
    submitted_at: float
    begins_at: float | None
    started_at: float | None
    ended_at: float | None
    exit_code: int | None
    exit_signal: int | None
    nodes: tuple[str, ...]
    cancelled_by: str
    live: int | None
    token: str
    port: int

    @property
    def completing(self) -> bool:
        """True while an attempt that is over still has processes."""
        return self.live is not None and self.state is not JobState.RUNNING

    @property
    def active(self) -> bool:
        """True while the daemon has something to do with it."""
        return self.live is not None or not self.state.ended


@dataclass(frozen=True)
class Place:
    """A node's row: a name with room for `slots` ranks."""

    name: str
    slots: int
    drained: bool
    reason: str
    reason_by: str = ""
    reason_at: float | None = None


def book_path(folder: Path) -> Path:
    """Where the record lies."""
    return folder / "record.db"


class Book:
    """One open connection; use it inside `reading` or `writing`, from one thread."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection

    def cluster(self) -> tuple[str, Settings]:
        """The cluster's name and numbers."""
        row = self._db.execute("SELECT name, settings FROM cluster").fetchone()
        if row is None:
            raise Misconfigured("the record of the local cluster is empty; create the cluster again")
        return row[0], Settings.from_json(row[1])

    def found(self, name: str, settings: Settings) -> None:
        """Write the cluster's one row."""
        self._db.execute("INSERT INTO cluster (name, settings) VALUES (?, ?)", (name, settings.to_json()))

    def places(self) -> tuple[Place, ...]:
        """All nodes in the order in which they were named."""
        return tuple(_place(row) for row in self._db.execute("SELECT * FROM nodes ORDER BY seq"))

    def add_place(self, name: str, slots: int) -> None:
        """A node; one that is there already stays as it is."""
        self._db.execute("INSERT OR IGNORE INTO nodes (name, slots) VALUES (?, ?)", (name, slots))

    def mark_place(self, name: str, *, drained: bool, reason: str, by: str, at: float | None) -> None:
        """Drain or resume."""
        columns = {row[1] for row in self._db.execute("PRAGMA table_info(nodes)")}
        if "reason_by" not in columns:  # a record of before the reason's writer was kept
            self._db.execute("ALTER TABLE nodes ADD COLUMN reason_by TEXT NOT NULL DEFAULT ''")
            self._db.execute("ALTER TABLE nodes ADD COLUMN reason_at REAL")
        sql = "UPDATE nodes SET drained = ?, reason = ?, reason_by = ?, reason_at = ? WHERE name = ?"
        self._db.execute(sql, (drained, reason, by, at, name))

    def entry(self, job_id: int) -> Entry:
        """One job; NoSuchJob."""
        row = self._db.execute("SELECT * FROM jobs WHERE id = ?", (job_id,)).fetchone()
        if row is None:
            raise NoSuchJob(f"the local cluster has no job {job_id}")
        return _entry(row)

    def recent(self, ended_after: float) -> list[Entry]:
        """What is not over, and what ended after that moment."""
        return [_entry(row) for row in self._db.execute(RECENT, (ended_after,))]

    def active(self) -> list[Entry]:
        """What the daemon has to look after."""
        return [_entry(row) for row in self._db.execute(ACTIVE)]

    def add(self, **columns: Any) -> int:
        """A new job; returns its id."""
        stored = {k: _stored(v) for k, v in columns.items()}
        names, marks = ", ".join(stored), ", ".join("?" * len(stored))
        sql = f"INSERT INTO jobs ({names}) VALUES ({marks})"  # noqa: S608  (column names are ours, values are bound)
        number = self._db.execute(sql, tuple(stored.values())).lastrowid
        assert number is not None
        return number

    def change(self, job_id: int, **columns: Any) -> None:
        """Set columns of a job."""
        stored = {k: _stored(v) for k, v in columns.items()}
        sets = ", ".join(f"{name} = ?" for name in stored)
        self._db.execute(f"UPDATE jobs SET {sets} WHERE id = ?", (*stored.values(), job_id))  # noqa: S608  (as above)


@contextmanager
def reading(folder: Path) -> Iterator[Book]:
    """One consistent view. Raises Misconfigured when there is no record, Unreadable when it can't be read."""
    with _connected(folder) as db:
        try:
            db.execute("PRAGMA query_only = ON")
            db.execute("BEGIN")
            yield Book(db)
            db.execute("COMMIT")
        except sqlite3.Error as error:
            raise Unreadable(f"the record of the local cluster could not be read: {error}") from error


@contextmanager
def writing(folder: Path) -> Iterator[Book]:
    """One change, all or nothing. Raises as `reading`, and OutcomeUnknown when it is not known whether the change was kept."""
    with _connected(folder) as db:
        try:
            db.execute("PRAGMA synchronous = NORMAL")  # in WAL mode: a power cut may undo the last change, never corrupt
            db.execute("BEGIN IMMEDIATE")
            yield Book(db)
        except sqlite3.Error as error:
            raise Unreadable(f"the record of the local cluster could not be changed, nothing was done: {error}") from error
        try:
            db.execute("COMMIT")
        except sqlite3.Error as error:
            raise OutcomeUnknown(f"the record of the local cluster may not have kept the change: {error}") from error


def prepare(folder: Path) -> None:
    """Create the file and its tables where they are missing; nobody but the owner may read it, since it carries environments."""
    path = book_path(folder)
    os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
    try:
        with closing(sqlite3.connect(path, timeout=BUSY_S)) as db:
            db.executescript(SCHEMA)
    except sqlite3.Error as error:
        raise Refused(f"no record could be made in {folder}: {error}") from error


@contextmanager
def _connected(folder: Path) -> Iterator[sqlite3.Connection]:
    path = book_path(folder)
    if not path.is_file():
        raise Misconfigured(
            f"there is no local cluster in {folder}: create one (`python -m adapters.schedulers.local --folder {folder} create`)"
        )
    try:
        db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=BUSY_S, isolation_level=None)
    except sqlite3.Error as error:
        raise Unreadable(f"the record of the local cluster could not be opened: {error}") from error
    with closing(db):
        db.row_factory = sqlite3.Row
        yield db


def _entry(row: sqlite3.Row) -> Entry:
    columns = dict(row)
    for name in ("argv", "excluded", "nodes"):
        columns[name] = tuple(json.loads(columns[name]))
    columns["env"] = json.loads(columns["env"])
    columns["append"], columns["requeue"] = bool(columns["append"]), bool(columns["requeue"])
    columns["state"] = JobState(columns["state"])
    return Entry(**columns)


def _place(row: sqlite3.Row) -> Place:
    columns = dict(row)
    del columns["seq"]
    return Place(**(columns | {"drained": bool(columns["drained"])}))


def _stored(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, tuple | list | dict) else value
