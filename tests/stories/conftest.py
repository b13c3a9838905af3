"""A stage of its own for each story: a Temporal server, a cluster `local`, the service's settings."""

import shutil
import sysconfig
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from temporalio.testing import WorkflowEnvironment

from adapters.schedulers.local import LocalScheduler
from rerail.client import DATA_CONVERTER
from tests.stage import CLUSTER, NODES, Stage, write_settings

TEMPORAL = shutil.which("temporal", path=sysconfig.get_path("scripts"))


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    """Nothing runs on it yet but Temporal."""
    server = await WorkflowEnvironment.start_local(
        dev_server_existing_path=TEMPORAL, data_converter=DATA_CONVERTER, dev_server_log_level="error"
    )
    scheduler = LocalScheduler.create(tmp_path / CLUSTER, CLUSTER, NODES)
    stage = Stage(client=server.client, ui="", folder=tmp_path, scheduler=scheduler)
    write_settings(stage.settings, server.client.service_client.config.target_host, "http://127.0.0.1:1")
    try:
        yield stage
    finally:
        scheduler.shut_down()
        await server.shutdown()
