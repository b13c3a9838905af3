"""Whom a line speaks of: rank and node, from prefixes, names in the line, and who runs where."""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from rerail import hostlist, signatures
from rerail.case import Case
from rerail.readers import lines
from rerail.readers.prefixes import Prefix
from rerail.signatures import Scope, Signature


class Whom(NamedTuple):
    """Ranks and nodes that a line accuses or that said it; empty where nobody can tell."""

    ranks: tuple[int, ...] = ()
    nodes: tuple[str, ...] = ()


_NCCL_HEAD = re.compile(r"^\s*([A-Za-z][\w.-]{1,80}):\d{1,9}:\d{1,9} (?:\[(\d{1,3})\] )?")
_WORD = re.compile(r"[A-Za-z][\w.-]{1,100}")
_RANK_IN_LINE = re.compile(r"(?i)(?:\[rank ?|<rank |\brank[=: ]|\bon rank )(\d{1,7})\b")


NODE_RANKS = ("dlrover.",)
"""Families that number nodes where others number processes."""


def _names(row: Signature, raw: bytes) -> dict[str, str]:
    """What the row's named groups say; RE2 gives the names themselves as bytes."""
    return {str(name, "ascii") if isinstance(name, bytes) else name: text for name, text in signatures.named(row, raw).items()}


def _a_host(name: str, count: int) -> bool:
    """False for a word in front of a colon that only looks like a host; a host without a number speaks more than that."""
    return count >= _FEW_LINES or any(letter.isdigit() for letter in name)


_FEW_LINES = 5


@dataclass(frozen=True)
class Places:
    """Who runs where in one case."""

    case: Case

    @cached_property
    def nodes(self) -> tuple[str, ...]:
        """All nodes of the job, in the scheduler's order; else those that the maps name."""
        return self.told or tuple(sorted(name for name, count in self.case.log.speakers.items() if _a_host(name, count)))

    @cached_property
    def told(self) -> tuple[str, ...]:
        """All nodes as the scheduler or a map tells them; empty where only prefixes let guess."""
        named = self.case.scheduler.nodes if self.case.scheduler else ()
        return named or tuple(dict.fromkeys(node for _, node in sorted(self.case.rank_nodes.items())))

    @cached_property
    def _short(self) -> dict[str, str]:
        """Known nodes by their name without its domain."""
        return {node.split(".", 1)[0].lower(): node for node in (*self.case.kernel, *self.nodes)}

    @cached_property
    def ranks_by_node(self) -> dict[str, list[int]]:
        """Ranks of each node, ascending."""
        placed: dict[str, list[int]] = {}
        for rank, node in sorted(self.case.rank_nodes.items()):
            placed.setdefault(self.known(node) or node, []).append(rank)
        return placed

    @cached_property
    def tasks_are_nodes(self) -> bool:
        """True when launcher tasks (srun --label) are one a node while a node has several ranks."""
        return len(self.case.rank_nodes) > len(self.nodes) > 0 and self._most_tasks <= len(self.nodes)

    @cached_property
    def _most_tasks(self) -> int:
        """How many tasks speak, at least."""
        tasks = {seen.front.task for seen in self.case.log.sightings if seen.front.task is not None}
        tasks |= {one.front.task for one in self.case.log.tracebacks if one.front.task is not None}
        tasks |= {point.mark.rank for point in self.case.log.points[:2000] if point.mark.rank is not None}
        return max(tasks, default=-1) + 1

    def known(self, name: str) -> str:
        """The job's own name of a host, or empty for a host that the job does not run on."""
        short = name.strip().rstrip(".").split(".", 1)[0].lower()
        if short in self._short:
            return self._short[short]
        return "" if self._short else name

    def node_of(self, rank: int) -> str:
        """The node that a rank runs on, or empty."""
        node = self.case.rank_nodes.get(rank, "")
        return (self.known(node) or node) if node else ""

    def of(self, front: Prefix, raw: bytes, row: Signature | None = None) -> Whom:
        """Whom a line speaks of."""
        named = _names(row, raw) if row is not None else {}
        ranks, nodes = self._named(named)
        if row is not None and row.id.startswith(NODE_RANKS):
            return Whom((), tuple(self.nodes[rank] for rank in ranks if rank < len(self.nodes)))
        if not ranks and not nodes:
            ranks, nodes = self._said_by(front)
        if not nodes:
            nodes = tuple(dict.fromkeys(node for rank in ranks if (node := self.node_of(rank))))
        if not nodes and row is not None and row.scope is Scope.NODE:
            nodes = self._mentioned(raw)
        return Whom(ranks, nodes)

    def _mentioned(self, raw: bytes) -> tuple[str, ...]:
        """The one node of the job that a line names, when it names only one."""
        words = {word.rstrip(".:,") for word in _WORD.findall(lines.excerpt(raw, 1000))}
        nodes = {self._short[short] for word in words if (short := word.split(".", 1)[0].lower()) in self._short}
        return tuple(nodes) if len(nodes) == 1 else ()

    def _named(self, named: dict[str, str]) -> tuple[tuple[int, ...], tuple[str, ...]]:
        """Names that the row's own groups carry out of the line."""
        numbers = re.findall(r"\d{1,7}", named.get("rank", "") + " " + named.get("ranks", ""))
        nodes: list[str] = []
        for text in (named.get("node", ""), named.get("nodes", "")):
            try:
                nodes += [
                    known
                    for name in hostlist.expand(text.rstrip(".:"))
                    if (known := self.known(name) or ("" if self.told else name))
                ]
            except ValueError:
                continue
        return tuple(dict.fromkeys(map(int, numbers))), tuple(dict.fromkeys(nodes))

    def _said_by(self, front: Prefix) -> tuple[tuple[int, ...], tuple[str, ...]]:
        """Who said the line."""
        if front.rank is not None:
            return (front.rank,), ()
        host = self.known(front.host) if front.host else ""
        head = _NCCL_HEAD.match(front.body)
        if head and self.known(head[1]):
            return self._by_device(self.known(head[1]), head[2])
        if front.task is not None:
            return self._by_task(front)
        rank = _RANK_IN_LINE.search(lines.excerpt(front.body))
        if rank:
            return (int(rank[1]),), (host,) if host else ()
        return (), (host,) if host else ()

    def _by_device(self, node: str, device: str | None) -> tuple[tuple[int, ...], tuple[str, ...]]:
        """NCCL names host and device; the device is the place of the rank on its node."""
        ranks = self.ranks_by_node.get(node, [])
        if device is not None and int(device) < len(ranks):
            return (ranks[int(device)],), (node,)
        return (), (node,)

    def _by_task(self, front: Prefix) -> tuple[tuple[int, ...], tuple[str, ...]]:
        """srun --label: the task is a rank, or a node's launcher."""
        task = front.task or 0
        node = self.node_of_task(task)
        if not self.tasks_are_nodes:
            return (task,), (node,) if node else ()
        ranks = self.ranks_by_node.get(node, [])
        if front.local is not None and front.local < len(ranks):
            return (ranks[front.local],), (node,)
        return (), (node,) if node else ()

    def node_of_task(self, task: int | None) -> str:
        """The node that a launcher's task runs on: by the map, else by place where there is a task a node; or empty."""
        if task is None:
            return ""
        if task in self.case.rank_nodes and not self.tasks_are_nodes:
            return self.node_of(task)
        return self.nodes[task] if task < len(self.nodes) and self._most_tasks <= len(self.nodes) else ""

    @cached_property
    def only_ranks(self) -> list[int]:
        """All ranks where the job has one node."""
        return sorted(self.case.rank_nodes) if len(self.nodes) == 1 else []
