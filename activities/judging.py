"""What happened, and what is proposed: evidence gathered, attributed, and turned into a plan, each kept in the audit trail."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.asks import ExamineAsk, Examined, ProposeAsk, Proposed, RecheckAsk, Rechecked
from activities.evidence import SCRIPT, Sources, collect
from activities.pulse import pulse
from activities.requeued import who_requeued
from activities.rows import row
from policies.circumstances import Circumstances
from policies.draining import may_drain
from policies.facts import gather, taken_over, why_void
from policies.owners import owner_of
from policies.permits import Permits
from policies.plan import plan
from policies.wishes import wishes
from rerail.attribution import attribute
from rerail.case import read_case
from rerail.dialect import Dialect
from rerail.errors import Permanent
from rerail.ports import Audit
from rerail.readers import progress
from rerail.records import Anomaly, Attempt, Drain, Facts, Kind, Mode, Record, Role, RowKind, Verdict

SIGNS_IN = 1 << 20
"""Bytes of a log's beginning, and of its end, in which signs of a second owner are looked for."""

LINES_TOLD, LINE_TOLD_CHARS, UNKNOWNS_TOLD = 5, 200, 3
"""What of a verdict rides in an incident's history: as much as its page shows."""

UNKNOWNS_MAX = 8
"""Of a thousand nodes whose kernel logs can't be had, a few are enough to tell."""


class Terms(Record):
    """What a cluster's settings say about asking."""

    mode: Mode = Mode.MONITOR
    expires_s: float = 1800
    remind_s: float = 1200
    permits: Permits = Permits()
    drain: Drain = Drain.NEVER
    comment: bool = False
    """Whether the verdict is written into the job's comment."""


@contextmanager
def permanent_is_final() -> Iterator[None]:
    """What no retry can heal fails the activity at once, with its sentence."""
    try:
        yield
    except Permanent as error:
        raise ApplicationError(str(error), type=type(error).__name__, non_retryable=True) from error


