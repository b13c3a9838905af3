"""What a job's owner wishes of us, in the job's comment: `{"rerail": {...}}`, or AJR's `{"APS": {...}}`, its scripts unchanged.

A job may ask for less than the cluster's mode and limits allow, never for more. The comment is a stranger's text: what can't be
understood is told, and until it can be, a person is asked before anything is done to the job.
"""

import json
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NoReturn

from rerail.records import Mode, Record

COMMENT_MAX = 4096
"""Characters looked at; Slurm keeps 1,024."""

BRACES_MAX = 64
"""Places at which JSON may begin that are tried: bounds the time that a hostile comment takes."""

COUNT_MAX = 1000
"""Restarts that a job may name; more is no wish, and the cluster's own limits hold anyway."""

TEXT_MAX = 200
TOLD_MAX = 8
"""Complaints kept: the first few tell it."""

OURS, AJR = "rerail", "APS"

MEANT = {key: re.compile(rf"\b{key}\b[\"']?\s{{0,9}}:\s{{0,9}}\{{") for key in (OURS, AJR)}
"""What was meant as our JSON though it is none: single quotes, a brace too few."""

WORD = "rerail_says"
"""Our own word to the owner stands under this key; see `policies.comment`."""


class Wishes(Record):
    """What the owner wishes. The default is that of a job without a comment."""

    off: bool = False
    """Not watched at all."""
    leave: str = ""
    """Watched, diagnosed and told, and never touched; the owner's reason."""
    asks: bool = False
    """A person is asked first, whatever the cluster's mode is."""
    max_restarts: int | None = None
    """Restarts by us over the job's whole life."""
    chain: bool = False
    """The job is one of a chain (--dependency=singleton): the next one goes on, this one is not sent back to the queue."""
    ajr: bool = False
    """Its script was written for AJR: it names its logs as AJR's do."""
    told: tuple[str, ...] = ()
    """What its owner should know: keys that nobody knows, wishes that are not granted."""

    @property
    def hands_off(self) -> str:
        """Why nothing may be done to the job, in a sentence; empty when something may."""
        if self.off:
            return 'its owner has switched rerail off for it ("off" in the job\'s comment)'
        return f"its owner wants it left alone: {self.leave}" if self.leave else ""


class Unclear(ValueError):
    """A value that is not of its key's type; says what would be."""


NONE = Wishes()


@lru_cache(maxsize=4096)  # a comment is read again at every look at the queue
def wishes(comment: str) -> Wishes:
    """The wishes in a comment, whatever else stands in it. Where it says one thing twice, the stricter word counts."""
    if OURS not in comment and AJR not in comment:
        return NONE
    found, broken = read(comment[:COMMENT_MAX])
    told = [f'"{key}" in the job\'s comment is no JSON that can be read; until it is, a person is asked first' for key in broken]
    wished = Wishes(asks=bool(broken))
    for key, value in found:
        for change, complaint in understood(key, value):
            told += [complaint] if complaint else []
            wished = stricter(wished, change)
    return wished.model_copy(update={"told": tuple(dict.fromkeys(told))[:TOLD_MAX]})


def stricter(wished: Wishes, change: Wishes) -> Wishes:
    """Both wishes: the lesser of what they allow."""
    counts = [count for count in (wished.max_restarts, change.max_restarts) if count is not None]
    return Wishes(
        off=wished.off or change.off,
        leave=wished.leave or change.leave,
        asks=wished.asks or change.asks,
        max_restarts=min(counts, default=None),
        chain=wished.chain or change.chain,
        ajr=wished.ajr or change.ajr,
    )


# Finding it


def read(comment: str) -> tuple[list[tuple[str, Any]], list[str]]:
    """The values under our key and AJR's, in JSON objects anywhere in the text; and the keys that stand in what is no JSON."""
    found: list[tuple[str, Any]] = []
    rest = []
    end = 0
    for value, start, stop in objects(comment):
        rest.append(comment[end:start] + "{}")
        end = stop
        found += [(key, value[key]) for key in (OURS, AJR) if key in value]
    rest.append(comment[end:])
    left = "".join(rest)
    return found, [key for key in (OURS, AJR) if MEANT[key].search(left)]


