"""How an activity's step becomes a row of the audit trail: one key a step, the same over retries, replays and resets."""

from datetime import UTC, datetime
from typing import Any

from temporalio import activity

from rerail.records import Attempt, AuditRow, RowKind

TEXT_MAX = 500
"""Characters of a row's sentence; the record behind it is in the body."""


def row(
    run: str,
    step: str,
    kind: RowKind,
    attempt: Attempt,
    text: str,
    *,
    body: dict[str, Any] | None = None,
    actor: str = "rerail",
    at: datetime | None = None,
) -> AuditRow:
    """The row of one step of the incident that the running activity belongs to. `run` is the incident's first run."""
    incident = activity.info().workflow_id or ""
    return AuditRow(
        key=f"{incident}/{run}/{step}",
        at=at or datetime.now(UTC),
        kind=kind,
        cluster=attempt.job.cluster,
        job_id=attempt.job.job_id,
        attempt=attempt.number,
        incident=incident,
        actor=actor,
        text=text[:TEXT_MAX],
        body=body or {},
    )
