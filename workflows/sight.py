"""Sight: that a source can't be read, or can be again, is kept and told, once each."""

from types import NoneType

from temporalio import workflow

from activities.asks import NoteAsk, Told
from rerail import names
from rerail.records import Notice, NoticeKind, RowKind
from workflows.profiles import RECORD, TELL
from workflows.sentence import begin, say


async def announce(what: str, *, blind: bool, why: str, cluster: str, job_id: str = "") -> None:
    """Keep it in the audit trail, then tell people without waiting for it. `what` is the source as a person calls it."""
    text = f"{what} can't be read: {why}" if blind else f"{what} can be read again"
    kind, row = (NoticeKind.BLIND, RowKind.BLIND) if blind else (NoticeKind.SIGHTED, RowKind.SIGHTED)
    key = f"{workflow.info().workflow_id}/{workflow.info().run_id}/{kind}/{int(workflow.now().timestamp())}"
    note = NoteAsk(key=key, kind=row, cluster=cluster, job_id=job_id, text=text, at=workflow.now())
    await say("note", note, NoneType, queue=names.CONTROL_QUEUE, summary=text, profile=RECORD)
    notice = Notice(key=key, kind=kind, cluster=cluster, job_id=job_id, title=text[:200], at=workflow.now())
    begin("tell", notice, Told, queue=names.CONTROL_QUEUE, summary=kind, profile=TELL)
