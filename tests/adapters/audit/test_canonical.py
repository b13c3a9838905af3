"""The canonical form: one row, one text."""

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from adapters.audit.canonical import FIELDS, MAX_BODY_BYTES, canonical_json, canonical_time
from rerail.records import AuditRow, RowKind

AT = datetime(2026, 12, 1, 9, 30, 0, 5, tzinfo=UTC)


def row(**other: Any) -> AuditRow:
    return AuditRow(**({"key": "k", "at": AT, "kind": RowKind.ACTION, "cluster": "c"} | other))


def test_the_form_is_this_one_byte_by_byte() -> None:
    one = row(job_id="7", attempt=1, incident="i", text="Grüße", body={"b": 1, "a": [1.5, None, {"z": AT, "y": True}]})
    assert canonical_json(one) == (
        '{"key":"k","at":"2026-12-01T09:30:00.000005Z","kind":"action","cluster":"c","job_id":"7","attempt":1,"incident":"i",'
        '"actor":"rerail","text":"Grüße","body":{"a":[1.5,null,{"y":true,"z":"2026-12-01T09:30:00.000005Z"}],"b":1}}'
    )


def test_every_field_of_the_record_has_its_place() -> None:
    assert set(FIELDS) == set(AuditRow.model_fields)


def test_times_are_told_in_utc_with_microseconds() -> None:
    assert canonical_time(datetime(2026, 12, 1, 10, tzinfo=timezone(timedelta(hours=2)))) == "2026-12-01T08:00:00.000000Z"
    assert canonical_time(datetime(2026, 12, 1, 10)) == "2026-12-01T10:00:00.000000Z"  # noqa: DTZ001


def test_who_acted_is_kept_and_other_addresses_are_not() -> None:
    values = json.loads(
        canonical_json(row(actor="ann@x.org", text="ask bob@x.org", body={"by": "ann@x.org", "said": "bob@x.org"}))
    )
    assert (values["actor"], values["body"]["by"]) == ("ann@x.org", "ann@x.org")
    assert values["text"] == "ask [redacted]"
    assert values["body"]["said"] == "[redacted]"


def test_a_field_named_as_a_secret_is_masked_whatever_it_holds() -> None:
    body = {"password": "x", "RERAIL_API_KEY": "y", "token": ["a", "b"], "tokens_per_s": "12", "empty": {"secret": ""}}
    kept = json.loads(canonical_json(row(body=body)))["body"]
    assert kept["password"] == kept["RERAIL_API_KEY"] == "[redacted]"
    assert kept["token"] == ["[redacted]", "[redacted]"]
    assert kept["tokens_per_s"] == "12"


def test_a_body_too_large_is_replaced_by_its_digest() -> None:
    kept = json.loads(canonical_json(row(body={"x": "y z " * MAX_BODY_BYTES})))["body"]
    assert set(kept) == {"left_out_bytes", "left_out_sha256"}


def test_a_body_without_end_is_cut_off() -> None:
    nested: dict[str, Any] = {}
    for _ in range(200):
        nested = {"a": nested}
    assert len(canonical_json(row(body=nested))) < 5_000


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(body=st.dictionaries(st.text(), json_values, max_size=5), text=st.text())
def test_what_is_read_back_has_the_same_form(body: dict[str, Any], text: str) -> None:
    once = canonical_json(row(body=body, text=text))
    once.encode()  # surrogates would fail here
    assert canonical_json(AuditRow.model_validate_json(once)) == once
