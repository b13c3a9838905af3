"""Login nodes for tests of SSH."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import sshd


@pytest.fixture
def login(tmp_path: Path) -> Iterator[sshd.Start]:
    """login(**more): another sshd, up; all are ended after the test."""
    sshd.needed()
    started: list[sshd.Sshd] = []

    def start(**more: str) -> sshd.Sshd:
        folder = tmp_path / f"login{len(started) + 1}"
        folder.mkdir()
        started.append(sshd.Sshd(folder, **more))  # type: ignore[arg-type]
        return started[-1].start()

    yield start
    for one in started:
        one.stop()
