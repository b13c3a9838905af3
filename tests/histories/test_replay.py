"""Histories of real stories replay on today's code, and stay small. `python -m tests.histories.record` makes them anew."""

import json
from pathlib import Path
from typing import Any

import pytest
from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner
from temporalio.workflow import NondeterminismError

from activities.asks import RemediateInput
from rerail import names
from rerail.client import DATA_CONVERTER
from rerail.records import Outcome
from workers.assembly import WORKFLOWS
from workflows.remediate_job import RemediateJob

RECORDED = sorted((Path(__file__).parent / "recorded").glob("*.json"))
EVENTS_MAX = 100
BYTES_MAX = 20 * 1024
"""What one story may cost the server, from the task."""
ASIDES = {"remediate-pause"}
"""What comes on top: a pause in the middle (30 events)."""
ASIDE_TIMES = 1.4
STORIES = {"crash", "second-attempt", "killed", "hang", "bug", "reject", "expiry", "pause", "told"}


def load(path: Path) -> dict[str, Any]:
    kept: dict[str, Any] = json.loads(path.read_text())
    return kept


def history(path: Path) -> WorkflowHistory:
    kept = load(path)
    return WorkflowHistory.from_json(kept["workflow_id"], kept["history"])


def test_each_workflow_and_each_story_is_recorded() -> None:
    recorded = {path.stem for path in RECORDED}
    assert recorded == {f"remediate-{story}" for story in STORIES} | {"watch-job", "watch-cluster", "guard-cluster"}


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
async def test_a_recorded_story_replays(path: Path) -> None:
    replayer = Replayer(workflows=WORKFLOWS, data_converter=DATA_CONVERTER)
    result = await replayer.replay_workflow(history(path), raise_on_replay_failure=False)
    assert result.replay_failure is None


@workflow.defn(name=names.REMEDIATE_JOB)
class Hesitant(RemediateJob):
    """The story with one timer more."""

    @workflow.init
    def __init__(self, ask: RemediateInput) -> None:
        super().__init__(ask)

    @workflow.run
    async def run(self, ask: RemediateInput) -> Outcome:
        await workflow.sleep(1)
        return await super().run(ask)


async def test_a_timer_that_was_inserted_is_caught() -> None:
    replayer = Replayer(workflows=[Hesitant], data_converter=DATA_CONVERTER, workflow_runner=UnsandboxedWorkflowRunner())
    path = next(path for path in RECORDED if path.stem == "remediate-crash")
    with pytest.raises(NondeterminismError):
        await replayer.replay_workflow(history(path))


@pytest.mark.parametrize("path", [p for p in RECORDED if p.stem.startswith("remediate-")], ids=lambda path: path.stem)
def test_a_story_stays_small(path: Path) -> None:
    kept = load(path)
    events = history(path).events
    times = ASIDE_TIMES if path.stem in ASIDES else 1
    assert kept["events"] == len(events) < EVENTS_MAX * times
    assert kept["bytes"] < BYTES_MAX * times
    assert sum(event.ByteSize() for event in events) < BYTES_MAX * times


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_a_recorded_story_names_no_machine(path: Path) -> None:
    for event in history(path).events:
        for payload in payloads(event):
            text = payload.data.decode(errors="replace")
            assert "/root" not in text
            assert "/work/" not in text
            assert "/tmp/" not in text
    assert "@" not in "".join(str(e.get("identity", "")) for e in load(path)["history"]["events"])


def payloads(message: Any) -> list[Payload]:
    """All payloads in an event, however deep."""
    if isinstance(message, Payload):
        return [message]
    found: list[Payload] = []
    for descriptor, value in message.ListFields():
        if descriptor.message_type is None or descriptor.message_type.GetOptions().map_entry:
            continue
        for item in value if descriptor.is_repeated else [value]:
            found += payloads(item)
    return found
