"""The one table of the audit trail. Rows are added and never changed; SQLite itself refuses the rest."""

from sqlalchemy import BigInteger, Column, Index, Integer, MetaData, Table, Text, text

METADATA = MetaData()

AUDIT = Table(
    "audit",
    METADATA,
    Column("seq", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("key", Text, nullable=False, unique=True),
    Column("at", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("cluster", Text, nullable=False),
    Column("job_id", Text, nullable=False),
    Column("incident", Text, nullable=False),
    Column("row", Text, nullable=False),  # the canonical text; the columns before it only find it
    sqlite_autoincrement=True,  # a number is never given twice, not even after a row was cut off
)
BY_INCIDENT = Index("audit_incident", AUDIT.c.incident, AUDIT.c.seq)
BY_CLUSTER = Index("audit_cluster", AUDIT.c.cluster, AUDIT.c.seq)

SQLITE_GUARDS = tuple(
    text(
        f"CREATE TRIGGER IF NOT EXISTS audit_no_{verb} BEFORE {verb.upper()} ON audit "
        "BEGIN SELECT RAISE(ABORT, 'the audit trail is append-only'); END"
    )
    for verb in ("update", "delete")
)
