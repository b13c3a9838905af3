"""NCCL flight-recorder dumps: who held the collectives up. A dump is a pickle that a stranger's job wrote, or JSON.

Python's own unpickler runs what a pickle tells it to, and even with that forbidden a few hundred bytes can keep it busy for ever
(nested tuples as keys). So the handful of opcodes that dumps are made of are read here, by count, and nothing else.
"""

import json
import re
import struct
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from rerail.errors import Permanent

MOST_BYTES = 32 << 20
"""Of one dump; 2,000 entries with stacks are 2 MB."""

MOST_OPCODES = 2_000_000
"""Of one dump; bounds time to seconds and memory to a few hundred MB whatever the dump says."""

MOST_ENTRIES = 20_000
MOST_RANKS = 20_000

LONGEST_NUMBER = 16
"""Bytes of a whole number; nanoseconds since 1970 take eight."""

MOST_PENDING = 0.5
"""Share of ranks with pending entries above which a rank without any is the one that is stuck before its call."""

FEWEST_GROUPS = 2
"""Process groups in which a rank must lag to be blamed: one alone may be a late start."""


class Refused(Permanent):
    """The bytes are no flight-recorder dump that may be read; the message says why."""


class Blame(NamedTuple):
    """Who held the collectives up, and by which rule."""

    ranks: tuple[int, ...]
    why: str
    missing: tuple[int, ...] = ()
    """Ranks of the groups without a dump: unknown, not guilty."""
    diverged: bool = False
    """True when ranks called different operations at the same place: the code is to blame, not a rank's machine."""


# --- reading -------------------------------------------------------------------------------------------------------------------


def read(data: bytes) -> dict[str, Any]:
    """The dump as plain values. Raises Refused for what is none, is too large, or asks for more than plain values."""
    if len(data) > MOST_BYTES:
        raise Refused(f"dump of {len(data)} bytes is larger than {MOST_BYTES}")
    value = _json(data) if data.lstrip()[:1] in (b"{", b"[") else _Reader(data).read()
    if not isinstance(value, dict) or not isinstance(value.get("entries", []), list):
        raise Refused("no flight-recorder dump: a mapping with entries was expected")
    return value


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Refused("dump is no JSON") from error


_MARK = object()


