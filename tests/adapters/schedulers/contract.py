"""What every scheduler must do: inherit `SchedulerContract` in a test module that has a fixture `site`.

Jobs steer by files in a folder that all nodes see, so that no test waits for time to pass: a job runs until its file `end` holds
an exit code.
"""

import time
from collections.abc import Callable, Sequence
from datetime import UTC, timedelta
from pathlib import Path
from typing import Protocol, TypeVar

import pytest

from rerail import drains
from rerail.errors import NoSuchJob, Permanent, Refused
from rerail.ports import Scheduler
from rerail.records import Job, JobState, NodeState

T = TypeVar("T")

HOSTILE = (
    "1; touch pwned",
    "$(touch pwned)",
    "-1",
    "0x1",
    "1 2",
    "",
    "../1",
    "1\n2",
    "1\x00",
    "\u0661",
    "--help",
    "9" * 400,
    "all",
)
"""Ids that somebody may type or send."""
OUR_REASON = drains.reason_of("remediate-job/testbed/7/1796083200/1", "gpu_fell_off_bus")
WAITS = 'echo run >> "$0/runs"; while [ ! -s "$0/end" ]; do sleep 0.05; done; exit "$(cat "$0/end")"'
"""Tells that it runs, and ends with the code in its folder's file `end`. `$0` is the folder."""


class Site(Protocol):
    """A scheduler under test, and the ways in that the port does not have."""

    deadline_s: float
    """How long anything may take here."""

    @property
    def scheduler(self) -> Scheduler: ...

    @property
    def nodes(self) -> Sequence[str]:
        """The names of all nodes, at least three, all up and free; jobs get one rank a node."""
        ...

    def drain_by_hand(self, node: str, reason: str) -> None:
        """As an administrator does it."""
        ...

    def submit(self, argv: Sequence[str], *, nodes: int = 1, requeue: bool = True, exclude: Sequence[str] = ()) -> str:
        """Queue a command line as one rank on each of so many nodes."""
        ...


def until(condition: Callable[[], T], deadline_s: float) -> T:
    """The first true value of the condition."""
    deadline = time.monotonic() + deadline_s
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {deadline_s} s; last seen: {value!r}"
        time.sleep(0.02)
    return value


