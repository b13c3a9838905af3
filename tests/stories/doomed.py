"""A service that dies: `python -m tests.stories.doomed SETTINGS POINTS` runs all roles and is killed at the first point reached.

A point is `ACTIVITY:before`, `ACTIVITY:after` (its work is done, its answer not given), or `EFFECT:during` (the scheduler took
the command, nobody looked yet). POINTS is a file with one a line; the one that was reached is taken out of it.
"""

import asyncio
import logging
import os
import signal
import sys
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from temporalio.client import Client, Interceptor
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput
from temporalio.worker import Interceptor as WorkerInterceptor

from rerail.ports import Scheduler
from workers import roles
from workers.assembly import Assembly
from workers.settings import load

EFFECTS = {"requeue": "requeue", "exclude": "exclude", "start_now": "start", "cancel": "stop"}
"""Methods of the scheduler and the activities that use them."""


class Doom(Interceptor, WorkerInterceptor):
    """Kills the process, with no time for anything, at the next point."""

    def __init__(self, points: Path) -> None:
        self.points = points

    def reach(self, point: str) -> None:
        waiting = self.points.read_text().split()
        if waiting and waiting[0] == point:
            rest = self.points.with_suffix(".rest")
            rest.write_text("\n".join(waiting[1:]))
            rest.replace(self.points)
            os.kill(os.getpid(), signal.SIGKILL)

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        return DoomedActivity(next, self)


class DoomedActivity(ActivityInboundInterceptor):
    def __init__(self, inner: ActivityInboundInterceptor, doom: Doom) -> None:
        super().__init__(inner)
        self.doom = doom

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        name = input.fn.__name__
        self.doom.reach(f"{name}:before")
        result = await super().execute_activity(input)
        self.doom.reach(f"{name}:after")
        return result


class DoomedScheduler:
    """A scheduler whose caller dies right after the command was taken."""

    def __init__(self, inner: Scheduler, doom: Doom) -> None:
        self.inner = inner
        self.doom = doom

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        if name not in EFFECTS:
            return found

        def act(*args: Any, **named: Any) -> None:
            found(*args, **named)
            self.doom.reach(f"{EFFECTS[name]}:during")

        return act


def main() -> None:
    logging.basicConfig(level=logging.INFO)
    settings, doom = load(Path(sys.argv[1])), Doom(Path(sys.argv[2]))
    connect = roles.connect_by

    async def doomed(*args: Any, **named: Any) -> Client:
        client = await connect(*args, **named)
        config: Any = {**client.config(), "interceptors": [doom]}
        return Client(**config)

    class DoomedAssembly(Assembly):
        @cached_property
        def schedulers(self) -> dict[str, Scheduler]:
            return {name: cast(Scheduler, DoomedScheduler(one.scheduler, doom)) for name, one in self.ways.items()}

    vars(roles).update(connect_by=doomed, Assembly=DoomedAssembly)
    asyncio.run(roles.run(settings, ("control", "detect")))


if __name__ == "__main__":
    main()
