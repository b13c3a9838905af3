"""The same verbs on a laptop and in CI."""

import os
import re
import subprocess

import pytest

from tests import debian
from tests.house.checkout import ROOT
from tests.testbed import packages

VERBS = {"help", "setup", "demo", "test", "check", "bench", "corpus", "lock"}

RUN = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def test_the_makefile_has_the_verbs_and_its_help_names_them() -> None:
    assert set(re.findall(r"^([a-z]+):", MAKEFILE, re.MULTILINE)) == VERBS
    told = subprocess.run(["make", "--silent", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert [verb for verb in VERBS - {"help"} if f"make {verb}" not in told] == []


def test_ci_says_what_a_laptop_says() -> None:
    assert re.findall(r"^make (\w+)", RUN, re.MULTILINE) == ["check", "test"]


def test_ci_can_be_run_and_is_a_script_that_bash_understands() -> None:
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    subprocess.run(["bash", "-n", str(ROOT / ".ci" / "run")], check=True)


def test_ci_installs_every_debian_package_that_a_suite_needs() -> None:
    block = re.search(r"^packages=\((.*?)^\)", RUN, re.MULTILINE | re.DOTALL)
    assert block
    named = {word for line in block[1].splitlines() if not line.strip().startswith("#") for word in line.split()}
    assert {*packages.SLURM, *packages.ACCOUNTING, *packages.TORCH, "chromium", "libatomic1"} <= named


def test_a_skip_for_a_missing_package_fails_where_ci_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="no skip"):
        debian.skip("slurm: not there; run this command")


def test_a_skip_for_a_missing_package_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr(debian, "hindrance", lambda: "only root may install packages")
    why = debian.ensure({"no-such-package": "/no/such/program"})
    with pytest.raises(pytest.skip.Exception, match=r"apt-get install .* no-such-package"):
        debian.skip(why)
