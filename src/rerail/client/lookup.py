"""Looking up: from what a person typed to one workflow, and its answer; a sentence when there is none."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from rerail import names
from rerail.client.find import RUNNING, Sort, checked_id, choose, job_named, sort_of, where
from rerail.client.line import Ended, Line
from rerail.errors import Malformed, NotFound, RerailError
from rerail.records import Incident, JobWatch

T = TypeVar("T")

AT_ONCE = 16
"""Incidents asked at the same time: a worker answers each within milliseconds, and is not flooded."""

LIST_MAX = 1000
"""Workflows in one list: more than a person reads."""

LAG_S = 1.0
"""How far Temporal's list may lag behind: what isn't there is looked for once more after this."""


class Lookup:
    """Finds and asks workflows over one line."""

    def __init__(self, line: Line) -> None:
        self.line = line

    async def ask(self, incident: str) -> Incident:
        return await self.known(incident, self.line.query(incident, names.INCIDENT, Incident))

    async def ask_all(self, incidents: Iterable[str], unread: Callable[[str, RerailError], None]) -> list[Incident]:
        """Each incident that answers; Unreachable when none of the first ones does."""
        ids, answered = list(incidents), list[Incident]()
        for start in range(0, len(ids), AT_ONCE):
            part = ids[start : start + AT_ONCE]
            answers = await asyncio.gather(*(self.ask(i) for i in part), return_exceptions=True)
            errors = [a for a in answers if isinstance(a, BaseException)]
            if errors and len(errors) == len(part) and not isinstance(errors[0], NotFound):
                raise errors[0]
            for name, answer in zip(part, answers, strict=True):
                if isinstance(answer, Incident):
                    answered.append(answer)
                elif not isinstance(answer, RerailError):
                    raise answer
                elif not isinstance(answer, NotFound):  # deleted since the list was made
                    unread(name, answer)
        return answered

    async def incident_meant(self, what: str, cluster: str | None) -> str:
        """The id of the incident that a person means."""
        sort = sort_of(what)
        if sort is Sort.INCIDENT:
            return checked_id(what)
        if sort is Sort.JOB:
            watch = await self.known(what, self.line.query(checked_id(what), names.JOB_STATE, JobWatch))
            if watch.incident:
                return watch.incident
            job = watch.attempt.job
            return await self.job_meant(job.job_id, job.cluster, Sort.INCIDENT)
        if sort:
            raise Malformed(f"{what} is a cluster's and no incident; `rerail pending` lists incidents")
        return await self.job_meant(what, cluster, Sort.INCIDENT)

    async def job_meant(self, text: str, cluster: str | None, *sorts: Sort) -> str:
        """The id of what is known of a job, looked for twice: the list lags behind."""
        job = job_named(text, cluster)
        query = where(*sorts, **{names.SA_JOB: job.job_id, names.SA_CLUSTER: job.cluster})
        found = await self.line.list(query, LIST_MAX)
        if not found:
            await asyncio.sleep(LAG_S)
            found = await self.line.list(query, LIST_MAX)
        if not found:
            await self.refuse_unknown(cluster)
        return choose(found, job)

    async def known(self, what: str, asking: Awaitable[T]) -> T:
        """The answer of one workflow, with its name in the sentence when there is none."""
        try:
            return await asking
        except NotFound as error:
            raise unknown(what) from error

    async def of_cluster(self, cluster: str, asking: Awaitable[T]) -> T:
        """The answer of a cluster's workflow; the clusters that there are, when there is none of that name."""
        try:
            return await asking
        except (NotFound, Ended) as error:
            if type(error) not in (NotFound, Ended):  # no such job: the cluster is there
                raise
            raise await self.no_cluster(cluster) from error

    async def refuse_unknown(self, cluster: str | None) -> None:
        """NotFound for a cluster that nobody watches: an empty list of it would look like good news."""
        if not cluster or cluster in await self.known_clusters():
            return
        await asyncio.sleep(LAG_S)
        if cluster not in await self.known_clusters():
            raise await self.no_cluster(cluster)

    async def no_cluster(self, cluster: str) -> NotFound:
        known = await self.known_clusters()
        if not known:
            return NotFound(
                f"no cluster is watched here; on the service's host `python -m workers up` starts watching {cluster!r}"
            )
        return NotFound(f"no cluster {cluster!r} is watched; known are {', '.join(known)}")

    async def known_clusters(self) -> list[str]:
        return sorted(i.partition("/")[2] for i in await self.ids_of_clusters())

    async def ids_of_clusters(self) -> list[str]:
        found = await self.line.list(where(Sort.CLUSTER, ExecutionStatus=RUNNING), LIST_MAX)
        return [one.id for one in found]


def unknown(what: str) -> NotFound:
    return NotFound(f"there is no {what}, or not any more; `rerail incidents` lists what there is")
