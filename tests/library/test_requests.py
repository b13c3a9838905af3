"""Messages that people type: any JSON is read or refused with a sentence, and nothing unprintable gets through."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from rerail.records import Decision, GrantAsk, Verb
from rerail.requests import (
    DECISION_FORM,
    PLAN_MAX,
    TEXT_MAX,
    Refusal,
    only,
    read_decision,
    read_job_request,
    read_record,
    read_request,
)

GOOD: dict[str, Any] = {"verdict": "approve", "reason": "seen it", "by": "ada"}


def test_a_decision_is_read_with_or_without_the_plan_it_is_for() -> None:
    assert read_decision(GOOD) == Decision(verdict=Verb.APPROVE, reason="seen it", by="ada")
    assert read_decision(GOOD | {"plan": " 1a2b "}).plan == "1a2b"
    assert read_decision({"reason": "x", "by": "y"}, Verb.REJECT).verdict is Verb.REJECT
    assert read_decision(read_decision(GOOD)) == read_decision(GOOD)


def test_a_signals_name_wins_over_what_its_text_says() -> None:
    assert read_decision(GOOD, Verb.REJECT).verdict is Verb.REJECT


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        (None, "a JSON object is needed, not NoneType"),
        ([GOOD], "a JSON object is needed, not list"),
        ("approve", "a JSON object is needed, not str"),
        (GOOD | {"verdict": "yes"}, 'verdict has to be "approve" or "reject"'),
        (GOOD | {"verdict": ["approve"]}, 'verdict has to be "approve" or "reject"'),
        (GOOD | {"verdict": {}}, 'verdict has to be "approve" or "reject"'),
        (GOOD | {"verdict": None}, 'verdict has to be "approve" or "reject"'),
        (GOOD | {"reason": ""}, "reason is required"),
        (GOOD | {"reason": "\u200b\x00\n"}, "reason is required"),
        (GOOD | {"by": 7}, "by is required"),
        (GOOD | {"by": None}, "by is required"),
        (GOOD | {"plan": 7}, "plan has to be the text shown"),
    ],
)
def test_what_is_wrong_is_said_with_the_form_to_send(message: Any, sentence: str) -> None:
    with pytest.raises(Refusal) as caught:
        read_decision(message)
    assert sentence in str(caught.value)
    assert DECISION_FORM in str(caught.value)


def test_a_text_without_end_is_refused_without_repeating_it() -> None:
    with pytest.raises(Refusal, match="longer than 500 characters"):
        read_decision(GOOD | {"reason": "x" * (TEXT_MAX + 1)})
    assert len(read_decision(GOOD | {"reason": "x" * TEXT_MAX}).reason) == TEXT_MAX


def test_the_plan_that_is_named_is_bounded_and_printable_since_a_refusal_repeats_it() -> None:
    assert read_decision(GOOD | {"plan": "1a\x1b2b"}).plan == "1a 2b"
    with pytest.raises(Refusal, match="plan has to be the text shown"):
        read_decision(GOOD | {"plan": "x" * (PLAN_MAX + 1)})


def test_control_characters_become_blanks() -> None:
    read = read_decision(GOOD | {"by": "a\x1b[31mda\r\n", "reason": "\ud800so\u202eit"})
    assert read.by == "a [31mda"
    assert read.reason == "so it"


@pytest.mark.parametrize("messages", [(), (GOOD, GOOD), (None, None, None)])
def test_one_argument_is_taken_and_no_other_number(messages: tuple[Any, ...]) -> None:
    with pytest.raises(Refusal, match="a JSON object is needed"):
        only(messages)
    assert only((GOOD,)) is GOOD


@pytest.mark.parametrize("job_id", ["41001", "41001_7", "41001+1", "41001.batch", "a-b", "41_[1-3]"])
def test_job_ids_of_every_dialect_are_taken(job_id: str) -> None:
    assert read_job_request({"job_id": job_id}).job_id == job_id


NO_JOB_IDS: list[Any] = ["", " ", "-1", "1;id", "$(id)", "`id`", "a b", "../x", "1\n2", "x" * 65, 41001, None, ["1"], "--all"]


@pytest.mark.parametrize("job_id", NO_JOB_IDS)
def test_what_is_no_job_id_is_refused(job_id: Any) -> None:
    with pytest.raises(Refusal):
        read_job_request({"job_id": job_id})


def test_records_between_workflows_are_read_or_refused_in_one_line() -> None:
    ask = GrantAsk(cluster="alpha", incident="i")
    assert read_record(GrantAsk, (ask.model_dump(mode="json"),)) == ask
    for wrong in ((), (None,), ({"cluster": 7},), (ask, ask)):
        with pytest.raises(Refusal) as caught:
            read_record(GrantAsk, wrong)
        assert "\n" not in str(caught.value)


JSON = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats() | some.text(),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
NAMES = some.sampled_from(["verdict", "reason", "by", "plan", "job_id"])
FIELDS = some.dictionaries(NAMES, JSON | some.sampled_from(["approve", "ada"]))
READERS: list[Callable[[Any], Any]] = [read_decision, read_request, read_job_request, lambda m: read_decision(m, Verb.APPROVE)]


@given(message=JSON | FIELDS, reader=some.sampled_from(READERS))
def test_any_json_is_read_or_refused_with_a_printable_sentence(message: Any, reader: Callable[[Any], Any]) -> None:
    read: Any = None
    sentence = ""
    try:
        read = reader(message)
    except Refusal as refusal:
        sentence = str(refusal)
    assert bool(sentence) == (read is None)
    assert sentence.isprintable()
    assert len(sentence) < 300
    if read is not None:
        assert getattr(read, "plan", "").isprintable()
        for name in ("reason", "by"):
            said = getattr(read, name)
            assert said.isprintable()
            assert len(said) <= TEXT_MAX
        if not isinstance(message, dict) or "job_id" not in message:
            assert read.reason
            assert read.by
