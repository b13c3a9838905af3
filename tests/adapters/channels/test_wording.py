"""What a channel says: bounded, printable, without secrets, the same on every retry."""

import json
from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from adapters.channels.wording import MAX_LINE, MAX_TEXT, payload
from rerail.records import Notice, NoticeKind

AT = datetime(2026, 12, 1, 9, 30, tzinfo=UTC)


def notice(**other: Any) -> Notice:
    return Notice(
        **({"key": "i/1/opened", "kind": NoticeKind.OPENED, "cluster": "alpha", "title": "job 7 failed", "at": AT} | other)
    )


def said(**other: Any) -> dict[str, str]:
    values: dict[str, str] = json.loads(payload(notice(**other)))
    return values


def test_it_says_all_of_the_notice() -> None:
    assert said(job_id="7", incident="i", text="why\nand how", link="http://ui/x") == {
        "key": "i/1/opened",
        "kind": "opened",
        "cluster": "alpha",
        "job_id": "7",
        "incident": "i",
        "title": "job 7 failed",
        "text": "why\nand how",
        "link": "http://ui/x",
        "at": "2026-12-01T09:30:00+00:00",
    }
    assert set(said()) == set(Notice.model_fields)


def test_control_characters_and_turned_text_go() -> None:
    values = said(title="a\x1b[31mb\x00c\u202ed\ne", text="a\x07b\r\nc\x9b\ud800")
    assert values["title"] == "a[31mbcd e"
    assert values["text"] == "ab\nc"


def test_long_words_are_cut() -> None:
    values = said(title="x" * 1_000, text="y" * 10_000)
    assert len(values["title"]) == MAX_LINE
    assert len(values["text"]) == MAX_TEXT
    assert values["text"].endswith("…")


def test_secrets_go() -> None:
    assert said(text="export API_KEY=abcdef123")["text"] == "export API_KEY=[redacted]"


def test_only_whole_links_to_pages_are_passed_on() -> None:
    for link in (
        "javascript:alert(1)",
        "http://",
        "https://x/ y",
        "https://x/" + "a" * 3_000,
        "file:///etc/passwd",
        "\x1bhttp://x",
    ):
        assert said(link=link)["link"] == ""


@given(title=st.text(), text=st.text())
def test_nothing_said_can_move_a_cursor(title: str, text: str) -> None:
    values = said(title=title, text=text)
    assert all(mark >= " " and not "\x7f" <= mark <= "\x9f" for mark in values["title"])
    assert all((mark >= " " or mark in "\n\t") and not "\x7f" <= mark <= "\x9f" for mark in values["text"])
