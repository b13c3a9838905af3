"""Named profiles of retries and timeouts, so that a reader of a workflow sees what an activity may cost."""

from datetime import timedelta
from typing import Any

from temporalio.common import RetryPolicy
from temporalio.workflow import ActivityCancellationType

QUICK_AGAIN = RetryPolicy(
    initial_interval=timedelta(milliseconds=200), backoff_coefficient=2.0, maximum_interval=timedelta(seconds=20)
)

JUDGE: dict[str, Any] = {
    "start_to_close_timeout": timedelta(minutes=2),
    "heartbeat_timeout": timedelta(seconds=5),
    "retry_policy": QUICK_AGAIN,
}
"""Reads and judgement: tried again until the world answers, since nothing can be decided without it."""

EFFECT: dict[str, Any] = {
    "start_to_close_timeout": timedelta(minutes=3),
    "heartbeat_timeout": timedelta(seconds=5),
    "retry_policy": QUICK_AGAIN,
    "cancellation_type": ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
}
"""An effect: tried again, since each try looks first; a worker that died is noticed within five seconds."""

RECORD: dict[str, Any] = {"start_to_close_timeout": timedelta(seconds=10), "retry_policy": QUICK_AGAIN}
"""The record: tried until it is kept."""

TELL: dict[str, Any] = {
    "start_to_close_timeout": timedelta(minutes=1),
    "schedule_to_close_timeout": timedelta(hours=1),
    "retry_policy": QUICK_AGAIN,
}
"""Telling people: given up after an hour; nothing waits for it."""

WATCH: dict[str, Any] = {
    "start_to_close_timeout": timedelta(days=3650),
    "heartbeat_timeout": timedelta(seconds=10),
    "retry_policy": RetryPolicy(initial_interval=timedelta(milliseconds=100), maximum_interval=timedelta(seconds=10)),
}
"""Watching: for as long as the job lives; a worker that died is replaced within ten seconds."""

ASK: dict[str, Any] = {"start_to_close_timeout": timedelta(seconds=10), "retry_policy": QUICK_AGAIN}
"""A message to another workflow."""

LOOK_UP: dict[str, Any] = {
    "start_to_close_timeout": timedelta(seconds=15),
    "schedule_to_close_timeout": timedelta(seconds=20),
    "retry_policy": QUICK_AGAIN,
}
"""Something a person waits for at a prompt: answered or refused within twenty seconds."""

GIVE_BACK: dict[str, Any] = {
    "start_to_close_timeout": timedelta(seconds=30),
    "schedule_to_close_timeout": timedelta(seconds=40),
    "heartbeat_timeout": timedelta(seconds=5),
    "retry_policy": QUICK_AGAIN,
}
"""A node given back while a person waits at a prompt: each try looks first, and it is given up within forty seconds."""

ANNOTATE: dict[str, Any] = {
    "start_to_close_timeout": timedelta(seconds=30),
    "schedule_to_close_timeout": timedelta(minutes=1),
    "heartbeat_timeout": timedelta(seconds=5),
    "retry_policy": QUICK_AGAIN,
}
"""A line in a job's comment: given up after a minute; no incident stays open for it."""
