"""Nodes, from `sinfo`: its text is the same in every release, its JSON is not. One node, from `scontrol show node`.

The reason comes last, for anything may stand in it.
"""

import re
from datetime import UTC, datetime

from adapters.schedulers.slurm.answers import printable
from rerail.records import Node, NodeState

FORMAT = "%N|%T|%P|%E|"
"""Name, long state, partition (`*`: the default one), reason; a word that nobody can guess ends it, as in `table`."""

STATES = {
    "allocated": NodeState.UP,
    "completing": NodeState.UP,
    "idle": NodeState.UP,
    "mixed": NodeState.UP,
    "planned": NodeState.UP,
    "drained": NodeState.DRAINED,
    "draining": NodeState.DRAINED,
    "fail": NodeState.DRAINED,
    "failing": NodeState.DRAINED,
    "down": NodeState.DOWN,
    "inval": NodeState.DOWN,
    "future": NodeState.DOWN,
}
"""Reserved, in maintenance, blocked, unknown: whether this job may start there can't be told from the word, so it is unknown."""

BUSY = ("allocated", "completing", "draining", "failing", "mixed")

NOT_RESPONDING = "*"
REBOOTING = "@^"


def nodes(text: str, word: str) -> tuple[Node, ...]:
    """One node a name, though sinfo prints a row for each of its partitions. `word` ends each row: a reason has line breaks at
    will, and would be another node's row otherwise."""
    found: dict[str, Node] = {}
    for row in text.split(f"|{word}\n"):
        parts = row.split("|", 3)
        if len(parts) < 4:
            continue  # nothing after the last one
        name, state, partition, reason = parts
        known = found.get(name)
        partitions = (*known.partitions, partition.rstrip("*")) if known else (partition.rstrip("*"),)
        found[name] = _node(name, state, partitions, reason)
    return tuple(found.values())


def _node(name: str, state: str, partitions: tuple[str, ...], reason: str) -> Node:
    word = state.lower().rstrip("*~#!%$@^-+")
    marks = state[len(word) :]
    said = "" if reason == "none" else printable(reason)
    if NOT_RESPONDING in marks:
        return Node(name=name, state=NodeState.DOWN, partitions=partitions, reason=said or "not responding", busy=word in BUSY)
    if any(mark in REBOOTING for mark in marks):
        return Node(name=name, state=NodeState.DOWN, partitions=partitions, reason=said or "rebooting", busy=word in BUSY)
    ours = STATES.get(word, NodeState.UNKNOWN)
    return Node(
        name=name, state=ours, partitions=partitions, reason=said or ("" if ours is NodeState.UP else word), busy=word in BUSY
    )


# One node


REASON = re.compile(r"\sReason=(?P<reason>.*) \[(?P<by>[^\s@\[\]]+)@(?P<at>[0-9]+)\]", re.DOTALL)
"""What anybody wrote, then who and when (seconds since 1970); nothing of a later field looks like that."""

STATE = re.compile(r"\sState=(\S+)")
PARTITIONS = re.compile(r"\sPartitions=(\S+)")

TAKES_WORK = frozenset({"ALLOCATED", "COMPLETING", "IDLE", "MIXED"})
HOLDS_OFF = frozenset({"DRAIN", "FAIL"})
FAR = frozenset({"NOT_RESPONDING", "REBOOT_ISSUED", "POWERED_DOWN", "POWERING_DOWN", "POWERING_UP"})
AT_WORK = frozenset({"ALLOCATED", "COMPLETING", "MIXED"})


def node(name: str, text: str) -> Node:
    """The node of `scontrol --oneliner show node NAME`: drained when it is drained, however else it fares."""
    found, state, partitions = REASON.search(text), STATE.search(text), PARTITIONS.search(text)
    words = set((state[1] if state else "").upper().rstrip("*").split("+"))
    return Node(
        name=name,
        state=_state(words),
        partitions=tuple(partitions[1].split(",")) if partitions else (),
        reason=printable(found["reason"]) if found else "",
        reason_by=printable(found["by"]) if found else "",
        reason_at=datetime.fromtimestamp(int(found["at"]), UTC) if found and len(found["at"]) < 12 else None,
        busy=bool(words & AT_WORK),
    )


def _state(words: set[str]) -> NodeState:
    rows = (
        (words & HOLDS_OFF, NodeState.DRAINED),
        ("DOWN" in words or words & FAR, NodeState.DOWN),
        (words & TAKES_WORK, NodeState.UP),
    )
    return next((state for holds, state in rows if holds), NodeState.UNKNOWN)
