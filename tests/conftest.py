"""For all tests: which of them share a worker under pytest-xdist."""

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

TOGETHER = ("tests/slurm/", "tests/corpus/")
"""Folders whose tests share what is dear to make: a cluster of six nodes, a corpus judged hundreds of times."""


class Together(LoadScopeScheduling):  # type: ignore[misc]  # xdist is untyped
    """Tests of those folders go to one worker each, the largest folder first; all others go to whichever worker is free.

    By path: xdist's own groups (`--dist loadgroup`) have no effect with pytest 9.2, whose items' ids no longer carry the group.
    """

    def _split_scope(self, nodeid: str) -> str:
        return next((folder for folder in TOGETHER if nodeid.startswith(folder)), nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling | None:
    return Together(config, log) if config.getvalue("dist") == "loadgroup" else None
