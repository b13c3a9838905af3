"""Saying one sentence of the story: an activity by its name, on the queue that may do it, under a named profile."""

from typing import Any, TypeVar

from temporalio import workflow

R = TypeVar("R")


async def say(name: str, ask: Any, returns: type[R], *, queue: str, summary: str, profile: dict[str, Any]) -> R:
    """The activity's answer. By name, since workflows know the sentences and never who says them."""
    answer: R = await workflow.execute_activity(
        name, ask, result_type=returns, task_queue=queue, summary=summary[:200], **profile
    )
    return answer


def begin(
    name: str, ask: Any, returns: type[R], *, queue: str, summary: str, profile: dict[str, Any]
) -> workflow.ActivityHandle[R]:
    """The same, without waiting for the answer."""
    return workflow.start_activity(name, ask, result_type=returns, task_queue=queue, summary=summary[:200], **profile)
