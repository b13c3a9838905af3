"""The scheduler's record as it lies in a case: `scheduler.json`."""

from datetime import datetime
from typing import Any

from rerail import hostlist
from rerail.readers import lines, prefixes
from rerail.records import Record


class Scheduled(Record):
    """What the scheduler said of the job. `state` is its own word in capitals (RUNNING, NODE_FAIL, REQUEUE_HOLD ...)."""

    job_id: str = ""
    state: str = ""
    exit_code: int | None = None
    exit_signal: int | None = None
    nodes: tuple[str, ...] = ()
    reason: str = ""
    node_states: dict[str, str] = {}
    restarts: int = 0
    started_at: datetime | None = None
    ended_at: datetime | None = None
    sampled_at: datetime | None = None

    @property
    def seen_until(self) -> datetime | None:
        """The end of what can be known: when the job ended, or when the inputs of a running one were taken."""
        return self.ended_at or self.sampled_at


def read(raw: Any) -> Scheduled:
    """The record from parsed JSON, whatever a stranger put there: fields of a wrong kind count as missing."""
    if not isinstance(raw, dict):
        return Scheduled()
    code, signal = _exit(raw.get("exit_code"))
    return Scheduled(
        job_id=_text(raw.get("job_id")),
        state=_text(raw.get("state")).upper().split(" ")[0].rstrip("+"),
        exit_code=code,
        exit_signal=signal,
        nodes=_nodes(raw.get("nodes")),
        reason=_text(raw.get("reason")),
        node_states=_states(raw.get("node_states")),
        restarts=raw["restart_count"] if isinstance(raw.get("restart_count"), int) else 0,
        started_at=_time(raw.get("started_at")),
        ended_at=_time(raw.get("ended_at")),
        sampled_at=_time(raw.get("sampled_at")),
    )


def _text(value: Any) -> str:
    return lines.excerpt(str(value)) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def _exit(value: Any) -> tuple[int | None, int | None]:
    """Code and signal of "rc:signal"."""
    parts = _text(value).split(":")
    numbers = [int(part) if part.isdecimal() else None for part in parts[:2]]
    return ([*numbers, None, None])[0], ([*numbers, None, None])[1]


def _nodes(value: Any) -> tuple[str, ...]:
    """Names, or hostlists, expanded; what is no hostlist is kept as the name it may be."""
    said = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    names: dict[str, None] = {}
    for item in said[: hostlist.MOST_HOSTS]:
        for name in _expanded(_text(item)):
            names[name] = None
    return tuple(names)[: hostlist.MOST_HOSTS]


def _expanded(text: str) -> tuple[str, ...]:
    try:
        return hostlist.expand(text)
    except ValueError:
        return (text,)


def _states(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    items = list(value.items())[: hostlist.MOST_HOSTS]
    return {name: _text(state) for key, state in items for name in _expanded(_text(key))}


def _time(value: Any) -> datetime | None:
    """A naive time, in UTC where the text tells its zone."""
    return prefixes.read(_text(value)).at if value else None
