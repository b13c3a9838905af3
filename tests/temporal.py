"""A real Temporal server for tests and benches: PyPI's binary, tried again where a busy machine is slow to start it."""

import shutil
import sysconfig
import time
from typing import Any

from temporalio.testing import WorkflowEnvironment

from rerail.client import DATA_CONVERTER

WITHIN_S = 90.0
"""The SDK gives a server five seconds to come up; on two cores shared by many that is not always enough."""


def binary() -> str:
    """The server's program; `make setup` brings it."""
    found = shutil.which("temporal", path=sysconfig.get_path("scripts")) or shutil.which("temporal")
    assert found, "no `temporal` here: `make setup` brings it"
    return found


async def dev_server(**settings: Any) -> WorkflowEnvironment:
    """A server on free ports of its own. `settings` are those of `WorkflowEnvironment.start_local`."""
    until = time.monotonic() + WITHIN_S
    while True:
        try:
            return await WorkflowEnvironment.start_local(
                dev_server_existing_path=binary(), dev_server_log_level="error", data_converter=DATA_CONVERTER, **settings
            )
        except RuntimeError:
            if time.monotonic() > until:
                raise
