"""Spread: one node means the node; all nodes mean code, configuration or a shared service."""

import re
from collections.abc import Sequence
from dataclasses import replace

from rerail.attribution.findings import Finding, Level
from rerail.attribution.whom import Places
from rerail.records import Advice, FaultClass
from rerail.signatures import Scope

MANY = 0.5
"""Share of the job's nodes beyond which the same fault is no longer theirs: so many don't break at once."""


def spread(one: Finding, places: Places, others: Sequence[Finding] = (), *, moved: bool = False) -> Finding:
    """The finding with culprits and advice that its spread over nodes and ranks allows.

    `others` that tell of the same cause lend what it does not name itself. `moved` is True when training had got going.
    """
    found = _spread(one, places, others)
    same_again = found.fault is not FaultClass.SYSTEM or found.scope is not Scope.NODE or _LASTING.search(found.cause)
    if moved and not found.nodes and found.advice is Advice.STOP and one.advice is not Advice.STOP and not same_again:
        return replace(found, advice=Advice.RESTART)  # what had worked on all nodes and failed on all at once may work again
    return found


def _spread(one: Finding, places: Places, others: Sequence[Finding]) -> Finding:
    one = _completed(one, others)
    if "precondition" in one.tags:
        return _precondition(one, places)
    if one.scope is Scope.NODE:
        return _of_nodes(one, places)
    if one.scope is Scope.RANK or (one.fault is FaultClass.SYSTEM and _whole_node(one, places)):
        return _of_ranks(one, places)
    everywhere = len(places.nodes) > 1 and len(one.nodes) > MANY * len(places.nodes)
    advice = Advice.STOP if everywhere and _LIMITS.search(one.cause) else _without_nodes(one)
    return replace(one, nodes=(), ranks=(), advice=advice)


_LIMITS = re.compile(r"limit|quota|config|permission|missing|corrupt")
"""Causes that are the same again at the next start when all nodes have them; a service may be back by then."""

_LASTING = re.compile(r"limit|quota|config|permission|missing|corrupt|full|mismatch|driver|version|skew")
"""Causes that stay until somebody acts, even when they set in late."""


def _completed(one: Finding, others: Sequence[Finding]) -> Finding:
    """Culprits that only other lines about the same cause name."""
    alike = [other for other in others if other.cause == one.cause and other is not one]
    if not one.nodes and one.scope is Scope.NODE:
        one = replace(one, nodes=next((other.nodes for other in alike if other.nodes), ()))
    if not one.ranks:
        one = replace(one, ranks=next((other.ranks for other in alike if other.ranks), ()))
    return replace(one, text="\n".join((one.text, *(other.text for other in alike))))


def _without_nodes(one: Finding) -> Advice:
    return Advice.RESTART if one.advice in (None, Advice.RESTART_EXCLUDING_NODES) else one.advice


def _of_nodes(one: Finding, places: Places) -> Finding:
    nodes = one.nodes or (places.told if len(places.told) == 1 else ())
    if not nodes:
        return replace(one, advice=_without_nodes(one))
    if len(places.nodes) > 1 and len(nodes) > MANY * len(places.nodes):
        return _everywhere(one)
    ranks = tuple(rank for rank in one.ranks if places.node_of(rank) in ("", *nodes))
    return replace(one, nodes=nodes, ranks=ranks, advice=one.advice or Advice.RESTART_EXCLUDING_NODES)


def _everywhere(one: Finding) -> Finding:
    """The same on most nodes: nobody is isolated, and it comes back until somebody changes the set-up."""
    why = f"{one.why} It shows on {len(one.nodes)} nodes, so no single one is at fault."
    advice = Advice.STOP if one.fault is FaultClass.SYSTEM else Advice.RESTART
    return replace(one, nodes=(), ranks=(), advice=advice, why=why)


_ALL_RANKS = re.compile(r"(?i)\b(?:on )?all (?:\d+ )?(?:ranks|workers|processes)\b")


def _of_ranks(one: Finding, places: Places) -> Finding:
    """Ranks are named unless all of them have it; what all have at once comes back at the next start."""
    world = len(places.case.rank_nodes)
    everybody = (world > 1 and len(one.ranks) >= 0.9 * world) or bool(_ALL_RANKS.search(one.text))
    everywhere = len(places.nodes) > 1 and len(one.nodes) >= 0.9 * len(places.nodes)
    if one.fault is FaultClass.SYSTEM and "oom" not in one.cause and _whole_node(one, places):
        why = f"{one.why} All ranks of {one.nodes[0]} have it, and no other."
        return replace(one, advice=Advice.RESTART_EXCLUDING_NODES, scope=Scope.NODE, why=why)
    advice = _without_nodes(one)
    if everybody or (everywhere and one.fault is FaultClass.SYSTEM):
        advice = Advice.STOP if one.fault in (FaultClass.APPLICATION, FaultClass.SYSTEM) else advice
    return replace(one, nodes=(), ranks=() if everybody else one.ranks, advice=advice)


def _whole_node(one: Finding, places: Places) -> bool:
    """True when all ranks of one node have it, several, and those of no other node."""
    ranks = {rank for node in one.nodes for rank in places.ranks_by_node.get(node, [])}
    return len(places.nodes) > 1 and len(one.nodes) == 1 and len(ranks) > 1 and len(one.ranks) >= 0.9 * len(ranks)


def _single_rank_node(one: Finding, places: Places) -> bool:
    """True when one rank of many nodes with a rank each has it."""
    return len(places.nodes) > 2 and len(one.nodes) == 1 and len(places.ranks_by_node.get(one.nodes[0], [])) < 2


def _precondition(one: Finding, places: Places) -> Finding:
    """A module or file that is missing: on one node of several it is that node's, everywhere it is the program's."""
    if one.level in (Level.EXCEPTION, Level.LOG) and (_whole_node(one, places) or _single_rank_node(one, places)):
        why = f"{one.why} Only {one.nodes[0]} has it: its files, mounts or image differ."
        return replace(one, fault=FaultClass.SYSTEM, advice=Advice.RESTART_EXCLUDING_NODES, scope=Scope.NODE, why=why)
    return _of_ranks(one, places)
