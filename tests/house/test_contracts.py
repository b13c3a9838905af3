"""The import contracts of pyproject.toml hold, cover every room, and each one really fails when it is broken."""

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.house.checkout import ROOT, modules

ROOMS = ("policies", "workflows", "activities", "adapters", "workers")

SETTINGS: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
NAMES = [contract["name"] for contract in SETTINGS["contracts"]]

KNOWS_TEMPORAL = {"client", "cli"}
"""Parts of the library that may know Temporal."""

BREACHES = {
    "Switching on knows all; the world, the console and the story know the sentences; everything may know the library": (
        "policies/rules.py",
        "import activities.asks",
    ),
    "Workflows touch no world": ("workflows/pages.py", "import httpx"),
    "The library knows Temporal in client and cli alone": ("src/rerail/records/job.py", "import temporalio"),
    "Adapters do not know each other": ("adapters/logs/files.py", "import adapters.hosts.silent"),
    "The way in by SSH carries adapters and knows none": ("adapters/ssh/link.py", "import adapters.logs.files"),
}
"""Contract -> a module and an import that it has to refuse there."""


def lint(root: Path) -> subprocess.CompletedProcess[str]:
    argv = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache", "--config", str(root / "pyproject.toml")]
    environment = {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{root / 'src'}", "NO_COLOR": "1", "COLUMNS": "300"}
    return subprocess.run(argv, cwd=root, env=environment, capture_output=True, text=True, check=False)


def copy(target: Path, paths: Sequence[Path]) -> None:
    for path in paths:
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, target / path)


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A copy of the rooms that may be spoilt."""
    copy(tmp_path, [*modules("src", *ROOMS), Path("pyproject.toml")])
    return tmp_path


def test_the_contracts_hold(house: Path) -> None:
    done = lint(house)
    assert done.returncode == 0, done.stdout


def test_each_contract_is_a_sentence_and_has_a_breach_to_fail_on() -> None:
    assert set(NAMES) == set(BREACHES)
    assert all(name[0].isupper() and len(name.split()) > 3 for name in NAMES)


@pytest.mark.parametrize("name", BREACHES)
def test_a_broken_contract_is_found_by_its_name(name: str, house: Path) -> None:
    path, statement = BREACHES[name]
    module = house / path
    module.write_text(module.read_text(encoding="utf-8") + f"\n{statement}\n", encoding="utf-8")
    done = lint(house)
    assert done.returncode != 0
    assert f"{name} BROKEN" in " ".join(done.stdout.split())


def test_every_part_of_the_library_but_client_and_cli_is_kept_from_temporal() -> None:
    contract = next(c for c in SETTINGS["contracts"] if c["name"] == "The library knows Temporal in client and cli alone")
    parts = {path.parts[2].removesuffix(".py") for path in modules("src")} - {"__init__", *KNOWS_TEMPORAL}
    assert {f"rerail.{part}" for part in parts} <= set(contract["source_modules"])


def test_adapters_are_independent_room_by_room() -> None:
    """`ssh` is no adapter of a port but what some of them travel by; it has a contract of its own."""
    contract = next(c for c in SETTINGS["contracts"] if c["name"] == "Adapters do not know each other")
    rooms = {path.parts[1] for path in modules("adapters") if len(path.parts) > 2} - {"ssh"}
    assert {f"adapters.{room}" for room in rooms} <= set(contract["modules"])


def test_every_room_is_under_the_contracts() -> None:
    assert {"rerail", *ROOMS} <= set(SETTINGS["root_packages"])
