"""A pulse: heartbeats while an activity waits for a slow world, so that only a dead worker is taken for dead."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from temporalio import activity

BEAT_EVERY_S = 1.0


@contextlib.asynccontextmanager
async def pulse(details: Callable[[], Any] | None = None) -> AsyncIterator[None]:
    """Heartbeat each second for as long as the block runs, each beat with the newest details."""
    beating = asyncio.create_task(beat(details))
    try:
        yield
    finally:
        beating.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await beating


async def beat(details: Callable[[], Any] | None) -> None:
    while True:
        if details is None:
            activity.heartbeat()
        else:
            activity.heartbeat(details())
        await asyncio.sleep(BEAT_EVERY_S)