class _Reader:
    """Plain values from a pickle of protocols 0 to 5: dicts, lists, tuples, text, bytes, numbers, booleans, none."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def read(self) -> Any:
        """The value. Raises Refused."""
        try:
            for _ in range(MOST_OPCODES):
                opcode = self.take(1)
                if opcode == b".":
                    return self.stack.pop()
                step = _OPCODES.get(opcode)
                if step is None:
                    raise Refused(f"dump asks for more than plain values (opcode {opcode!r})")
                step(self)
        except (IndexError, struct.error, UnicodeDecodeError, TypeError, KeyError, AttributeError, ValueError) as error:
            raise Refused("dump is damaged or no pickle") from error
        raise Refused(f"dump has more than {MOST_OPCODES} opcodes")

    def take(self, count: int) -> bytes:
        """The next bytes, all of them."""
        if count < 0 or self.at + count > len(self.data):
            raise Refused("dump ends early")
        self.at += count
        return self.data[self.at - count : self.at]

    def skip(self, count: int) -> None:
        self.take(count)

    def number(self, form: str) -> Any:
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def marked(self) -> list[Any]:
        """What was pushed since the last mark."""
        at = len(self.stack) - 1
        while self.stack[at] is not _MARK:
            at -= 1
            if at < 0:
                raise Refused("dump is damaged: no mark")
        values = self.stack[at + 1 :]
        del self.stack[at:]
        return values

    def set_items(self, values: list[Any]) -> None:
        target = self.stack[-1]
        if not isinstance(target, dict):
            raise Refused("dump is damaged: no mapping")
        for key, value in zip(values[::2], values[1::2], strict=True):
            if not isinstance(key, str | int | float | bytes | bool | None):
                raise Refused("dump has keys that are no plain values")
            target[key] = value

    def append(self, values: list[Any]) -> None:
        target = self.stack[-1]
        if not isinstance(target, list):
            raise Refused("dump is damaged: no list")
        target.extend(values)

    def tuple_of(self, count: int) -> None:
        values = self.stack[len(self.stack) - count :]
        if len(values) != count:
            raise Refused("dump is damaged: too few values")
        del self.stack[len(self.stack) - count :]
        self.stack.append(tuple(values))

    def long(self) -> int:
        size = self.number("<B")
        if size > LONGEST_NUMBER:
            raise Refused("dump has a number that counts nothing")
        return int.from_bytes(self.take(size), "little", signed=True)

    def pair(self) -> list[Any]:
        value, key = self.stack.pop(), self.stack.pop()
        return [key, value]


def _push(value: Callable[[_Reader], Any]) -> Callable[[_Reader], None]:
    return lambda reader: reader.stack.append(value(reader))


def _text(form: str) -> Callable[[_Reader], None]:
    return _push(lambda reader: reader.take(reader.number(form)).decode("utf-8", "surrogatepass"))


def _bytes(form: str) -> Callable[[_Reader], None]:
    return _push(lambda reader: reader.take(reader.number(form)))


def _memo(form: str) -> Callable[[_Reader], None]:
    def put(reader: _Reader) -> None:
        reader.memo[reader.number(form)] = reader.stack[-1]

    return put


_OPCODES: dict[bytes, Callable[[_Reader], None]] = {
    b"\x80": lambda reader: reader.skip(1),  # PROTO
    b"\x95": lambda reader: reader.skip(8),  # FRAME
    b"(": lambda reader: reader.stack.append(_MARK),
    b"}": lambda reader: reader.stack.append({}),
    b"]": lambda reader: reader.stack.append([]),
    b")": lambda reader: reader.stack.append(()),
    b"N": lambda reader: reader.stack.append(None),
    b"\x88": lambda reader: reader.stack.append(True),
    b"\x89": lambda reader: reader.stack.append(False),
    b"K": _push(lambda reader: reader.number("<B")),
    b"M": _push(lambda reader: reader.number("<H")),
    b"J": _push(lambda reader: reader.number("<i")),
    b"\x8a": _push(lambda reader: reader.long()),
    b"G": _push(lambda reader: reader.number(">d")),
    b"X": _text("<I"),
    b"\x8c": _text("<B"),
    b"\x8d": _text("<Q"),
    b"T": _text("<I"),
    b"U": _text("<B"),
    b"B": _bytes("<I"),
    b"C": _bytes("<B"),
    b"q": _memo("<B"),
    b"r": _memo("<I"),
    b"\x94": lambda reader: reader.memo.__setitem__(len(reader.memo), reader.stack[-1]),
    b"h": _push(lambda reader: reader.memo[reader.number("<B")]),
    b"j": _push(lambda reader: reader.memo[reader.number("<I")]),
    b"t": lambda reader: reader.stack.append(tuple(reader.marked())),
    b"\x85": lambda reader: reader.tuple_of(1),
    b"\x86": lambda reader: reader.tuple_of(2),
    b"\x87": lambda reader: reader.tuple_of(3),
    b"e": lambda reader: reader.append(reader.marked()),
    b"a": lambda reader: reader.append([reader.stack.pop()]),
    b"u": lambda reader: reader.set_items(reader.marked()),
    b"s": lambda reader: reader.set_items(reader.pair()),
    b"0": lambda reader: reader.stack.pop(),
}
"""The opcodes of plain values. None of them imports, calls or builds anything else."""


# --- judging -------------------------------------------------------------------------------------------------------------------

_NAME = re.compile(r"(?:^|[^0-9])(\d{1,6})$")
_PIPES = re.compile(r"(?i)pipeline|\bpp\b|_pp|p2p|embedding")


def rank_of(file_name: str) -> int | None:
    """The rank in a dump's file name: `_dump_12`, `nccl_trace_rank_12`."""
    match = _NAME.search(file_name.removesuffix(".json").removesuffix(".pickle").removesuffix(".pkl"))
    return int(match[1]) if match else None


def blame(dumps: Mapping[int, Mapping[str, Any]]) -> Blame:
    """Who held the collectives up, from one dump a rank. Nobody when the dumps do not tell."""
    missing = tuple(sorted(_members(dumps) - set(dumps))[:MOST_RANKS])
    idle = _idle(dumps)
    if idle:
        return Blame(
            idle, f"Rank {_words(idle)} has no pending collective while most others wait: it is stuck before its call.", missing
        )
    diverged = _diverged(dumps)
    if diverged:
        return diverged._replace(missing=missing)
    lagging = _lagging(dumps)
    if lagging:
        return Blame(lagging, f"Rank {_words(lagging)} lags behind its peers in most of its process groups.", missing)
    return Blame((), "The dumps show no rank that lags behind the others.", missing)


def _words(ranks: tuple[int, ...]) -> str:
    return ", ".join(map(str, ranks[:8]))


