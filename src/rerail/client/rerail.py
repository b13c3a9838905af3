"""Rerail: what an engineer or a program can ask for."""

import asyncio
import getpass
import logging
import socket
from collections.abc import Callable
from typing import TypeVar

from temporalio.client import Client, WorkflowFailureError

from rerail import names
from rerail.client.answer import Answer
from rerail.client.connection import CONNECT_FOR_S, connect
from rerail.client.deciding import Desk
from rerail.client.find import QUERIES, RUNNING, Explanation, Sort, checked_id, sort_of, where
from rerail.client.line import ANSWER_S, PATIENCE_S, Line
from rerail.client.lookup import LIST_MAX, Lookup
from rerail.client.past import unfinished
from rerail.errors import Malformed, NotYet, RerailError
from rerail.records import ClusterState, GuardState, Incident, Outcome, Stage, Verb
from rerail.requests import read_decision, read_job_request, read_node_request, read_request

T = TypeVar("T")

log = logging.getLogger("rerail.client")

LOOK_S = 1.0
"""How often `wait` looks at the stage, when somebody wants to see it move."""

WAIT_PATIENCE_S = 180.0
"""How long `wait` bears a server that is away: restarts and fail-overs end within minutes, and the story goes on meanwhile."""

UNREAD = "%s can't be shown: %s"


def tell_log(incident: str, error: RerailError) -> None:
    """What is done about an incident that could not be asked, unless the caller wants something else."""
    log.warning(UNREAD, incident, error)


