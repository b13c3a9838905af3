"""Our line in a job's comment: over what was read and nothing else, given up rather than forced. On a cluster on paper."""

from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from temporalio.testing import ActivityEnvironment

from activities.acting import Acting
from activities.asks import AnnotateAsk, Annotated
from rerail.errors import OutcomeUnknown, Refused
from rerail.records import Attempt, GuardState, JobKey, JobState
from tests.activities.paper import PaperAudit, PaperScheduler, failed_job

AT = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
ATTEMPT = Attempt(job=JobKey(cluster="alpha", job_id="41001", submitted_at=AT), number=1)
ASK = AnnotateAsk(run="r", step="annotate-1", attempt=ATTEMPT, word="crash on gpu-02")
OWNERS = '{"APS": {"max_requeue_times": 3}}'
BOTH = '{"APS": {"max_requeue_times": 3}, "rerail_says": "crash on gpu-02"}'


class Guard:
    """A guard of a cluster that is not paused."""

    def get_workflow_handle(self, _: str) -> Any:
        async def query(*_: Any, **__: Any) -> GuardState:
            return GuardState(cluster="alpha")

        return SimpleNamespace(query=query)


def waiting(**more: Any) -> PaperScheduler:
    return PaperScheduler({"41001": failed_job(**({"state": JobState.PENDING, "comment": OWNERS} | more))})


async def annotated(scheduler: PaperScheduler, audit: PaperAudit | None = None) -> Annotated:
    acting = Acting({"alpha": scheduler}, audit or PaperAudit(), Guard())  # type: ignore[arg-type]
    made: Annotated = await ActivityEnvironment().run(acting.annotate, ASK)
    return made


def first(action: Callable[[], None], verb: str = "annotate") -> Callable[[str], None]:
    """Before the first call of that verb, and never again."""
    left = [action]

    def before(called: str) -> None:
        if called == verb and left:
            left.pop()()

    return before


def raising(error: Exception) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


async def test_our_line_stands_beside_the_owners_words_and_is_in_the_audit_once() -> None:
    scheduler, audit = waiting(), PaperAudit()
    assert await annotated(scheduler, audit) == Annotated()
    assert await annotated(scheduler, audit) == Annotated()
    assert scheduler.jobs["41001"].comment == BOTH
    assert len(scheduler.commands) == len(audit.kept) == 1


async def test_what_the_owner_writes_in_between_is_kept() -> None:
    scheduler = waiting()
    scheduler.before = first(lambda: scheduler.change("41001", comment="new words"))
    assert await annotated(scheduler) == Annotated()
    assert scheduler.jobs["41001"].comment == 'new words {"rerail_says": "crash on gpu-02"}'


async def test_an_unknown_outcome_is_looked_at() -> None:
    scheduler = waiting()
    scheduler.before = first(raising(OutcomeUnknown("no answer")))
    assert await annotated(scheduler) == Annotated()
    assert scheduler.jobs["41001"].comment == BOTH


async def test_what_the_scheduler_refuses_is_told_and_not_forced() -> None:
    scheduler = waiting()

    def before(verb: str) -> None:
        if verb == "annotate":
            raise Refused("no right to it")

    scheduler.before = before
    assert await annotated(scheduler) == Annotated(why_not="no right to it")


async def test_a_job_that_has_ended_a_full_comment_and_a_job_that_is_gone_are_told() -> None:
    assert "the job is failed" in (await annotated(waiting(state=JobState.FAILED))).why_not
    assert "no room" in (await annotated(waiting(comment="x" * 1020))).why_not
    assert "does not know job" in (await annotated(PaperScheduler({}))).why_not
