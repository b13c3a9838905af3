"""A job's owner may ask for less than the cluster allows, in a comment that may hold anything else, too."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.comment import COMMENT_MAX, with_word, without_word
from policies.wishes import TOLD_MAX, Wishes, wishes

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["rerail", "APS", "off", "x"]), inner, max_size=4)
    ),
    max_leaves=12,
)


def ours(**said: object) -> str:
    return json.dumps({"rerail": said})


def ajr(**said: object) -> str:
    return json.dumps({"APS": said})


@pytest.mark.parametrize(
    "comment", ["", "my run", "{}", '{"other": {"off": true}}', "rerail is great", "{{{", "APS: none", "[1]"]
)
def test_a_comment_that_does_not_speak_to_us_wishes_nothing(comment: str) -> None:
    assert wishes(comment) == Wishes()


def test_each_of_our_keys_is_understood() -> None:
    assert wishes(ours(off=True)) == Wishes(off=True)
    assert wishes(ours(off=False)) == Wishes()
    assert wishes(ours(leave="I'm debugging")) == Wishes(leave="I'm debugging")
    assert wishes(ours(leave=True)) == Wishes(leave="no reason given")
    assert wishes(ours(leave=False)) == Wishes()
    assert wishes(ours(mode="monitor")) == Wishes(asks=True)
    assert wishes(ours(max_restarts=0)) == Wishes(max_restarts=0)


def test_the_scripts_of_ajr_are_understood_as_they_are() -> None:
    assert wishes(ajr(auto_resume_mode="requeue", max_requeue_times=3)) == Wishes(ajr=True, max_restarts=3)
    assert wishes(ajr(auto_resume_mode="singleton_dependency")) == Wishes(ajr=True, chain=True)


def test_a_wish_is_found_between_other_words_and_beside_other_keys() -> None:
    assert wishes(f"ablation 7 {ours(off=True)} see wiki").off
    both = json.dumps({"APS": {"max_requeue_times": 5}, "rerail": {"max_restarts": 2}, "team": {"x": [1]}})
    assert wishes(both) == Wishes(ajr=True, max_restarts=2)


def test_what_is_said_twice_counts_at_its_strictest() -> None:
    assert wishes(ours(max_restarts=5, leave="mine") + ajr(max_requeue_times=1) + ours(off=True)) == Wishes(
        off=True, leave="mine", max_restarts=1, ajr=True
    )


def test_more_than_the_cluster_allows_is_told_and_not_granted() -> None:
    wished = wishes(ours(mode="autonomous"))
    assert wished == Wishes(told=wished.told)
    assert "can't ask for autonomous mode" in wished.told[0]


def test_unknown_keys_are_told_with_the_known_ones_and_change_nothing() -> None:
    wished = wishes(ours(ofF=True, max_restarts=2))
    assert wished == Wishes(max_restarts=2, told=wished.told)
    assert wished.told == ('"ofF" under "rerail" in the job\'s comment is unknown; known are off, leave, mode, max_restarts',)


@pytest.mark.parametrize(
    "comment",
    [
        '{"rerail": {"off": true}',
        "{'rerail': {'off': True}}",
        '{"rerail": {"off": true, "off": false}}',
        "{rerail: {off: true}}",
        ours(off="yes"),
        ours(off=1),
        ours(max_restarts=-1),
        ours(max_restarts=True),
        ours(max_restarts=2.5),
        ours(max_restarts=10**9),
        ours(mode="fast"),
        ours(leave=["x"]),
        json.dumps({"rerail": "off"}),
        ajr(auto_resume_mode="yes"),
        ajr(max_requeue_times="3"),
        '{"rerail": {"max_restarts": NaN}}',
        '{"a":' * 500 + '{"rerail": {"off": true}}',
    ],
)
def test_what_cannot_be_understood_is_told_and_has_a_person_asked_first(comment: str) -> None:
    wished = wishes(comment)
    assert wished.asks or wished.off
    assert wished.told or wished.off
    assert not wished.hands_off or wished.off


def test_a_reason_says_why_nothing_is_done() -> None:
    assert wishes(ours(leave="I'm debugging")).hands_off == "its owner wants it left alone: I'm debugging"
    assert "switched rerail off" in wishes(ours(off=True)).hands_off
    assert not wishes(ours(max_restarts=1)).hands_off


@given(
    st.text(max_size=300)
    | JSON.map(json.dumps)
    | st.lists(st.sampled_from(list('{}[]":,rerailAPSoff \\\n\x1b')), max_size=200).map("".join)
)
def test_no_comment_breaks_it_and_what_it_tells_is_clean_and_bounded(comment: str) -> None:
    wished = wishes(comment)
    assert len(wished.told) <= TOLD_MAX
    for said in (*wished.told, wished.leave, wished.hands_off):
        assert said.isprintable()
        assert len(said) < 600


@given(JSON, st.text(alphabet=st.characters(exclude_characters="{}"), max_size=50))
def test_other_text_around_changes_no_wish(value: object, text: str) -> None:
    comment = json.dumps({"rerail": value})
    assert wishes(f"{text} {comment} {text}").off == wishes(comment).off


@pytest.mark.parametrize("comment", ["{" * 100_000 + '"rerail": {', '{"rerail":' * 50_000, '{"rerail": "' + "\\" * 100_000])
def test_a_hostile_comment_takes_no_time(comment: str) -> None:
    began = time.monotonic()
    wishes(comment)
    with_word(comment, "x")
    assert time.monotonic() - began < 1


# Our own line in it


WORD = 'crash, hardware: "Xid 79" on gpu-02'


@pytest.mark.parametrize(
    "comment",
    [
        "",
        "my run",
        "{}",
        ' {"a": 1}  ',
        ajr(max_requeue_times=3),
        ours(off=False),
        "text {not json",
        '{"a": {"b": "}"}}',
        "[1, 2]",
    ],
)
def test_our_line_stands_beside_what_is_there(comment: str) -> None:
    made = with_word(comment, WORD)
    assert made is not None
    assert without_word(made) == comment
    assert with_word(made, WORD) == made
    assert wishes(made) == wishes(comment)
    again = with_word(made, "recovered")
    assert again == with_word(comment, "recovered")


def test_an_object_stays_one_object_so_that_others_can_read_it() -> None:
    made = with_word(ajr(max_requeue_times=3), WORD)
    assert made is not None
    assert json.loads(made) == {"APS": {"max_requeue_times": 3}, "rerail_says": WORD}


def test_a_full_comment_is_left_as_it_is() -> None:
    assert with_word("x" * (COMMENT_MAX - 10), WORD) is None


@given(st.text(max_size=200), st.text(max_size=400))
def test_whatever_stands_there_survives_our_line(comment: str, word: str) -> None:
    rest = without_word(comment)
    made = with_word(comment, word)
    assert made is not None
    assert without_word(made) == rest
    assert len(made) <= COMMENT_MAX
