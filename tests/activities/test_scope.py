"""Which jobs are ours to watch: by partition, account, user, QOS and name, and not those that their owner has switched off."""

from datetime import UTC, datetime
from typing import Any

import pytest

from activities.asks import SurveyAsk
from activities.scope import Scope
from activities.watching import compare
from rerail.records import Job, JobState, Reading

AT = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)


def job(**more: Any) -> Job:
    said: dict[str, Any] = {"partition": "gpu-a", "account": "nlp", "user": "ada", "qos": "high", "name": "llama-7b"}
    return Job(cluster="alpha", job_id="7", state=JobState.RUNNING, submitted_at=AT, started_at=AT, **(said | more))


@pytest.mark.parametrize("field", ["partitions", "accounts", "users", "qos", "names"])
def test_each_list_takes_by_pattern_and_an_empty_one_takes_all(field: str) -> None:
    value = {"partitions": "gpu-*", "accounts": "n?p", "users": "ada", "qos": "hi*", "names": "llama-[0-9]b"}[field]
    assert Scope().holds(job())
    assert Scope(**{field: (value,)}).holds(job())
    assert Scope(**{field: ("other", value)}).holds(job())
    assert not Scope(**{field: ("other",)}).holds(job())
    assert not Scope(**{field: (value.upper(),)}).holds(job())


def test_every_list_has_to_take_the_job() -> None:
    assert not Scope(users=("ada",), qos=("low",)).holds(job())


def survey(comment: str, **more: Any) -> Any:
    reading = Reading(cluster="alpha", read_at=AT, jobs=(job(comment=comment),))
    return compare(SurveyAsk(cluster="alpha", **more), reading, Scope())


def test_a_job_that_its_owner_switched_off_is_not_watched_and_one_to_be_left_alone_is() -> None:
    assert [one.job.job_id for one in survey("").appeared] == ["7"]
    assert survey('{"rerail": {"off": true}}').appeared == ()
    assert len(survey('{"rerail": {"leave": "mine"}}').appeared) == 1


def test_switched_off_later_it_is_gone_and_switched_on_again_it_is_back() -> None:
    known = {"7": survey("").appeared[0]}
    assert survey('{"rerail": {"off": true}}', known=known).gone == ("7",)
    assert len(survey("").appeared) == 1