class SchedulerContract:
    """The suite."""

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        made = tmp_path / "steering"
        made.mkdir(mode=0o777)
        return made

    def seen(self, site: Site, job_id: str, wanted: Callable[[Job], bool]) -> Job:
        """A fresh read that is as wanted, within the deadline."""
        last: list[Job] = []

        def look() -> bool:
            last[:] = [site.scheduler.job(job_id)]
            return wanted(last[0])

        try:
            until(look, site.deadline_s)
        except AssertionError as error:
            raise AssertionError(f"{error}; {last}") from None
        return last[0]

    def running(self, site: Site, folder: Path, runs: int = 1) -> Callable[[Job], bool]:
        """The job runs, and its commands were started so many times in all."""
        return lambda job: job.state is JobState.RUNNING and len(started(folder)) >= runs

    def waiting_job(self, site: Site, folder: Path, **options: object) -> Job:
        """A job that runs until it is told to end."""
        job_id = site.submit(["sh", "-c", WAITS, str(folder)], **options)  # type: ignore[arg-type]
        return self.seen(site, job_id, self.running(site, folder))

    def failed_job(self, site: Site, folder: Path, **options: object) -> Job:
        """A job that ended with code 3, and would run until told to end if it were started again."""
        job = self.waiting_job(site, folder, **options)
        (folder / "end").write_text("3")
        ended = self.seen(site, job.job_id, lambda j: j.state.ended and not j.completing)
        (folder / "end").unlink()
        return ended

    # Reading

    def test_it_is_a_scheduler_of_the_port(self, site: Site) -> None:
        assert isinstance(site.scheduler, Scheduler)

    def test_all_nodes_are_there_and_up(self, site: Site) -> None:
        assert {n.name: n.state for n in site.scheduler.nodes()} == dict.fromkeys(site.nodes, NodeState.UP)

    def test_a_job_is_running_on_the_nodes_it_asked_for_and_then_completed(self, site: Site, folder: Path) -> None:
        job = self.waiting_job(site, folder, nodes=2)
        assert len(set(job.nodes)) == job.nodes_needed == 2
        assert set(job.nodes) < set(site.nodes)
        assert (job.restarts, job.batch, job.requeue, job.ended_at) == (0, True, True, None)
        assert job.submitted_at is not None
        assert job.started_at is not None
        assert job.submitted_at.tzinfo == job.started_at.tzinfo == UTC
        (folder / "end").write_text("0")
        ended = self.seen(site, job.job_id, lambda j: j.state.ended)
        assert ended.state is JobState.COMPLETED
        assert ended.nodes == job.nodes
        assert ended.ended_at is not None
        assert ended.ended_at >= job.started_at

    def test_a_command_that_fails_makes_the_job_failed_and_says_until_when_it_can_be_requeued(
        self, site: Site, folder: Path
    ) -> None:
        ended = self.failed_job(site, folder)
        assert ended.state is JobState.FAILED
        assert ended.state.broken
        assert ended.ended_at is not None
        assert ended.requeue_until is not None
        assert ended.requeue_until > ended.ended_at

    def test_a_read_shows_running_and_ended_jobs_just_as_a_read_of_one(self, site: Site, folder: Path, tmp_path: Path) -> None:
        ended = self.failed_job(site, folder)
        running = self.waiting_job(site, folder)
        reading = site.scheduler.read()
        assert reading.cluster == site.scheduler.cluster
        shown = {job.job_id: job for job in reading.jobs}
        for job in (ended, running):
            for field in ("state", "restarts", "nodes", "submitted_at", "started_at", "ended_at", "name", "user"):
                assert getattr(shown[job.job_id], field) == getattr(job, field), field

    def test_reading_changes_nothing(self, site: Site, folder: Path) -> None:
        job = self.waiting_job(site, folder)
        first = [site.scheduler.job(job.job_id), *site.scheduler.read().jobs]
        assert [site.scheduler.job(job.job_id), *site.scheduler.read().jobs] == first

    def test_an_unknown_job_is_named_as_such(self, site: Site) -> None:
        with pytest.raises(NoSuchJob, match="77777"):
            site.scheduler.job("77777")

    @pytest.mark.parametrize("job_id", HOSTILE)
    def test_a_hostile_id_is_refused_by_every_verb_with_one_clean_line(self, site: Site, job_id: str) -> None:
        s = site.scheduler
        for verb in (
            lambda: s.job(job_id),
            lambda: s.requeue(job_id, running=True),
            lambda: s.requeue(job_id, running=False),
            lambda: s.exclude(job_id, []),
            lambda: s.start_now(job_id),
            lambda: s.cancel(job_id),
        ):
            with pytest.raises(Permanent) as refusal:
                verb()
            assert str(refusal.value).isprintable()
            assert 10 < len(str(refusal.value)) < 400

    # Requeue

    def test_a_requeue_of_a_failed_job_is_seen_at_once_and_counted_once(self, site: Site, folder: Path) -> None:
        ended = self.failed_job(site, folder)
        site.scheduler.requeue(ended.job_id, running=False)
        job = site.scheduler.job(ended.job_id)
        assert (job.job_id, job.state, job.restarts, job.held) == (ended.job_id, JobState.PENDING, 1, False)
        assert job.ended_at is None
        assert job.begins_at is not None

    def test_a_requeued_job_starts_by_itself(self, site: Site, folder: Path) -> None:
        ended = self.failed_job(site, folder)
        site.scheduler.requeue(ended.job_id, running=False)
        again = self.seen(site, ended.job_id, self.running(site, folder, runs=2))
        assert again.restarts == 1
        assert len(started(folder)) == 2

    def test_a_running_job_is_ended_before_it_runs_again(self, site: Site, folder: Path) -> None:
        job = self.waiting_job(site, folder, nodes=2)
        site.scheduler.requeue(job.job_id, running=True)
        assert site.scheduler.job(job.job_id).state is JobState.PENDING
        self.seen(site, job.job_id, lambda j: not j.completing)
        site.scheduler.start_now(job.job_id)
        again = self.seen(site, job.job_id, self.running(site, folder, runs=4))
        assert again.restarts == 1
        assert len(started(folder)) == 4

    def test_a_requeue_meant_for_a_running_job_does_nothing_to_one_that_ended(self, site: Site, folder: Path) -> None:
        ended = self.failed_job(site, folder)
        site.scheduler.requeue(ended.job_id, running=True)
        assert site.scheduler.job(ended.job_id).restarts == 0
        assert site.scheduler.job(ended.job_id).state is JobState.FAILED

    def test_a_requeue_meant_for_an_ended_job_does_not_touch_one_that_runs(self, site: Site, folder: Path) -> None:
        job = self.waiting_job(site, folder)
        with pytest.raises(Refused, match=job.job_id):
            site.scheduler.requeue(job.job_id, running=False)
        assert site.scheduler.job(job.job_id).state is JobState.RUNNING
        assert site.scheduler.job(job.job_id).restarts == 0

    @pytest.mark.parametrize("running", [True, False])
    def test_a_pending_job_is_not_requeued_a_second_time(self, site: Site, folder: Path, running: bool) -> None:
        ended = self.failed_job(site, folder)
        site.scheduler.requeue(ended.job_id, running=False)
        with pytest.raises(Refused, match="pending"):
            site.scheduler.requeue(ended.job_id, running=running)
        assert site.scheduler.job(ended.job_id).restarts == 1

    def test_an_owner_who_wants_no_requeue_is_respected(self, site: Site, folder: Path) -> None:
        ended = self.failed_job(site, folder, requeue=False)
        assert not ended.requeue
        with pytest.raises(Refused, match="requeue"):
            site.scheduler.requeue(ended.job_id, running=False)
        assert site.scheduler.job(ended.job_id).restarts == 0

    # Exclusion and start

    def test_excluded_nodes_are_read_back_and_avoided(self, site: Site, folder: Path) -> None:
        ended = self.failed_job(site, folder, nodes=2)
        site.scheduler.requeue(ended.job_id, running=False)
        site.scheduler.exclude(ended.job_id, [ended.nodes[0]])
        assert set(site.scheduler.job(ended.job_id).excluded_nodes) == {ended.nodes[0]}
        site.scheduler.start_now(ended.job_id)
        again = self.seen(site, ended.job_id, self.running(site, folder, runs=4))
        assert ended.nodes[0] not in again.nodes
        assert len(again.nodes) == 2
        assert set(again.excluded_nodes) == {ended.nodes[0]}

    def test_an_exclusion_replaces_the_list_and_an_empty_one_clears_it(self, site: Site, folder: Path) -> None:
        one, two, *_ = site.nodes
        ended = self.failed_job(site, folder, exclude=[one])
        assert ended.excluded_nodes == (one,)
        assert one not in ended.nodes
        site.scheduler.requeue(ended.job_id, running=False)
        assert site.scheduler.job(ended.job_id).excluded_nodes == (one,)
        site.scheduler.exclude(ended.job_id, [two])
        assert site.scheduler.job(ended.job_id).excluded_nodes == (two,)
        site.scheduler.exclude(ended.job_id, [])
        assert site.scheduler.job(ended.job_id).excluded_nodes == ()

    def test_nodes_can_be_excluded_while_the_old_attempt_is_still_being_ended(self, site: Site, folder: Path) -> None:
        job = self.waiting_job(site, folder, nodes=2)
        site.scheduler.requeue(job.job_id, running=True)
        site.scheduler.exclude(job.job_id, [job.nodes[1]])
        assert site.scheduler.job(job.job_id).excluded_nodes == (job.nodes[1],)

    @pytest.mark.parametrize("node", ["nosuchnode", "a b", "; touch pwned", "$(id)", "..", "-x", "x\n", "ALL", "n[1-2]", ""])
    def test_a_wrong_node_name_is_refused_and_the_list_stays(self, site: Site, folder: Path, node: str) -> None:
        ended = self.failed_job(site, folder, exclude=[site.nodes[0]])
        site.scheduler.requeue(ended.job_id, running=False)
        with pytest.raises(Permanent) as refusal:
            site.scheduler.exclude(ended.job_id, [site.nodes[1], node])
        assert str(refusal.value).isprintable()
        assert site.scheduler.job(ended.job_id).excluded_nodes == (site.nodes[0],)

    def test_nodes_of_a_running_job_cannot_be_excluded(self, site: Site, folder: Path) -> None:
        job = self.waiting_job(site, folder)
        with pytest.raises(Refused, match="pending"):
            site.scheduler.exclude(job.job_id, [site.nodes[2]])
        assert site.scheduler.job(job.job_id).excluded_nodes == ()

    def test_a_pending_job_starts_when_its_begin_time_is_taken_away(self, site: Site, folder: Path) -> None:
        ended = self.failed_job(site, folder)
        site.scheduler.requeue(ended.job_id, running=False)
        begins = site.scheduler.job(ended.job_id).begins_at
        site.scheduler.start_now(ended.job_id)
        again = self.seen(site, ended.job_id, self.running(site, folder, runs=2))
        assert begins is not None
        assert again.started_at is not None
        assert again.started_at < begins

    # Cancel

    def test_a_cancelled_job_is_over_and_says_so(self, site: Site, folder: Path) -> None:
        job = self.waiting_job(site, folder, nodes=2)
        site.scheduler.cancel(job.job_id)
        ended = self.seen(site, job.job_id, lambda j: j.state.ended and not j.completing)
        assert ended.state is JobState.CANCELLED
        assert not ended.state.broken

    def test_a_pending_job_can_be_cancelled_and_never_starts(self, site: Site, folder: Path) -> None:
        ended = self.failed_job(site, folder)
        site.scheduler.requeue(ended.job_id, running=False)
        site.scheduler.cancel(ended.job_id)
        cancelled = self.seen(site, ended.job_id, lambda j: j.state.ended)
        assert cancelled.state is JobState.CANCELLED
        assert len(started(folder)) == 1

    def test_cancelling_a_job_that_is_over_changes_nothing(self, site: Site, folder: Path) -> None:
        ended = self.failed_job(site, folder)
        site.scheduler.cancel(ended.job_id)
        assert site.scheduler.job(ended.job_id).state is JobState.FAILED

    # Nodes

    def test_a_drained_node_says_who_drained_it_when_and_why_and_takes_work_again_afterwards(self, site: Site) -> None:
        s, node = site.scheduler, site.nodes[2]
        s.drain(node, OUR_REASON)
        drained = s.node(node)
        assert (drained.name, drained.state, drained.reason, drained.busy) == (node, NodeState.DRAINED, OUR_REASON, False)
        assert drained.reason_by
        assert drained.reason_at is not None
        assert drained.reason_at.tzinfo == UTC
        assert {n.name: n.reason for n in s.nodes() if n.state is NodeState.DRAINED} == {node: OUR_REASON}
        s.resume(node, drained=drained)
        until(lambda: s.node(node).state is NodeState.UP, site.deadline_s)
        assert (s.node(node).reason, s.node(node).reason_by, s.node(node).reason_at) == ("", "", None)
        s.resume(node, drained=drained)  # there is nothing left to end

    def test_a_busy_node_keeps_its_job_when_it_is_drained(self, site: Site, folder: Path) -> None:
        job = self.waiting_job(site, folder)
        site.scheduler.drain(job.nodes[0], OUR_REASON)
        drained = site.scheduler.node(job.nodes[0])
        assert (drained.state, drained.busy) == (NodeState.DRAINED, True)
        assert site.scheduler.job(job.job_id).state is JobState.RUNNING
        site.scheduler.resume(job.nodes[0], drained=drained)

    def test_a_drain_of_somebody_else_is_neither_replaced_nor_ended(self, site: Site) -> None:
        s, node = site.scheduler, site.nodes[2]
        site.drain_by_hand(node, "NHC: fan is loud")
        by_hand = s.node(node)
        with pytest.raises(Refused, match="NHC: fan is loud"):
            s.drain(node, OUR_REASON)
        ours = by_hand.model_copy(update={"reason": OUR_REASON})
        with pytest.raises(Refused, match="drained anew by"):
            s.resume(node, drained=ours)
        assert s.node(node) == by_hand
        s.resume(node)

    def test_a_drain_that_somebody_renewed_in_our_words_is_not_ours_any_more(self, site: Site) -> None:
        s, node = site.scheduler, site.nodes[2]
        s.drain(node, OUR_REASON)
        before = s.node(node)
        assert before.reason_at is not None
        with pytest.raises(Refused, match="drained anew by"):
            s.resume(node, drained=before.model_copy(update={"reason_at": before.reason_at - timedelta(seconds=1)}))
        assert s.node(node) == before
        s.resume(node)

    @pytest.mark.parametrize("node", ["nosuchnode", "a b", "; touch pwned", "$(id)", "..", "-x", "x\n", "ALL", "n[1-2]", ""])
    def test_a_node_that_is_none_is_refused_by_every_verb_with_one_clean_line(self, site: Site, node: str) -> None:
        s = site.scheduler
        for verb in (lambda: s.node(node), lambda: s.drain(node, OUR_REASON), lambda: s.resume(node)):
            with pytest.raises(Permanent) as refusal:
                verb()
            assert str(refusal.value).isprintable()
            assert 10 < len(str(refusal.value)) < 400

    @pytest.mark.parametrize("reason", ["", " ", "two\nlines", "\x1b[31m", "x" * 300])
    def test_a_reason_that_is_none_is_refused(self, site: Site, reason: str) -> None:
        with pytest.raises(Refused, match="reason"):
            site.scheduler.drain(site.nodes[2], reason)
        left = site.scheduler.node(site.nodes[2])  # up, or on its way up after an earlier test's drain
        assert (left.state is NodeState.DRAINED, left.reason) == (False, "")

    def test_we_may_drain_here(self, site: Site) -> None:
        assert site.scheduler.cannot_drain() == ""

    # Comment

    @pytest.mark.parametrize(
        "comment", ['{"APS": {"max_requeue_times": 3}, "rerail_says": "a \\"b\\""}', "x=y; $(id) `id` 'q'", "ü"]
    )
    def test_a_comment_is_read_back_as_it_was_written(self, site: Site, folder: Path, comment: str) -> None:
        job = self.waiting_job(site, folder)
        site.scheduler.annotate(job.job_id, comment, instead_of="")
        assert site.scheduler.job(job.job_id).comment == comment

    def test_a_comment_that_changed_meanwhile_is_not_replaced(self, site: Site, folder: Path) -> None:
        job = self.waiting_job(site, folder)
        site.scheduler.annotate(job.job_id, "its owner's", instead_of="")
        with pytest.raises(Refused, match="changed meanwhile"):
            site.scheduler.annotate(job.job_id, "ours", instead_of="")
        assert site.scheduler.job(job.job_id).comment == "its owner's"

    def test_the_comment_of_a_job_that_has_ended_stays(self, site: Site, folder: Path) -> None:
        ended = self.failed_job(site, folder)
        with pytest.raises(Refused):
            site.scheduler.annotate(ended.job_id, "too late", instead_of="")
        assert site.scheduler.job(ended.job_id).comment == ""


def started(folder: Path) -> list[str]:
    """One line for each start of a waiting job's command."""
    runs = folder / "runs"
    return runs.read_text().splitlines() if runs.exists() else []
