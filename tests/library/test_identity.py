"""Which job and which attempt a record is: a requeue resets the submit time, ids wrap, counters jump."""

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as some

from rerail import names
from rerail.identity import attempt_one, is_another, sight
from rerail.records import Attempt, Job, JobState

T0 = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)


def at(minutes: float) -> datetime:
    return T0 + timedelta(minutes=minutes)


def job(**more: Any) -> Job:
    said = {"cluster": "alpha", "job_id": "41001", "state": JobState.RUNNING, "submitted_at": at(0), "started_at": at(1)}
    return Job(**(said | more))


FIRST = attempt_one(job(), at(2))


def test_a_job_is_named_by_its_submit_time_at_first_sight() -> None:
    assert str(FIRST) == f"alpha/41001/{int(T0.timestamp())}/1"
    assert names.watch_job_id(FIRST.job) == f"watch-job/alpha/41001/{int(T0.timestamp())}"
    assert names.remediate_job_id(FIRST) == f"remediate-job/alpha/41001/{int(T0.timestamp())}/1"


def test_a_job_without_a_submit_time_is_named_by_the_moment_of_its_first_sight() -> None:
    found = attempt_one(job(submitted_at=None), at(5) + timedelta(milliseconds=700))
    assert found.job.submitted_at == at(5)
    assert sight(job(submitted_at=None), found, at(9)) == found


def test_the_same_record_is_the_same_attempt() -> None:
    assert sight(job(), FIRST, at(3)) == FIRST
    assert sight(job(state=JobState.FAILED, ended_at=at(4)), FIRST, at(5)) == FIRST


def test_a_requeue_resets_the_submit_time_and_is_the_next_attempt_of_the_same_job() -> None:
    waits = sight(job(state=JobState.PENDING, submitted_at=at(10), started_at=None, restarts=1), FIRST, at(10))
    assert (waits.job, waits.number, waits.restarts) == (FIRST.job, 2, 1)
    runs = sight(job(submitted_at=at(10), started_at=at(11), restarts=1), waits, at(11))
    assert (runs.job, runs.number, runs.started_at) == (FIRST.job, 2, at(11))
    assert names.remediate_job_id(runs) != names.remediate_job_id(FIRST)


def test_restarts_that_were_not_seen_are_counted() -> None:
    assert sight(job(submitted_at=at(30), started_at=at(31), restarts=3), FIRST, at(31)).number == 4


def test_a_new_start_with_the_same_counter_is_a_new_attempt() -> None:
    again = sight(job(started_at=at(8)), FIRST, at(8))
    assert (again.job, again.number, again.restarts) == (FIRST.job, 2, 0)


def test_a_job_first_seen_in_the_queue_starts_as_the_same_attempt() -> None:
    waits = attempt_one(job(state=JobState.PENDING, started_at=None), at(0))
    runs = sight(job(), waits, at(1))
    assert (runs.number, runs.started_at) == (1, at(1))


def test_an_id_that_wraps_is_another_job() -> None:
    new = job(submitted_at=at(9000), started_at=at(9001))
    assert is_another(new, FIRST)
    found = sight(new, FIRST, at(9001))
    assert (found.number, found.job.submitted_at) == (1, at(9000))
    assert names.watch_job_id(found.job) != names.watch_job_id(FIRST.job)


def test_a_counter_that_falls_is_another_job() -> None:
    third = sight(job(submitted_at=at(10), started_at=at(11), restarts=2), FIRST, at(11))
    assert is_another(job(submitted_at=at(9000), restarts=0), third)
    assert is_another(job(submitted_at=at(9000), restarts=1), third)


def test_a_record_that_lost_its_times_is_still_the_same_attempt() -> None:
    assert sight(job(submitted_at=None, started_at=None), FIRST, at(9)) == FIRST


TIMES = some.none() | some.integers(0, 500).map(at)
RECORDS = some.builds(
    lambda restarts, submitted, started: job(restarts=restarts, submitted_at=submitted, started_at=started),
    some.integers(0, 5),
    TIMES,
    TIMES,
)


@given(some.lists(RECORDS, min_size=1, max_size=12))
def test_whatever_records_come_attempts_of_a_job_only_go_up(records: list[Job]) -> None:
    known: Attempt | None = None
    for number, record in enumerate(records):
        found = sight(record, known, at(600 + number))
        if known is not None and not is_another(record, known):
            assert found.job == known.job
            assert found.number >= known.number
            assert found.restarts == max(record.restarts, known.restarts)
        else:
            assert found.number == 1
        assert sight(record, found, at(900)) == found, "a second look at the same record changes nothing"
        known = found


@given(some.lists(some.tuples(some.integers(1, 3), some.integers(1, 60)), min_size=1, max_size=8))
def test_each_seen_requeue_is_one_more_attempt_of_the_one_job(requeues: list[tuple[int, int]]) -> None:
    known, clock, restarts = FIRST, 1, 0
    for more, minutes in requeues:
        clock, restarts = clock + minutes + 1, restarts + more
        known = sight(job(restarts=restarts, submitted_at=at(clock), started_at=at(clock + 0.5)), known, at(clock + 1))
    assert known.job == FIRST.job
    assert known.number == 1 + restarts
