"""The audit trail in an SQL database: each row exactly once, over retries, replays and many processes; durable on return."""

import json
import logging
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pydantic import ValidationError
from sqlalchemy import Engine, Row, Select, create_engine, event, insert, inspect, select
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, SQLAlchemyError
from sqlalchemy.pool import NullPool
from sqlalchemy.schema import CreateIndex, CreateTable

from adapters.audit.canonical import LOOKED_UP, canonical_json, canonical_time, cleaned
from adapters.audit.schema import AUDIT, BY_CLUSTER, BY_INCIDENT, SQLITE_GUARDS
from rerail.errors import Misconfigured, Permanent, Transient, Unreadable
from rerail.records import AuditRow

LOG = logging.getLogger(__name__)

BUSY_S = 10.0
"""How long a writer waits for the others: each holds the file for milliseconds."""
PAGE_ROWS = 500
"""Rows per read: no reader keeps a transaction open while its caller thinks."""


class AuditStore:
    """Implements `rerail.ports.Audit`. `url` is an SQLAlchemy URL; nothing is opened before the first use."""

    def __init__(self, url: str | URL) -> None:
        self._engine = _engine(url)
        self._where = self._engine.url.render_as_string(hide_password=True)
        self._file = self._engine.url.database if self._engine.dialect.name == "sqlite" else None
        self._ready = False

    def append(self, row: AuditRow) -> bool:
        """Store the row once; False when a row of that key was there already. On the disk when it returns.

        Raises Transient, with the next step, where the database is locked, full or absent.
        """
        text = canonical_json(row)
        values = {name: cleaned(str(getattr(row, name))) for name in LOOKED_UP}
        values |= {"at": canonical_time(row.at), "row": text}
        with self._translated():
            self._prepare()
            try:
                with self._engine.begin() as connection:
                    connection.execute(insert(AUDIT).values(**values))
            except IntegrityError:
                self._compare(values["key"], text)
                return False
        return True

    def rows(self, after: int = 0, limit: int = 1000, incident: str = "", cluster: str = "") -> Iterator[tuple[int, AuditRow]]:
        """Rows after the number `after`, in order, each with its number. Raises Unreadable where there is no trail to read."""
        for seq, text in self.lines(after, limit, incident, cluster):
            try:
                yield seq, AuditRow.model_validate_json(text)
            except ValidationError as error:
                raise Permanent(f"audit row {seq} of {self._where} is no audit row: it was changed outside rerail.") from error

    def lines(self, after: int = 0, limit: int = 1000, incident: str = "", cluster: str = "") -> Iterator[tuple[int, str]]:
        """As `rows`, but the canonical texts exactly as they are kept."""
        while limit > 0:
            page = self._page(after, min(limit, PAGE_ROWS), incident, cluster)
            yield from page
            if len(page) < min(limit, PAGE_ROWS):
                return
            limit -= len(page)
            after = page[-1][0]

    def before_last(self, count: int, incident: str = "", cluster: str = "") -> int:
        """The number after which the last `count` rows come; for `rows` and `lines`."""
        newest = _wanted(select(AUDIT.c.seq), incident, cluster).order_by(AUDIT.c.seq.desc()).limit(count)
        return min((seq for (seq, *_) in self._read(newest)), default=1) - 1

    def check(self) -> None:
        """Try the whole way of a row but the last step: connect, prepare, insert, roll back. Raises as `append` does."""
        probe = dict.fromkeys((*LOOKED_UP, "at", "row"), "doctor")
        with self._translated():
            self._prepare()
            with self._engine.connect() as connection:
                connection.execute(insert(AUDIT).values(**probe))
                connection.rollback()

    def _page(self, after: int, limit: int, incident: str, cluster: str) -> list[tuple[int, str]]:
        rows = _wanted(select(AUDIT.c.seq, AUDIT.c.row), incident, cluster).where(AUDIT.c.seq > after)
        return [(row[0], row[1]) for row in self._read(rows.order_by(AUDIT.c.seq).limit(limit))]

    def _read(self, statement: Select[*tuple[Any, ...]]) -> Sequence[Row[*tuple[Any, ...]]]:
        if self._file is not None and not os.path.exists(self._file):  # to connect would create it
            raise Unreadable(f"there is no audit trail at {self._file} yet: it begins with the first thing that rerail does.")
        with self._translated(), self._engine.connect() as connection:
            if not self._ready and not inspect(connection).has_table(AUDIT.name):
                return []
            return connection.execute(statement).all()

    def _prepare(self) -> None:
        if self._ready:
            return
        with self._engine.begin() as connection:
            connection.execute(CreateTable(AUDIT, if_not_exists=True))
            connection.execute(CreateIndex(BY_INCIDENT, if_not_exists=True))
            connection.execute(CreateIndex(BY_CLUSTER, if_not_exists=True))
            if self._file is not None:
                for guard in SQLITE_GUARDS:
                    connection.execute(guard)
        self._ready = True

    def _compare(self, key: str, text: str) -> None:
        with self._engine.connect() as connection:
            kept = connection.execute(select(AUDIT.c.row).where(AUDIT.c.key == key)).scalar_one_or_none()
        if kept is None:
            raise Permanent(f"the audit refused the row {key[:120]!r} and has none of that key: look at {self._where}.")
        if _but_time(kept) != _but_time(text):
            LOG.warning("audit: another row came for the key %r; the first one is kept", key[:200])

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (DBAPIError, sqlite3.Error) as error:  # the latter while a connection is set up
            self._ready = False  # the file may have been taken away: look again next time
            reason = _reason(error)
            raise Transient(f"the audit {self._where} cannot be used ({reason}): {_next_step(reason)}.") from error
        except SQLAlchemyError as error:
            raise Misconfigured(
                f"the audit {self._where} cannot be used: {type(error).__name__}; check `audit` in rerail.yaml."
            ) from error


