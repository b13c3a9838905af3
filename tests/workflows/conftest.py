"""A theatre for each test: a Temporal server that skips time, the real workflows, and players for all activities."""

import shutil
import sysconfig
from collections.abc import AsyncIterator

import pytest
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from activities.search import ALL
from rerail import names
from rerail.client import DATA_CONVERTER
from tests.workflows.players import ACT, CLUSTER, CONTROL, DETECT, Players, Theatre
from workers.assembly import WORKFLOWS
from workers.roles import kind

TEST_SERVER = shutil.which("temporal-test-server", path=sysconfig.get_path("scripts"))


@pytest.fixture
async def theatre() -> AsyncIterator[Theatre]:
    env = await WorkflowEnvironment.start_time_skipping(test_server_existing_path=TEST_SERVER, data_converter=DATA_CONVERTER)
    client, players = env.client, Players()
    wanted = {key.name: kind(key) for key in ALL}
    request = AddSearchAttributesRequest(namespace=client.namespace, search_attributes=wanted)
    try:
        await client.operator_service.add_search_attributes(request)
        control = Worker(
            client,
            task_queue=names.CONTROL_QUEUE,
            workflows=WORKFLOWS,
            activities=players.activities(CONTROL),
            workflow_failure_exception_types=[Exception],  # else a broken workflow is a test that hangs
        )
        detect = Worker(client, task_queue=names.detect_queue(CLUSTER), activities=players.activities(DETECT))
        act = Worker(client, task_queue=names.act_queue(CLUSTER), activities=players.activities(ACT))
        async with control, detect, act:
            yield Theatre(client, players)
    finally:
        await env.shutdown()