@dataclass(frozen=True)
class Judging:
    """Activities that read the cluster and judge what they read; they change nothing in it."""

    sources: Mapping[str, Sources]
    terms: Mapping[str, Terms]
    audit: Audit
    bundles: Path
    dialects: Mapping[str, Dialect] = field(default_factory=dict)

    @activity.defn
    async def examine(self, ask: ExamineAsk) -> Examined:
        """Copy the evidence, then say what it is evidence of."""
        async with pulse():
            return await asyncio.to_thread(self.judge, ask)

    def judge(self, ask: ExamineAsk) -> Examined:
        attempt = ask.anomaly.attempt
        sources = self.sources[attempt.job.cluster]
        folder = self.bundles / str(attempt) / f"{ask.revision}-{ask.run[:8]}"  # a later incident of the attempt keeps its own
        self.keep_detection(ask)
        with permanent_is_final():
            bundle = collect(sources, ask.anomaly, folder)
        dialect = self.dialects.get(attempt.job.cluster, Dialect())
        verdict = attribute(read_case(folder, dialect.rows, dialect.steps), hint=hint(ask.anomaly))
        verdict = verdict.model_copy(update={"unknowns": (*verdict.unknowns, *bundle.missing)[:UNKNOWNS_MAX]})
        self.keep_verdict(ask, verdict)
        log = folder / "job.log"
        story = progress.summary(log.read_bytes() if log.exists() else b"", dialect.steps)
        return Examined(
            verdict=brief(verdict),
            bundle=str(folder),
            places=bundle.ends,
            last_step=latest(ask.anomaly.last_step, story.highest_step),
            checkpoint_step=latest(ask.anomaly.checkpoint_step, *story.checkpoints, story.resumed_step),
        )

    @activity.defn
    async def propose(self, ask: ProposeAsk) -> Proposed:
        """Read the facts that a plan relies on, and make the plan that policy allows."""
        async with pulse():
            return await asyncio.to_thread(self.make_plan, ask)

    def make_plan(self, ask: ProposeAsk) -> Proposed:
        attempt = ask.anomaly.attempt
        terms = self.terms[attempt.job.cluster]
        now = datetime.now(UTC)
        facts = self.all_facts(ask, now)
        script = Path(ask.bundle, SCRIPT) if ask.bundle else None
        around = Circumstances(
            anomaly=ask.anomaly,
            facts=facts,
            history=ask.history,
            mode=terms.mode,
            drain=terms.drain,
            now=now,
            permits=terms.permits,
            script=str(script) if script and script.exists() else "",
        )
        made = plan(ask.verdict, around)
        text = made.refusal or ", then ".join(" ".join([s.kind, *s.nodes]) for s in made.steps)
        body = made.model_dump(mode="json")
        step = f"plan-{ask.revision}"
        text = f"{made.rule}: {text}"
        self.audit.append(row(ask.run, step, RowKind.PLAN, attempt, text, body=body))
        told = wishes(facts.job.comment).told
        return Proposed(plan=made, expires_s=terms.expires_s, remind_s=terms.remind_s, notes=told, comment=terms.comment)

    @activity.defn
    async def recheck(self, ask: RecheckAsk) -> Rechecked:
        """Read the facts again; `void` says in a sentence why an approval given for the earlier ones no longer holds."""
        async with pulse():
            facts = await asyncio.to_thread(self.facts, ask.attempt, datetime.now(UTC), ask.anomaly)
        return Rechecked(
            owner=taken_over(ask.attempt, facts),
            void=why_void(ask.plan, ask.attempt, facts),
            running=not facts.job.state.ended,
            nodes_needed=facts.job.nodes_needed,
            nodes_eligible=len({*facts.eligible_nodes, *ask.plan.excluded}),
            listed=tuple(n for n in ask.plan.excluded if n in facts.job.excluded_nodes),
        )

    def facts(self, attempt: Attempt, now: datetime, anomaly: Anomaly | None) -> Facts:
        """What changes while a person is asked."""
        sources = self.sources[attempt.job.cluster]
        with permanent_is_final():
            job = sources.scheduler.job(attempt.job.job_id)
            facts = gather(job, sources.scheduler.nodes(), now)
            by = who_requeued(sources.scheduler, sources.logs, job, attempt, anomaly.ran_on if anomaly else "")
            waiting = set(anomaly.dependants if anomaly else ())
            freed = tuple(j for j in sources.scheduler.read().jobs if j.job_id in waiting) if waiting else ()
        return facts.model_copy(update={"requeued_by": by, "dependants": freed})

    def all_facts(self, ask: ProposeAsk, now: datetime) -> Facts:
        """The same, and who else restarts this job, told by its script, its log, the site's settings and the queue."""
        attempt = ask.anomaly.attempt
        facts = self.facts(attempt, now, ask.anomaly)
        scheduler = self.sources[attempt.job.cluster].scheduler
        with permanent_is_final():
            owner = owner_of(
                facts.job,
                script=text_of(Path(ask.bundle, SCRIPT)) if ask.bundle else "",
                log=text_of(Path(ask.bundle, "job.log")) if ask.bundle else "",
                habits=scheduler.habits(),
                queue=scheduler.read().jobs,
                history=ask.history,
            )
            cannot_drain = scheduler.cannot_drain() if may_drain(self.terms[attempt.job.cluster].drain, ask.verdict) else ""
        return facts.model_copy(update={"owner": owner, "cannot_drain": cannot_drain})

    def keep_detection(self, ask: ExamineAsk) -> None:
        anomaly = ask.anomaly
        text = f"{anomaly.kind} seen by {anomaly.detector}: {anomaly.why}"
        step = f"detected-{ask.revision}"
        body = anomaly.model_dump(mode="json")
        self.audit.append(
            row(
                ask.run,
                step,
                RowKind.DETECTED,
                anomaly.attempt,
                text,
                body=body,
                at=anomaly.seen_at,
            )
        )

    def keep_verdict(self, ask: ExamineAsk, verdict: Verdict) -> None:
        text = f"{verdict.kind}, {verdict.fault}: {verdict.why}"
        step = f"verdict-{ask.revision}"
        body = verdict.model_dump(mode="json")
        attempt = ask.anomaly.attempt
        self.audit.append(row(ask.run, step, RowKind.VERDICT, attempt, text, body=body))


def text_of(path: Path) -> str:
    """The beginning and the end of a file of the bundle; empty where there is none."""
    if not path.exists():
        return ""
    with path.open("rb") as file:
        said = file.read(SIGNS_IN)
        file.seek(max(len(said), path.stat().st_size - SIGNS_IN))
        return (said + b"\n" + file.read(SIGNS_IN)).decode("utf-8", "replace")


def hint(anomaly: Anomaly) -> Kind | None:
    """What the detector saw; a person's request says nothing of it."""
    return None if anomaly.kind is Kind.NONE else anomaly.kind


def brief(verdict: Verdict) -> Verdict:
    """What a reader of the history needs of a verdict: all of it is in the audit trail, and to be had of the bundle."""
    told = sorted(verdict.evidence, key=lambda line: line.role is not Role.ROOT)[:LINES_TOLD]
    evidence = tuple(line.model_copy(update={"text": line.text[:LINE_TOLD_CHARS]}) for line in verdict.evidence if line in told)
    return verdict.model_copy(update={"evidence": evidence, "unknowns": verdict.unknowns[:UNKNOWNS_TOLD]})


def latest(*steps: int | None) -> int | None:
    """The highest of the steps that are known."""
    return max((s for s in steps if s is not None), default=None)