NEXT_STEPS = (
    ("locked", "another process holds it; find out which, it is tried again"),
    ("full", "make room on the disk"),
    ("unable to open", "create the folder and let the user that runs rerail write there"),
    ("readonly", "let the user that runs rerail write the file and its folder"),
    ("no such table", "the file was replaced while in use; it is tried again"),
    ("malformed", "the file is damaged; keep it and put the last backup in its place"),
    ("not a database", "the file is something else; move it away"),
)


def _engine(url: str | URL) -> Engine:
    try:
        parts = make_url(url)
        if parts.get_backend_name() != "sqlite":
            return create_engine(parts, pool_pre_ping=True, hide_parameters=True)
        # A connection a use: a file that was moved or deleted is noticed, and nothing is shared over a fork.
        engine = create_engine(parts, poolclass=NullPool, hide_parameters=True, connect_args={"timeout": BUSY_S})
    except (ArgumentError, ImportError, ValueError) as error:
        raise Misconfigured(f"`audit` in rerail.yaml names no database that can be used here: {str(error)[:200]}.") from error
    event.listen(engine, "connect", _durable)
    return engine


def _wanted(rows: Select[*tuple[Any, ...]], incident: str, cluster: str) -> Select[*tuple[Any, ...]]:
    if incident:
        rows = rows.where(AUDIT.c.incident == incident)
    return rows.where(AUDIT.c.cluster == cluster) if cluster else rows


def _durable(connection: Any, _record: object) -> None:
    """WAL lets readers read while one writes; FULL puts every commit on the disk before it returns."""
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.close()


def _reason(error: DBAPIError | sqlite3.Error) -> str:
    return " ".join(str(error.orig if isinstance(error, DBAPIError) else error).split())[:200]


def _next_step(reason: str) -> str:
    steps = (step for part, step in NEXT_STEPS if part in reason)
    return next(steps, "check that the database is up and that `audit` in rerail.yaml is right")


def _but_time(text: str) -> dict[str, Any]:
    """A retry may tell the same thing with a later clock; that is no other row."""
    values: dict[str, Any] = json.loads(text)
    return {name: value for name, value in values.items() if name != "at"}
