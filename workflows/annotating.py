"""Annotating: the verdict in one line where the job's owner looks, in its comment; only where the cluster's settings say so."""

from temporalio import workflow
from temporalio.exceptions import ActivityError

from activities.asks import AnnotateAsk, Annotated
from rerail import names
from rerail.records import Incident, Stage
from workflows.chronicle import Chronicle
from workflows.endings import cause_of
from workflows.profiles import ANNOTATE
from workflows.sentence import begin


class Annotating:
    """Writes at the proposal and at the end. Nothing waits for it but the next line, and its failure is a note."""

    def __init__(self, chronicle: Chronicle) -> None:
        self.chronicle = chronicle
        self.written = 0
        self.writing: workflow.ActivityHandle[Annotated] | None = None

    async def write(self) -> None:
        """Begin to write what the incident says now, once an earlier line is written."""
        await self.finish()
        chronicle, self.written = self.chronicle, self.written + 1
        step = f"annotate-{self.written}"
        ask = AnnotateAsk(run=chronicle.run, step=step, attempt=chronicle.attempt, word=word(chronicle.incident))
        queue = names.act_queue(chronicle.cluster)
        self.writing = begin("annotate", ask, Annotated, queue=queue, summary="the job's comment", profile=ANNOTATE)

    async def finish(self) -> None:
        """Wait for the line that is being written, a minute at the most."""
        if self.writing is None:
            return
        writing, self.writing = self.writing, None
        try:
            why_not = (await writing).why_not
        except ActivityError as error:
            why_not = cause_of(error)
        if why_not:
            self.chronicle.remark_once(f"the verdict is not in the job's comment: {why_not}")


def word(incident: Incident) -> str:
    """The incident in one line: what was seen, why, who is blamed, what became of it."""
    verdict = incident.verdict
    said = str(incident.anomaly.kind)
    if verdict:
        nodes = f" on {', '.join(verdict.culprit_nodes)}" if verdict.culprit_nodes else ""
        said = f"{verdict.kind}, {verdict.fault}, {verdict.cause}{nodes}"
    if incident.outcome:
        return f"{said}: {incident.outcome.result}, {incident.outcome.why}"
    waits = incident.stage is Stage.AWAITING_APPROVAL or (incident.plan is not None and incident.plan.ask)
    return f"{said}: {'a person is asked' if waits else 'being handled'}"
