"""A stage of its own for each story: a Temporal server, a cluster `local`, the service's settings."""

import shutil
import sysconfig
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from adapters.schedulers.local import LocalScheduler
from tests.stage import CLUSTER, NODES, Stage, write_settings
from tests.temporal import dev_server

TEMPORAL = shutil.which("temporal", path=sysconfig.get_path("scripts"))


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    """Nothing runs on it yet but Temporal."""
    server = await dev_server()
    scheduler = LocalScheduler.create(tmp_path / CLUSTER, CLUSTER, NODES)
    stage = Stage(client=server.client, ui="", folder=tmp_path, scheduler=scheduler)
    write_settings(stage.settings, server.client.service_client.config.target_host, "http://127.0.0.1:1")
    try:
        yield stage
    finally:
        scheduler.shut_down()
        await server.shutdown()
