"""Chronicle: an incident as it unfolds. What is kept here is shown in the page, filtered by in the list, and told to people."""

from datetime import datetime, timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import SearchAttributeUpdate

from activities.asks import RemediateInput, Told
from activities.search import CLASS, NODES, STAGE
from rerail import names
from rerail.records import Attempt, Incident, Notice, NoticeKind, Outcome, Plan, Result, Stage, Verdict
from workflows.pages import incident_page
from workflows.profiles import TELL
from workflows.sentence import begin

NOTES_MAX = 10

NOTE_CHARS_MAX = 300

TELL_WITHIN = timedelta(minutes=1)
"""How long the closing of an incident waits for notices that are under way."""


class Chronicle:
    """The one writer of an incident's state."""

    def __init__(self, ask: RemediateInput) -> None:
        info = workflow.info()
        self.run = info.first_execution_run_id
        """What audit keys are made of: the same after a reset."""
        self.tells = ask.tells
        self.attempt = ask.anomaly.attempt
        self.named = Attempt(job=self.attempt.job, number=self.attempt.number)
        """As much of the attempt as names it in a record."""
        self.job_id = self.attempt.job.job_id
        self.cluster = self.attempt.job.cluster
        self.incident = Incident(id=info.workflow_id, stage=Stage.DIAGNOSING, anomaly=ask.anomaly, history=ask.history)
        self.marks: dict[str, datetime] = {"detected": ask.anomaly.seen_at}
        self.shown: Verdict | None = None
        """The verdict that the search attributes tell."""
        self.telling: list[workflow.ActivityHandle[Told]] = []

    @property
    def plan(self) -> Plan:
        """The plan as last made."""
        assert self.incident.plan
        return self.incident.plan

    def keep(self, **changes: Any) -> None:
        """Change the incident, and the page with it."""
        self.incident = self.incident.model_copy(update=changes)
        workflow.set_current_details(incident_page(self.incident))

    def mark(self, name: str, at: datetime | None = None) -> None:
        """A moment of the story."""
        self.marks[name] = at or workflow.now()

    def remark(self, note: str) -> None:
        """What else a reader should know."""
        self.keep(notes=(*self.incident.notes, note[:NOTE_CHARS_MAX])[-NOTES_MAX:])

    def remark_once(self, note: str) -> None:
        """The same, unless it stands there already: a plan may be made several times."""
        if note[:NOTE_CHARS_MAX] not in self.incident.notes:
            self.remark(note)

    def move_to(self, stage: Stage) -> None:
        """The next stage: in the page, and in the search attributes that filter the list."""
        if stage is self.incident.stage:
            return
        self.keep(stage=stage)
        updates: list[SearchAttributeUpdate[Any]] = [STAGE.value_set(stage.value)]
        verdict = self.incident.verdict
        if verdict and stage in (Stage.AWAITING_APPROVAL, Stage.CLOSED) and verdict != self.shown:
            updates += [CLASS.value_set(verdict.fault.value), NODES.value_set(list(verdict.culprit_nodes))]
            self.shown = verdict
        workflow.upsert_search_attributes(updates)

    def tell(self, kind: NoticeKind, title: str, text: str) -> None:
        """Tell people, without waiting for it."""
        if not self.tells:
            return
        notice = Notice(
            key=f"{self.incident.id}/{self.run}/{kind}-{len(self.telling)}",
            kind=kind,
            cluster=self.cluster,
            job_id=self.job_id,
            incident=self.incident.id,
            title=title,
            text=text[:500],
            at=workflow.now(),
        )
        self.telling.append(begin("tell", notice, Told, queue=names.CONTROL_QUEUE, summary=kind, profile=TELL))

    async def wait_for_telling(self) -> None:
        """A dead channel holds up nobody's closing."""
        try:
            await workflow.wait_condition(lambda: all(t.done() for t in self.telling), timeout=TELL_WITHIN)
        except TimeoutError:
            workflow.logger.warning("a notice could not be told in time")

    def outcome(self, result: Result, why: str, **more: Any) -> Outcome:
        """The end of the story, with its moments so far."""
        return Outcome(result=result, why=why, marks=dict(self.marks), failed_step=self.incident.anomaly.last_step, **more)
