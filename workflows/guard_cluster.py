"""GuardCluster: the one writer of a cluster's isolation ledger and of its pause; lives for ever."""

from types import NoneType
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from activities.asks import NoteAsk, ReadmitAsk, Readmitted
    from policies.isolation import judge
    from rerail import names
    from rerail.records import Grant, GrantAsk, GuardState, Isolated, Isolation, RowKind
    from rerail.requests import (
        READMIT_FORM,
        REQUEST_FORM,
        NodeRequest,
        Refusal,
        Request,
        only,
        read_node_request,
        read_record,
        read_request,
    )
    from workflows.endings import cause_of, type_of
    from workflows.pages import guard_page
    from workflows.profiles import GIVE_BACK, RECORD
    from workflows.sentence import say

REMEMBERED_MAX = 500
"""Grants and isolations that are carried on: weeks of them at the worst rate seen, and far below a payload's limit."""


@workflow.defn(name=names.GUARD_CLUSTER)
class GuardCluster:
    """Grants or refuses isolation, and holds the pause. Its state rides over continue-as-new."""

    @workflow.init
    def __init__(self, state: GuardState) -> None:
        self.state = state
        self.returning: set[str] = set()
        """Nodes that are being readmitted right now."""

    @workflow.run
    async def run(self, state: GuardState) -> None:
        self.show()
        await workflow.wait_condition(lambda: workflow.info().is_continue_as_new_suggested())
        await workflow.wait_condition(workflow.all_handlers_finished)
        workflow.continue_as_new(self.state)

    @workflow.update(name=names.GRANT, description="Asked by incidents, not by people: may these nodes be isolated?")
    def grant(self, *asks: Any) -> Grant:
        ask = read_record(GrantAsk, asks)
        key = f"{ask.incident}/{ask.run}"
        known = self.state.grants.get(key)
        if known:
            return known
        grant = judge(ask, self.state, workflow.now())
        grants = [*self.state.grants.items(), (key, grant)][-REMEMBERED_MAX:]
        changes: dict[str, Any] = {"grants": dict(grants)}
        if grant.granted:
            common: dict[str, Any] = {"incident": ask.incident, "run": ask.run, "job": ask.job, "since": workflow.now()}
            new = tuple(Isolation(node=n, **common) for n in ask.nodes)
            changes["isolations"] = (*self.state.isolations, *new)[-REMEMBERED_MAX:]
        self.keep(**changes)
        return grant

    @grant.validator
    def check_grant(self, *asks: Any) -> None:
        read_record(GrantAsk, asks)

    @workflow.update(name=names.PAUSE, description='Stop all acting on this cluster: {"by": "your name", "reason": "why"}')
    async def pause(self, *messages: Any) -> str:
        request = read_request(only(messages, REQUEST_FORM))
        if self.state.paused:
            return f"{self.state.cluster} is paused already, by {self.state.paused_by}: {self.state.paused_why}"
        self.keep(paused=True, paused_by=request.by, paused_why=request.reason, paused_since=workflow.now())
        await self.note(RowKind.PAUSE, request)
        return f"{self.state.cluster} is paused: nothing is done to it until somebody resumes it"

    @workflow.update(name=names.RESUME, description='Let rerail act again: {"by": "your name", "reason": "why"}')
    async def resume(self, *messages: Any) -> str:
        request = read_request(only(messages, REQUEST_FORM))
        if not self.state.paused:
            return f"{self.state.cluster} is not paused"
        waiting = self.state.waiting
        self.keep(paused=False, paused_by="", paused_why="", paused_since=None, waiting=())
        for incident in waiting:
            await self.wake(incident)
        await self.note(RowKind.RESUME, request)
        return f"{self.state.cluster} is resumed; {len(waiting)} incidents go on"

    @pause.validator
    def check_pause(self, *messages: Any) -> None:
        read_request(only(messages, REQUEST_FORM))

    @resume.validator
    def check_resume(self, *messages: Any) -> None:
        read_request(only(messages, REQUEST_FORM))

    @workflow.update(
        name=names.READMIT,
        description='Give an isolated node back: {"node": "gpu-02", "by": "your name", "reason": "why"}',
    )
    async def readmit(self, *messages: Any) -> str:
        """What was done. Only our own drain is ended, and only our own exclusion taken back."""
        request = read_node_request(only(messages, READMIT_FORM))
        rows = tuple(one for one in self.state.isolations if one.node == request.node)
        refusal = self.why_not_readmit(request.node, rows)
        if refusal:
            raise ApplicationError(refusal, type="Refused")
        self.returning.add(request.node)
        try:
            said = await self.give_back(request, rows)
        finally:
            self.returning.discard(request.node)
        self.keep(isolations=tuple(one for one in self.state.isolations if one not in rows))
        await self.note(RowKind.READMIT, Request(by=request.by, reason=f"{request.node}: {request.reason}"))
        return "; ".join([f"{request.node} is readmitted", *said])

    def why_not_readmit(self, node: str, rows: tuple[Isolation, ...]) -> str:
        if self.state.paused:
            return f"{self.state.cluster} is paused by {self.state.paused_by}: {self.state.paused_why}; resume it first"
        if node in self.returning:
            return f"{node} is being readmitted already"
        return "" if rows else f"{node} is not isolated by rerail on {self.state.cluster}: there is nothing to give back"

    async def give_back(self, request: NodeRequest, rows: tuple[Isolation, ...]) -> tuple[str, ...]:
        """The effects, where there are any."""
        if not any(one.excluded or one.drained for one in rows):
            return ()
        key = f"{workflow.info().workflow_id}/{workflow.info().run_id}/{RowKind.READMIT}/{workflow.uuid4()}"
        cluster = self.state.cluster
        ask = ReadmitAsk(key=key, cluster=cluster, node=request.node, isolations=rows, by=request.by, reason=request.reason)
        try:
            queue = names.act_queue(cluster)
            done = await say("readmit", ask, Readmitted, queue=queue, summary=request.node, profile=GIVE_BACK)
        except ActivityError as error:
            nobody = f"nobody acts on {cluster} now; on the service's host `python -m workers control` (or `up`) does"
            raise ApplicationError(cause_of(error) if type_of(error) else nobody, type=type_of(error) or "Unreadable") from None
        return done.said

    @readmit.validator
    def check_readmit(self, *messages: Any) -> None:
        read_node_request(only(messages, READMIT_FORM))

    @workflow.signal(name=names.ISOLATED, description="Sent by incidents: what has been done to the nodes that were granted")
    def isolated(self, *records: Any) -> None:
        try:
            done = read_record(Isolated, records)
        except Refusal as error:
            workflow.logger.warning("a signal %s tells no isolation: %s", names.ISOLATED, error)
            return
        self.keep(isolations=tuple(with_effects(one, done) for one in self.state.isolations))

    @workflow.signal(name=names.AWAIT_RESUME, description="Sent by incidents that wait for the end of the pause")
    async def await_resume(self, *incidents: Any) -> None:
        incident = incidents[0] if len(incidents) == 1 else None
        if not isinstance(incident, str):
            workflow.logger.warning("a signal %s names no incident", names.AWAIT_RESUME)
        elif not self.state.paused:
            await self.wake(incident)
        elif incident not in self.state.waiting:
            self.keep(waiting=(*self.state.waiting, incident))

    @workflow.query(name=names.GUARD_STATE, description="Pause, grants and the isolation ledger")
    def read_state(self) -> GuardState:
        return self.state

    async def wake(self, incident: str) -> None:
        try:
            await workflow.get_external_workflow_handle(incident).signal(names.RESUMED)
        except Exception as error:  # an incident that was closed meanwhile needs no waking
            workflow.logger.info("incident %s is not woken: %s", incident, error)

    async def note(self, kind: RowKind, request: Request) -> None:
        key = f"{workflow.info().workflow_id}/{workflow.info().run_id}/{kind}/{workflow.uuid4()}"
        ask = NoteAsk(key=key, kind=kind, cluster=self.state.cluster, actor=request.by, text=request.reason, at=workflow.now())
        await say("note", ask, NoneType, queue=names.CONTROL_QUEUE, summary=kind, profile=RECORD)

    def keep(self, **changes: Any) -> None:
        self.state = self.state.model_copy(update=changes)
        self.show()

    def show(self) -> None:
        workflow.set_current_details(guard_page(self.state))


def with_effects(one: Isolation, done: Isolated) -> Isolation:
    """The row of the ledger with what its incident has done."""
    if (one.incident, one.run) != (done.incident, done.run):
        return one
    drained = next((node for node in done.drained if node.name == one.node), one.drained)
    return one.model_copy(update={"excluded": one.node in done.excluded, "restarts": done.restarts, "drained": drained})
