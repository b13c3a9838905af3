"""Nodes, from `sinfo`: its text is the same in every release, its JSON is not.

The reason comes last, for anything may stand in it.
"""

from adapters.schedulers.slurm.answers import printable
from rerail.records import Node, NodeState

FORMAT = "%N|%T|%P|%E"
"""Name, long state, partition (`*`: the default one), reason."""

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


def nodes(text: str) -> tuple[Node, ...]:
    """One node a name, though sinfo prints a line for each of its partitions."""
    found: dict[str, Node] = {}
    for line in text.splitlines():
        parts = line.split("|", 3)
        if len(parts) < 4:
            continue  # the rest of a reason with a line break in it
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