class Rerail:
    """One connection to rerail. All methods raise errors of `rerail.errors`, each with one sentence and the next step:

    Malformed (what was asked can't be understood), NotFound, Refused (closed, decided already, another plan), Unreachable
    (Temporal or its workers), NotYet (`wait` ran out of time), Misconfigured (settings or rights).

        rerail = await Rerail.connect()
        for incident in await rerail.pending():
            await rerail.approve(incident.id, reason="the GPU is gone", plan=incident.plan.id)
    """

    def __init__(
        self, client: Client, *, by: str | None = None, patience_s: float = PATIENCE_S, answer_s: float = ANSWER_S
    ) -> None:
        """`by` is the name on decisions (default: the login name); `patience_s` bounds how long a server that is away is waited
        for, `answer_s` how long a worker may take to answer."""
        self.client = client
        self.by = by or ""
        self.line = Line(client, patience_s, answer_s)
        self.lookup = Lookup(self.line)

    @classmethod
    async def connect(
        cls,
        address: str | None = None,
        namespace: str | None = None,
        profile: str | None = None,
        config_file: str | None = None,
        *,
        by: str | None = None,
        api_key: str | None = None,
        timeout_s: float = CONNECT_FOR_S,
    ) -> "Rerail":
        """A connection by Temporal's own profiles and environment; see `connect`. Temporal records `by@host` as identity."""
        name = by or login()
        identity = f"{name or 'unknown'}@{socket.gethostname()}"
        client = await connect(address, namespace, profile, config_file, api_key=api_key, identity=identity, timeout_s=timeout_s)
        return cls(client, by=name)

    # Clusters

    async def clusters(self) -> list[ClusterState]:
        """The clusters that are watched, by name: jobs known, when they were last read, and whether they are blind."""
        found = [await self.line.query(i, *QUERIES[Sort.CLUSTER]) for i in await self.lookup.ids_of_clusters()]
        return sorted(found, key=lambda state: str(state.cluster))

    async def guard(self, cluster: str) -> GuardState:
        """Pause, grants and isolated nodes of a cluster."""
        return await self.lookup.of_cluster(
            cluster, self.line.query(names.guard_cluster_id(named(cluster)), names.GUARD_STATE, GuardState)
        )

    async def pause(self, cluster: str, reason: str, by: str | None = None) -> str:
        """Nothing more is done to that cluster, by anyone, until `resume`. One sentence says what holds now."""
        return await self.tell_guard(names.PAUSE, cluster, reason, by)

    async def resume(self, cluster: str, reason: str, by: str | None = None) -> str:
        """The end of a pause: incidents that waited for it go on."""
        return await self.tell_guard(names.RESUME, cluster, reason, by)

    async def readmit(self, cluster: str, node: str, reason: str, by: str | None = None) -> str:
        """Give an isolated node back: our own drain of it ends, where nobody touched it since, and jobs that wait may use it
        again. What others drained or excluded stays. Refused where rerail isolated no such node."""
        said = {"node": node, "by": self.name(by), "reason": reason}
        request = understood(lambda: read_node_request(said))
        asking = self.line.update(names.guard_cluster_id(named(cluster)), names.READMIT, request, str)
        return await self.lookup.of_cluster(cluster, asking)

    async def tell_guard(self, message: str, cluster: str, reason: str, by: str | None) -> str:
        request = understood(lambda: read_request({"by": self.name(by), "reason": reason}))
        return await self.lookup.of_cluster(
            cluster, self.line.update(names.guard_cluster_id(named(cluster)), message, request, str)
        )

    # Jobs

    async def watch(self, cluster: str, job_id: str) -> str:
        """Have a job watched, in scope or not; the workflow id of its watcher."""
        request = understood(lambda: read_job_request({"job_id": job_id}))
        return await self.lookup.of_cluster(
            cluster, self.line.update(names.watch_cluster_id(named(cluster)), names.WATCH, request, str)
        )

    async def remediate(self, cluster: str, job_id: str, reason: str, by: str | None = None) -> str:
        """Have a job looked into now; the incident's id. In monitor mode the plan waits for approval like any other."""
        request = understood(lambda: read_job_request({"job_id": job_id, "by": self.name(by), "reason": reason}))
        asking = self.line.update(names.watch_cluster_id(named(cluster)), names.REMEDIATE, request, str)
        return await self.lookup.of_cluster(cluster, asking)

    # Incidents

    async def pending(
        self, cluster: str | None = None, *, unread: Callable[[str, RerailError], None] = tell_log
    ) -> list[Incident]:
        """What waits for a person, the longest wait first. `unread` hears of each that could not be asked."""
        waiting = {"ExecutionStatus": RUNNING, names.SA_STAGE: Stage.AWAITING_APPROVAL.value, names.SA_CLUSTER: cluster}
        found = await self.line.list(where(Sort.INCIDENT, **waiting), LIST_MAX)
        if not found:
            await self.lookup.refuse_unknown(cluster)
        asked = await self.lookup.ask_all((one.id for one in found), unread)
        still = [i for i in asked if i.stage is Stage.AWAITING_APPROVAL and i.decided is None]  # the list may lag behind
        return sorted(still, key=lambda i: i.waiting_since or i.anomaly.seen_at)

    async def incidents(
        self,
        cluster: str | None = None,
        job_id: str | None = None,
        *,
        most: int = 20,
        unread: Callable[[str, RerailError], None] = tell_log,
    ) -> list[Incident]:
        """Incidents, open ones first, then the last closed ones."""
        query = where(Sort.INCIDENT, **{names.SA_CLUSTER: cluster, names.SA_JOB: job_id})
        found = await self.line.list(query, min(most, LIST_MAX))
        if not found:
            await self.lookup.refuse_unknown(cluster)
        return await self.lookup.ask_all(dict.fromkeys(one.id for one in found), unread)

    async def incident(self, what: str, cluster: str | None = None) -> Incident:
        """One incident by its id, by its job's watcher, or by job id."""
        return await self.lookup.ask(await self.lookup.incident_meant(what, cluster))

    async def explain(self, what: str, cluster: str | None = None) -> Explanation:
        """What is known: of an incident, a job, a cluster or its guard, by any id; of a job id, its open incident comes first."""
        sort = sort_of(what)
        if sort is None and not cluster and what in await self.lookup.known_clusters():
            what, sort = names.watch_cluster_id(what), Sort.CLUSTER
        if sort is None:
            what = await self.lookup.job_meant(what, cluster, Sort.INCIDENT, Sort.JOB)
            sort = sort_of(what)
        assert sort
        explanation: Explanation = await self.lookup.known(what, self.line.query(checked_id(what), *QUERIES[sort]))
        return explanation

    async def approve(
        self,
        what: str,
        reason: str,
        *,
        by: str | None = None,
        plan: str | None = None,
        cluster: str | None = None,
        fallback: bool = False,
        drain: bool = False,
    ) -> Answer:
        """Let the plan be carried out. The approval holds for one plan alone: `plan`, else the one proposed at this moment.
        A drain in the plan is done only with `drain`.

        `fallback` sends it as a signal when no worker answers: Temporal keeps that until one returns, but can't refuse it.
        Refused when the incident has ended, was decided, or proposes another plan by now.
        """
        return await self.decide(Verb.APPROVE, what, reason, by=by, plan=plan, cluster=cluster, fallback=fallback, drain=drain)

    async def reject(
        self,
        what: str,
        reason: str,
        *,
        by: str | None = None,
        plan: str | None = None,
        cluster: str | None = None,
        fallback: bool = False,
    ) -> Answer:
        """Have nothing done, whatever the plan is (or only this one, when `plan` is given). The rest is as with `approve`."""
        return await self.decide(Verb.REJECT, what, reason, by=by, plan=plan, cluster=cluster, fallback=fallback)

    async def wait(
        self,
        what: str,
        timeout_s: float | None = None,
        *,
        cluster: str | None = None,
        seen: Callable[[Incident], None] | None = None,
    ) -> Outcome:
        """How an incident ends. `seen` is called at the start and at every new stage. NotYet after `timeout_s` seconds."""
        incident = await self.lookup.incident_meant(what, cluster)
        handle = self.client.get_workflow_handle(incident, result_type=Outcome)
        looking = asyncio.create_task(self.look(incident, seen)) if seen else None
        try:
            async with asyncio.timeout(timeout_s):
                outcome: Outcome = await self.lookup.known(incident, self.line.call(handle.result, patience_s=WAIT_PATIENCE_S))
        except TimeoutError:
            raise NotYet(
                f"{incident} has not ended within {timeout_s:g} s; `rerail explain {incident}` says where it stands"
            ) from None
        except WorkflowFailureError as error:
            return unfinished(error)
        finally:
            if looking:
                looking.cancel()
        return outcome

    # Within

    async def decide(
        self,
        verb: Verb,
        what: str,
        reason: str,
        *,
        by: str | None,
        plan: str | None,
        cluster: str | None,
        fallback: bool,
        drain: bool = False,
    ) -> Answer:
        said = {"verdict": verb.value, "reason": reason, "by": self.name(by), "plan": plan or "", "drain": drain}
        decision = understood(lambda: read_decision(said))
        incident = await self.lookup.incident_meant(what, cluster)
        return await Desk(self.line, self.lookup).decide(incident, decision, fallback=fallback)

    async def look(self, incident: str, seen: Callable[[Incident], None]) -> None:
        """Tell of every stage; what can't be asked now is asked again."""
        last: Stage | None = None
        while last is not Stage.CLOSED:
            try:
                state = await self.lookup.ask(incident)
            except RerailError as error:
                log.debug(UNREAD, incident, error)
            else:
                if state.stage is not last:
                    seen(state)
                last = state.stage
            await asyncio.sleep(LOOK_S)

    def name(self, by: str | None) -> str:
        return by or self.by or login()


def login() -> str:
    """The login name; empty where the system has none for this user."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def named(cluster: str) -> str:
    """A cluster's name that can stand in an id."""
    if not cluster or not cluster.isprintable() or len(cluster) > 100 or "/" in cluster:
        raise Malformed("that is no name of a cluster: `rerail clusters` lists them")
    return cluster


def understood(read: Callable[[], T]) -> T:
    """What a person sent, judged as the workflow would judge it."""
    try:
        return read()
    except ValueError as error:
        raise Malformed(str(error)) from None