def objects(comment: str) -> Iterator[tuple[dict[str, Any], int, int]]:
    """JSON objects in a text, each with where it begins and ends."""
    decoder = json.JSONDecoder(object_pairs_hook=once, parse_constant=refuse_constant)
    at, tries = comment.find("{"), 0
    while at >= 0 and tries < BRACES_MAX:
        tries += 1
        try:
            value, stop = decoder.raw_decode(comment, at)
        except (ValueError, RecursionError):
            stop = at + 1
        else:
            yield value, at, stop
        at = comment.find("{", stop)


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; ValueError when it says a key twice, for then nobody knows which one is meant."""
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a key stands there twice")
    return made


def refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


# Understanding it


def understood(key: str, value: Any) -> Iterator[tuple[Wishes, str]]:
    """Each wish under the key, with a complaint where there is one."""
    known = KEYS[key]
    yield Wishes(ajr=key == AJR), ""
    if not isinstance(value, dict):
        yield Wishes(asks=True), f'"{key}" in the job\'s comment has to be an object; known are {", ".join(known)}'
        return
    for name, said in value.items():
        if name not in known:
            yield Wishes(), f'"{printable(name)}" under "{key}" in the job\'s comment is unknown; known are {", ".join(known)}'
            continue
        try:
            yield known[name](said)
        except Unclear as error:
            yield Wishes(asks=True), f'"{name}" under "{key}" in the job\'s comment: {error}'


def read_off(value: Any) -> tuple[Wishes, str]:
    return Wishes(off=truth(value)), ""


def read_leave(value: Any) -> tuple[Wishes, str]:
    if isinstance(value, str):
        return Wishes(leave=printable(value) or "no reason given"), ""
    return Wishes(leave="no reason given" if truth(value, 'true, false, or a reason such as "I\'m debugging"') else ""), ""


def read_mode(value: Any) -> tuple[Wishes, str]:
    """Only the stricter mode is a job's to choose."""
    if value == Mode.MONITOR:
        return Wishes(asks=True), ""
    if value == Mode.AUTONOMOUS:
        return Wishes(), "a job can't ask for autonomous mode: the cluster's settings say whether a person is asked"
    raise Unclear(f'{shown(value)} is no mode; write "monitor"')


def read_max_restarts(value: Any) -> tuple[Wishes, str]:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= COUNT_MAX:
        raise Unclear(f"{shown(value)} is no whole number from 0 to {COUNT_MAX}")
    return Wishes(max_restarts=value), ""


def read_auto_resume(value: Any) -> tuple[Wishes, str]:
    """AJR's own two ways."""
    if value == "requeue":
        return Wishes(), ""
    if value == "singleton_dependency":
        return Wishes(chain=True), ""
    raise Unclear(f'{shown(value)} is neither "requeue" nor "singleton_dependency"')


Reader = Callable[[Any], tuple[Wishes, str]]

KEYS: dict[str, dict[str, Reader]] = {
    OURS: {"off": read_off, "leave": read_leave, "mode": read_mode, "max_restarts": read_max_restarts},
    AJR: {"auto_resume_mode": read_auto_resume, "max_requeue_times": read_max_restarts},
}
"""All that may be wished."""


def truth(value: Any, expected: str = "true or false") -> bool:
    if not isinstance(value, bool):
        raise Unclear(f"{shown(value)} is not {expected}")
    return value


def shown(value: Any) -> str:
    """A stranger's value in a sentence of ours."""
    if isinstance(value, list | dict):
        return f"a value of type {type(value).__name__}"
    return printable(str(value)[:40]) or "an empty text"


def printable(text: str, most: int = TEXT_MAX) -> str:
    """One bounded line without control characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in text[:most]).split())
