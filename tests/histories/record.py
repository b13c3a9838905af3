"""`python -m tests.histories.record [STORY ...]`: play the stories anew on real parts, and keep the histories of their workflows.

About three minutes for all. Record anew after a change of the workflows that is meant to break replay, and say so in the
changelog: incidents that wait for approval on older code can't go on.
"""

import asyncio
import base64
import json
import re
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from temporalio.client import WorkflowHandle

from adapters.schedulers.local import LocalScheduler
from demo.faults import bug_options, inject_crash, inject_hang, inject_killed
from rerail import names
from rerail.client import Rerail
from rerail.errors import RerailError
from rerail.records import Incident
from rerail.records import Stage as At
from tests.stage import CLUSTER, NODES, ROOT, Stage
from tests.temporal import dev_server

FOLDER = Path(__file__).parent / "recorded"
HASTY = "hasty"
"""A second cluster, on which a decision has to come within seconds."""
WITHIN_S = 120.0
SETTINGS = f"""\
state: ./state
temporal: {{address: "ADDRESS", ui: "http://127.0.0.1:8233"}}
clusters:
  {CLUSTER}:
    scheduler: {{local: {{folder: ./{CLUSTER}}}}}
    hang: {{floor_s: 12}}
  {HASTY}:
    scheduler: {{local: {{folder: ./{HASTY}}}}}
    approval: {{expires_s: 4, remind_s: 2}}
"""


@dataclass
class Recorder:
    """One stage on which the stories are played one after the other, each with a job of its own."""

    stage: Stage
    hasty: LocalScheduler
    found: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    """Name of a history -> workflow id, and run id where it is not the newest run."""

    @property
    def client(self) -> Rerail:
        return Rerail(self.stage.client)

    async def job(self, name: str, scheduler: LocalScheduler | None = None, options: tuple[str, ...] = ()) -> tuple[Stage, str]:
        """A training job under rerail's eyes."""
        folder = self.stage.folder / name
        folder.mkdir()
        stage = replace(self.stage, folder=folder, scheduler=scheduler or self.stage.scheduler)
        job_id = await asyncio.to_thread(stage.train, *options)
        await self.until(lambda: self.watcher(stage, job_id), f"watcher of {name}")
        return stage, job_id

    async def watcher(self, stage: Stage, job_id: str) -> str:
        return await self.newest(names.WATCH_JOB, f"/{stage.scheduler.cluster}/{job_id}/")

    async def newest(self, kind: str, part: str) -> str:
        """The workflow of that kind whose id has that part."""
        seen = [w.id async for w in self.stage.client.list_workflows(f"WorkflowType = '{kind}'") if part in w.id]
        return max(seen, default="")

    async def incident(self, stage: Stage, job_id: str, number: int = 1) -> WorkflowHandle[Any, Any]:
        """The incident of the job's attempt, once it waits for a decision."""

        async def waits() -> str:
            found = await self.newest(names.REMEDIATE_JOB, f"/{stage.scheduler.cluster}/{job_id}/")
            if not found.endswith(f"/{number}"):
                return ""
            return found if (await self.look(found)).stage is At.AWAITING_APPROVAL else ""

        found: str = await self.until(waits, f"incident {number} of job {job_id}")
        return self.stage.client.get_workflow_handle(found)

    async def look(self, workflow_id: str) -> Incident:
        seen: Incident = await self.stage.client.get_workflow_handle(workflow_id).query(names.INCIDENT, result_type=Incident)
        return seen

    async def approved(self, stage: Stage, job_id: str, name: str, number: int = 1) -> None:
        handle = await self.incident(stage, job_id, number)
        await self.client.approve(handle.id, reason="the evidence is clear", by="ada")
        await handle.result()
        self.found[name] = (handle.id, None)

    async def over(self, stage: Stage, job_id: str) -> None:
        """End the job, so that its nodes are free for the next story."""
        if not stage.job(job_id).state.ended:
            stage.scheduler.cancel(job_id)
        await self.until(lambda: stage.job(job_id).state.ended and not stage.job(job_id).completing, "end of the job")

    async def until(self, look: Callable[[], Awaitable[Any] | Any], what: str) -> Any:
        deadline = time.monotonic() + WITHIN_S
        while True:
            found = look()
            found = await found if isinstance(found, Awaitable) else found
            if found:
                return found
            if time.monotonic() > deadline:
                raise RerailError(f"no {what} within {WITHIN_S:.0f} s")
            await asyncio.sleep(0.1)


# Stories


async def crash(play: Recorder) -> None:
    """A GPU falls off the bus twice: a second attempt with its history; then the owner ends the job, and its watch ends."""
    stage, job_id = await play.job("crash")
    inject_crash(stage.scheduler, job_id, 2)
    await play.approved(stage, job_id, "remediate-crash")
    inject_crash(stage.scheduler, job_id, 1)
    await play.approved(stage, job_id, "remediate-second-attempt", 2)
    watcher = await play.watcher(stage, job_id)
    await play.over(stage, job_id)
    await play.stage.client.get_workflow_handle(watcher).result()
    play.found["watch-job"] = (watcher, None)


async def killed(play: Recorder) -> None:
    stage, job_id = await play.job("killed")
    inject_killed(stage.scheduler, job_id, 1)
    await play.approved(stage, job_id, "remediate-killed")
    await play.over(stage, job_id)


