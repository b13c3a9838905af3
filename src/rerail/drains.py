"""Whose drain is it? Our reasons carry our name and the incident; every other reason is somebody else's, and stays."""

from rerail.records import Node, NodeState

PREFIX = "rerail: "
"""How our reasons begin."""

REASON_MAX = 250
"""Characters of a reason: rerail-gate lets no longer one pass, and `sinfo -R` shows 20 of it."""


def reason_of(incident: str, cause: str) -> str:
    """The reason of our drain: `rerail: INCIDENT CAUSE`, one bounded line. Without `; `, at which others cut reasons apart."""
    said = "".join(c if c.isprintable() and c not in ";|" else " " for c in f"{PREFIX}{incident} {cause}")
    return " ".join(said.split())[:REASON_MAX]


def ours(reason: str) -> bool:
    """True when we have written it."""
    return reason.startswith(PREFIX)


def taken(node: Node) -> str:
    """Why a node is not ours to drain, in a sentence; empty when it is. Somebody's reason is never replaced."""
    if node.reason and not ours(node.reason):
        return f"{node.name} is {node.state}, and the reason is {by(node)}: {node.reason}; it stays"
    return ""


def touched(node: Node, drained: Node) -> str:
    """Why a drain of ours, which left the node as `drained`, is no longer ours to end, in a sentence; empty when it is."""
    if node.state is not NodeState.DRAINED:
        return f"{node.name} was resumed by somebody else"
    if (node.reason, node.reason_by, node.reason_at) != (drained.reason, drained.reason_by, drained.reason_at):
        return f"{node.name} was drained anew by {by(node)}: {node.reason or 'no reason'}"
    return ""


def by(node: Node) -> str:
    """Who wrote the reason, as far as it is known."""
    return node.reason_by or "somebody"
