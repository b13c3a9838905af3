"""Keeping and telling: decisions, outcomes and blindness in the audit trail, notices to people."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from temporalio import activity
from temporalio.api.history.v1 import WorkflowExecutionSignaledEventAttributes
from temporalio.client import Client

from activities.asks import CloseAsk, NoteAsk, RecordAsk, Told
from activities.rows import row
from rerail import names
from rerail.errors import Permanent, Transient
from rerail.ports import Audit, Channel
from rerail.records import AuditRow, Decision, Notice, Recorded, RowKind
from rerail.requests import only, read_decision


@dataclass(frozen=True)
class Recording:
    """Activities of the control role that write the record and tell people."""

    audit: Audit
    channels: Sequence[Channel]
    client: Client
    ui: str = ""

    @activity.defn
    async def record_decision(self, ask: RecordAsk) -> Recorded:
        """Keep a decision with the identity that Temporal recorded for it, which the workflow itself can't see."""
        recorded = ask.recorded.model_copy(update={"identity": await self.identity(ask.recorded)})
        decision = recorded.decision
        who = f"{decision.by} ({recorded.identity})" if recorded.identity else decision.by
        text = f"{decision.verdict} of plan {ask.plan} by {who}, by {recorded.way}: {decision.reason}"
        body = recorded.model_dump(mode="json") | {"plan": ask.plan}
        kept = row(
            ask.run,
            "decision",
            RowKind.DECISION,
            ask.attempt,
            text,
            body=body,
            actor=decision.by,
        )
        await asyncio.to_thread(self.audit.append, kept)
        return recorded

    async def identity(self, recorded: Recorded) -> str:
        """The identity on the message that was taken, in this workflow's history; empty where the server recorded none."""
        info = activity.info()
        handle = self.client.get_workflow_handle(info.workflow_id or "", run_id=info.workflow_run_id)
        async for event in handle.fetch_history_events():
            if recorded.way == "signal" and event.HasField("workflow_execution_signaled_event_attributes"):
                signal = event.workflow_execution_signaled_event_attributes
                if await self.says(signal, recorded.decision):
                    return signal.identity
            elif recorded.way == "update" and event.HasField("workflow_execution_update_accepted_event_attributes"):
                request = event.workflow_execution_update_accepted_event_attributes.accepted_request
                if request.input.name == names.DECIDE:  # the validator accepts one in a workflow's life
                    return request.meta.identity
            elif recorded.way == "cancel" and event.HasField("workflow_execution_cancel_requested_event_attributes"):
                return event.workflow_execution_cancel_requested_event_attributes.identity
        return ""

    async def says(self, signal: WorkflowExecutionSignaledEventAttributes, decision: Decision) -> bool:
        """True when the signal carries that very decision: others before it may have had no effect."""
        if signal.signal_name != decision.verdict.value:
            return False
        try:
            messages = await self.client.data_converter.decode(signal.input.payloads)
            return read_decision(only(tuple(messages)), decision.verdict) == decision
        except Exception:  # whatever a stranger sent that can't be read was not taken either
            return False

    @activity.defn
    def close(self, ask: CloseAsk) -> None:
        """Keep the outcome."""
        outcome = ask.outcome
        text = f"{outcome.result}: {outcome.why}"
        body = outcome.model_dump(mode="json")
        self.audit.append(row(ask.run, "outcome", RowKind.OUTCOME, ask.attempt, text, body=body))

    @activity.defn
    def note(self, ask: NoteAsk) -> None:
        """Keep what is no incident's: pause, resume, blindness of a cluster."""
        kept = AuditRow(
            key=ask.key, at=ask.at, kind=ask.kind, cluster=ask.cluster, job_id=ask.job_id, actor=ask.actor, text=ask.text
        )
        self.audit.append(kept)

    def link(self, notice: Notice) -> str:
        """Where to read on and answer: the incident's page in the Temporal UI."""
        if not (self.ui and notice.incident):
            return ""
        return f"{self.ui}/namespaces/{self.client.namespace}/workflows/{quote(notice.incident, safe='')}"

    @activity.defn
    def tell(self, notice: Notice) -> Told:
        """Tell it on every channel; returns what a channel will never take, and tries again what may work later.

        Which channels are done with rides in the heartbeat: a dead one neither keeps the others from telling it nor has them
        tell it over and over.
        """
        details = activity.info().heartbeat_details
        done: dict[str, str] = dict(details[0]) if details else {}
        later: Transient | None = None
        notice = notice.model_copy(update={"link": self.link(notice)})
        for channel in self.channels:
            if channel.name in done:
                continue
            try:
                done[channel.name] = self.send(channel, notice)
            except Transient as error:
                later = error
            activity.heartbeat(done)
        if later:
            raise later
        return Told(refused=tuple(f"{name}: {why}" for name, why in done.items() if why))

    def send(self, channel: Channel, notice: Notice) -> str:
        """Empty when it was told, else why this channel will never take it."""
        try:
            channel.send(notice)
        except Permanent as error:
            activity.logger.error("channel %s refuses: %s", channel.name, error)
            return str(error)
        return ""