async def hang(play: Recorder) -> None:
    stage, job_id = await play.job("hang")
    inject_hang(stage.scheduler, job_id, 3)
    await play.approved(stage, job_id, "remediate-hang")
    await play.over(stage, job_id)


async def bug(play: Recorder) -> None:
    stage, job_id = await play.job("bug", options=tuple(bug_options(40, 2)))
    await play.approved(stage, job_id, "remediate-bug")
    await play.over(stage, job_id)


async def reject(play: Recorder) -> None:
    """Rejected by a signal, after one that had no effect."""
    stage, job_id = await play.job("reject")
    inject_killed(stage.scheduler, job_id, 1)
    handle = await play.incident(stage, job_id)
    await handle.signal(names.REJECT, "no")
    await handle.signal(names.REJECT, {"by": "ada", "reason": "I look at it myself"})
    await handle.result()
    play.found["remediate-reject"] = (handle.id, None)
    await play.over(stage, job_id)


async def expiry(play: Recorder) -> None:
    stage, job_id = await play.job("expiry", play.hasty)
    inject_killed(stage.scheduler, job_id, 1)
    handle = await play.incident(stage, job_id)
    await handle.result()
    play.found["remediate-expiry"] = (handle.id, None)
    await play.over(stage, job_id)


async def pause(play: Recorder) -> None:
    stage, job_id = await play.job("pause")
    await play.client.pause(CLUSTER, reason="maintenance", by="ada")
    inject_crash(stage.scheduler, job_id, 0)
    handle = await play.incident(stage, job_id)
    await play.client.approve(handle.id, reason="the evidence is clear", by="ada")

    async def paused() -> bool:
        return (await play.look(handle.id)).stage is At.PAUSED

    await play.until(paused, "pause")
    await play.client.resume(CLUSTER, reason="it is over", by="ada")
    await handle.result()
    play.found["remediate-pause"] = (handle.id, None)
    await play.over(stage, job_id)


async def told(play: Recorder) -> None:
    """A crash with all its notices."""
    stage, job_id = await play.job("told")
    inject_crash(stage.scheduler, job_id, 2)
    await play.approved(stage, job_id, "remediate-told")
    await play.over(stage, job_id)


async def for_ever(play: Recorder) -> None:
    """Guard and watch of the cluster, as far as they have come."""
    play.found["guard-cluster"] = (names.guard_cluster_id(CLUSTER), None)
    play.found["watch-cluster"] = (names.watch_cluster_id(CLUSTER), None)


STORIES = {story.__name__: story for story in (crash, killed, hang, bug, pause, reject, expiry, told, for_ever)}
TELLING = {"reject", "expiry", "told"}
"""Stories of a service that has a channel to tell people on."""
CHANNEL = 'channels: [{command: {argv: ["/bin/true"]}}]\n'


# Keeping


async def keep(play: Recorder) -> None:
    """One file a workflow, with its id, which replay depends on, and its size as the server counts it."""
    FOLDER.mkdir(exist_ok=True)
    for name, (workflow_id, run_id) in play.found.items():
        handle = play.stage.client.get_workflow_handle(workflow_id, run_id=run_id)
        info = (await handle.describe()).raw_description.workflow_execution_info
        history = json.loads((await handle.fetch_history()).to_json())
        kept = {
            "workflow_id": workflow_id,
            "events": len(history["events"]),
            "bytes": info.history_size_bytes,
            "history": without_places(history, play.stage.folder),
        }
        (FOLDER / f"{name}.json").write_text(json.dumps(kept, separators=(",", ":")) + "\n", encoding="utf-8")
        print(f"{name}: {kept['events']} events, {kept['bytes']} bytes")


def without_places(value: Any, folder: Path) -> Any:
    """The history without what tells of the machine that it was recorded on. Replay needs none of it."""
    if isinstance(value, list):
        return [without_places(item, folder) for item in value]
    if not isinstance(value, dict):
        return value
    made = {key: without_places(item, folder) for key, item in value.items()}
    made |= {key: "worker" for key in ("identity", "workerIdentity") if key in made}
    made |= {key: "" for key in ("stackTrace",) if key in made}
    if "data" in made and "metadata" in made:
        text = base64.b64decode(made["data"]).decode(errors="surrogateescape")
        text = text.replace(str(folder), "/srv/rerail").replace(str(ROOT), "/opt/rerail")
        text = re.sub(r'(?<=[" ])/[^" ]*/(?=(?:bin/python|lib/python)[0-9.]*)', "/usr/", text)
        made["data"] = base64.b64encode(text.encode(errors="surrogateescape")).decode()
    return made


async def main(stories: list[str]) -> None:
    folder = Path(tempfile.mkdtemp(prefix="rerail-histories-"))
    server = await dev_server()
    address = server.client.service_client.config.target_host
    (folder / "rerail.yaml").write_text(SETTINGS.replace("ADDRESS", address))
    scheduler, hasty = (LocalScheduler.create(folder / name, name, NODES) for name in (CLUSTER, HASTY))
    play = Recorder(Stage(server.client, "", folder, scheduler), hasty)
    try:
        wanted = [name for name in STORIES if not stories or name in stories]
        with play.stage.service():
            for name in (name for name in wanted if name not in TELLING):
                await STORIES[name](play)
        play.stage.settings.write_text(play.stage.settings.read_text() + CHANNEL)
        with play.stage.service():
            for name in (name for name in wanted if name in TELLING):
                await STORIES[name](play)
            await keep(play)
    finally:
        scheduler.shut_down()
        hasty.shut_down()
        await server.shutdown()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
