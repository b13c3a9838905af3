"""Slurm's hostlists, also hostile ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerail import hostlist


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("gpu-[0412-0415]", ("gpu-0412", "gpu-0413", "gpu-0414", "gpu-0415")),
        ("gpu-[001-003,007],login", ("gpu-001", "gpu-002", "gpu-003", "gpu-007", "login")),
        ("rack[1-2]n[01-02].site", ("rack1n01.site", "rack1n02.site", "rack2n01.site", "rack2n02.site")),
        ("n[9-11]", ("n9", "n10", "n11")),
        ("a, a,b", ("a", "b")),
        ("(null)", ()),
        ("None assigned", ()),
        ("", ()),
    ],
)
def test_a_hostlist_stands_for_its_names(text: str, names: tuple[str, ...]) -> None:
    assert hostlist.expand(text) == names


@pytest.mark.parametrize("text", ["n[1-", "n]1[", "n[[1]]", "n[3-1]", "n[a-b]", "n[]", "n[0-999999999]", "a[1-999]b[1-999]"])
def test_what_is_no_hostlist_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match="hostlist"):
        hostlist.expand(text)


@given(st.text(max_size=200))
def test_any_text_gives_names_or_one_refusal(text: str) -> None:
    said = ""
    try:
        names = hostlist.expand(text, most=1000)
    except ValueError as refusal:
        names, said = (), str(refusal)
    assert len(names) <= 1000
    assert len(said) < 200


@given(st.lists(st.from_regex(r"[a-z]{1,5}-?([0-9]{1,4})?", fullmatch=True), max_size=60))
def test_what_was_compressed_expands_to_the_same_names(names: list[str]) -> None:
    assert set(hostlist.expand(hostlist.compress(names))) == set(names)