def _entries(dump: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    entries = dump.get("entries", [])
    return [entry for entry in entries[:MOST_ENTRIES] if isinstance(entry, dict)] if isinstance(entries, list) else []


def _idle(dumps: Mapping[int, Mapping[str, Any]]) -> tuple[int, ...]:
    """Ranks without a pending entry while most hold some: stalled on the side of the processor."""
    pending = {rank: any(entry.get("state") != "completed" for entry in _entries(dump)) for rank, dump in dumps.items()}
    busy = sum(pending.values())
    if len(dumps) < 2 or busy <= MOST_PENDING * len(dumps):
        return ()
    return tuple(sorted(rank for rank, waits in pending.items() if not waits))


def _lagging(dumps: Mapping[int, Mapping[str, Any]]) -> tuple[int, ...]:
    """Ranks below the maximum of completed collectives in at least two groups, and in half as many as the worst one."""
    groups: dict[tuple[str, str], dict[int, int]] = {}
    for rank, dump in dumps.items():
        for key, completed in _completed(dump).items():
            groups.setdefault(key, {})[rank] = completed
    lags: Counter[int] = Counter()
    for progress in groups.values():
        most = max(progress.values())
        lags.update(rank for rank, completed in progress.items() if completed < most)
    worst = max(lags.values(), default=0)
    return tuple(sorted(rank for rank, count in lags.items() if count >= FEWEST_GROUPS and count >= worst / 2))


def _diverged(dumps: Mapping[int, Mapping[str, Any]]) -> Blame | None:
    """The same sequence number of a group with another operation on some ranks."""
    calls: dict[tuple[str, str, int], dict[str, list[int]]] = {}
    for rank, dump in dumps.items():
        for entry in _entries(dump):
            name, description = _name(entry)
            number = entry.get("collective_seq_id")
            members = _ranks_of(dump, name)
            if (
                entry.get("is_p2p")
                or entry.get("state") == "completed"
                or not isinstance(number, int)
                or _PIPES.search(description)
            ):
                continue
            operation = str(entry.get("profiling_name"))[:80]
            calls.setdefault((description, members, number), {}).setdefault(operation, []).append(rank)
    for (description, _, number), by_operation in sorted(calls.items()):
        if len(by_operation) > 1:
            return _odd_ones(description, number, by_operation)
    return None


def _odd_ones(description: str, number: int, by_operation: dict[str, list[int]]) -> Blame:
    usual = max(by_operation, key=lambda operation: len(by_operation[operation]))
    odd = sorted({rank for operation, ranks in by_operation.items() if operation != usual for rank in ranks})
    few = tuple(odd) if len(odd) < len(by_operation[usual]) else ()
    others = ", ".join(sorted(set(by_operation) - {usual})[:3])
    who = f"In group {description}, call {number}, rank {_words(tuple(odd))} runs {others} and the others {usual}"
    why = f"{who}: the code takes different ways."
    return Blame(few, why, diverged=True)


def _ranks_of(dump: Mapping[str, Any], name: str) -> str:
    configs = dump.get("pg_config")
    config = configs.get(name) if isinstance(configs, dict) else None
    return str(config.get("ranks", ""))[:MOST_RANKS] if isinstance(config, dict) else ""


def _completed(dump: Mapping[str, Any]) -> dict[tuple[str, str], int]:
    """The last completed collective of each process group, by description and members; pipeline groups are left out."""
    names = {str(entry.get("pg_id")): _name(entry) for entry in _entries(dump)}
    status = dump.get("pg_status")
    found: dict[tuple[str, str], int] = {}
    for pg_id, said in status.items() if isinstance(status, dict) else ():
        name, description = names.get(str(pg_id), ("", ""))
        members = _ranks_of(dump, name)
        completed = said.get("last_completed_collective") if isinstance(said, dict) else None
        if isinstance(completed, int) and (name or description) and not _PIPES.search(description):
            found[description, members] = completed
    return found


def _name(entry: Mapping[str, Any]) -> tuple[str, str]:
    group = entry.get("process_group")
    if isinstance(group, tuple | list) and len(group) >= 2:
        return str(group[0])[:200], str(group[1])[:200]
    return "", ""


def _members(dumps: Mapping[int, Mapping[str, Any]]) -> set[int]:
    """All ranks that the dumps' process groups name."""
    members: set[int] = set()
    for dump in list(dumps.values())[:8]:
        configs = dump.get("pg_config")
        for config in configs.values() if isinstance(configs, dict) else ():
            ranks = config.get("ranks") if isinstance(config, dict) else None
            said = (
                re.findall(r"\d{1,7}", ranks[: MOST_RANKS * 8])
                if isinstance(ranks, str)
                else ranks
                if isinstance(ranks, list)
                else []
            )
            members |= {int(rank) for rank in said[:MOST_RANKS] if isinstance(rank, int | str)}
    return members
