"""The locks: every package pinned and hashed, no host named, and in step with pyproject.toml."""

import re
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.house.checkout import ROOT, files

LOCKS = {
    "requirements/dev.txt": ("dev",),
    "requirements/app.txt": ("app", "build"),
    "requirements/demo.txt": ("app", "demo", "build"),
}
"""Lock -> the dependency groups in it, beside the library's own dependencies."""

PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def entries(lock: str) -> list[str]:
    """One text a package: the pin with its hashes."""
    return re.split(r"\n(?=\S)", (ROOT / lock).read_text(encoding="utf-8").strip())


def pins(lock: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for entry in entries(lock):
        pin = Requirement(entry.split(" \\")[0])
        found.setdefault(canonicalize_name(pin.name), []).append(str(pin.specifier).removeprefix("=="))
    return found


def wanted(group: str) -> Iterator[Requirement]:
    for item in PYPROJECT["dependency-groups"][group]:
        if isinstance(item, str):
            yield Requirement(item)
        else:
            yield from wanted(item["include-group"])


def test_every_lock_is_tested_here() -> None:
    assert {str(path) for path in files() if path.match("requirements/*.txt")} == set(LOCKS)


@pytest.mark.parametrize("lock", LOCKS)
def test_every_package_is_pinned_and_hashed(lock: str) -> None:
    loose = [
        entry.splitlines()[0] for entry in entries(lock) if "==" not in entry.splitlines()[0] or "--hash=sha256:" not in entry
    ]
    assert loose == []


@pytest.mark.parametrize("lock", LOCKS)
def test_no_host_and_no_index_is_named(lock: str) -> None:
    assert re.findall(r"https?:\S*|--(?:extra-)?index-url|--find-links", (ROOT / lock).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("lock", LOCKS)
def test_the_lock_is_in_step_with_pyproject(lock: str) -> None:
    """`make lock` mends it."""
    pinned = pins(lock)
    needs = [Requirement(text) for text in PYPROJECT["project"]["dependencies"]]
    needs += [need for group in LOCKS[lock] for need in wanted(group)]
    out_of_step = [
        str(need)
        for need in needs
        if not all(need.specifier.contains(v) for v in pinned.get(canonicalize_name(need.name), ["0"]))
    ]
    assert out_of_step == []


@pytest.mark.parametrize("lock", LOCKS)
def test_all_locks_agree_on_versions(lock: str) -> None:
    dev = pins("requirements/dev.txt")
    assert {name: version for name, version in pins(lock).items() if dev.get(name) != version} == {}
