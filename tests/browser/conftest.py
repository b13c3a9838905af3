"""A real Temporal server with its Web UI, rerail's service, and a headless Chromium to look at them."""

import os
import platform
import shutil
import sysconfig
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Page, ViewportSize, async_playwright, expect

from adapters.schedulers.local import LocalScheduler
from tests import debian
from tests.browser.operator import Operator
from tests.stage import CLUSTER, NODES, Stage, free_port, write_settings
from tests.temporal import dev_server

HERE = Path(__file__).parent
CHROMIUM = "/usr/bin/chromium"
LIBATOMIC = f"/usr/lib/{platform.machine()}-linux-gnu/libatomic.so.1"
"""The node inside playwright is linked against it; a bare Debian has none."""
FLAGS = (
    "--no-sandbox",  # root may not use it
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
SCREEN: ViewportSize = {"width": 1440, "height": 1000}
PATIENCE_MS = 60_000
"""For what a page has to show: its first load takes 2.4 s on an idle machine, ten times that on one that runs other tests."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    """All of it up: server, UI, cluster and service."""
    port = free_port()
    ui = f"http://127.0.0.1:{port}"
    async with await dev_server(ui=True, ui_port=port, dev_server_extra_args=["--ui-disable-news-fetch"]) as env:
        write_settings(tmp_path / "rerail.yaml", env.client.service_client.config.target_host, ui)
        scheduler = LocalScheduler.create(tmp_path / CLUSTER, CLUSTER, list(NODES))
        made = Stage(env.client, ui, tmp_path, scheduler)
        try:
            with made.service():
                yield made
        finally:
            scheduler.shut_down()


@pytest.fixture
async def page(tmp_path: Path) -> AsyncIterator[Page]:
    """An empty page of a browser without a past."""
    debian.needs("chromium", CHROMIUM, "browser")
    debian.needs("libatomic1", LIBATOMIC, "browser")
    async with async_playwright() as playwright:
        context = await playwright.chromium.launch_persistent_context(
            tmp_path / "chromium", executable_path=CHROMIUM, args=list(FLAGS), headless=True, viewport=SCREEN
        )
        context.set_default_timeout(PATIENCE_MS)
        expect.set_options(timeout=PATIENCE_MS)
        try:
            yield context.pages[0]
        finally:
            await context.close()


@pytest.fixture
def operator(page: Page, stage: Stage) -> Operator:
    """A person before the page; RERAIL_SCREENSHOTS=FOLDER keeps pictures of what they saw."""
    folder = os.environ.get("RERAIL_SCREENSHOTS")
    shots = Path(folder) if folder else None
    if shots:
        shots.mkdir(parents=True, exist_ok=True)
    return Operator(page, stage.ui, shots)


def temporal() -> str:
    """The dev server's program, as `make setup` brings it."""
    found = shutil.which("temporal", path=sysconfig.get_path("scripts")) or shutil.which("temporal")
    if not found:
        debian.skip("browser: no `temporal` program here; `make setup` brings it")
    assert found
    return found
