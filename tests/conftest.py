"""For all tests: which of them share a worker under pytest-xdist."""

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

TOGETHER = ("tests/slurm/test_o", "tests/slurm/", "tests/corpus/")
"""Tests that share what is dear to make: a cluster of six nodes, a corpus judged hundreds of times. Those on Slurm wait more than
they compute, so two clusters stand side by side: one for the long stories of owners and outages, one for the rest."""


class Together(LoadScopeScheduling):  # type: ignore[misc]  # xdist is untyped
    """Tests of one of those go to one worker, the largest first; all others go to whichever worker is free.

    By path: xdist's own groups (`--dist loadgroup`) have no effect with pytest 9.2, whose items' ids no longer carry the group.
    """

    def _split_scope(self, nodeid: str) -> str:
        return next((folder for folder in TOGETHER if nodeid.startswith(folder)), nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling | None:
    return Together(config, log) if config.getvalue("dist") == "loadgroup" else None
