"""A verdict told: the page for people, and JSON in the words of docs/vocabulary.md."""

import textwrap
from typing import Any

from rerail.readers import lines
from rerail.records import Advice, Excerpt, FaultClass, Kind, Role, Verdict

WIDTH = 110

_ADVICE = {
    Advice.RESTART_EXCLUDING_NODES: "restart, and keep the job away from",
    Advice.RESTART: "restart; nobody is to be excluded",
    Advice.STOP: "stop: it would fail again until a person changes something",
    Advice.NO_ACTION: "nothing to do",
}
_COLOURS = {Role.ROOT: "\x1b[31m", Role.CASCADE: "\x1b[33m", Role.NOISE: "\x1b[2m"}
_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"
_MARKS = {Role.ROOT: "root", Role.CASCADE: "cascade", Role.NOISE: "noise"}


def as_json(verdict: Verdict) -> dict[str, Any]:
    """The verdict as JSON values, in the words of docs/vocabulary.md; `class` is the fault class."""
    return {
        "kind": verdict.kind.value,
        "class": verdict.fault.value,
        "cause": verdict.cause,
        "culprit_nodes": list(verdict.culprit_nodes),
        "culprit_ranks": list(verdict.culprit_ranks),
        "advice": verdict.advice.value,
        "confidence": verdict.confidence,
        "evidence": [_evidence(one) for one in verdict.evidence],
        "why": verdict.why,
        "unknowns": list(verdict.unknowns),
        "rivals": list(verdict.rivals),
    }


def _evidence(one: Excerpt) -> dict[str, Any]:
    return {
        "file": one.source,
        "line": one.line,
        "excerpt": one.text,
        "role": one.role.value,
        "signature": one.signature,
        "node": one.node,
        "rank": one.rank,
        "at": one.at.isoformat() if one.at else None,
    }


def page(verdict: Verdict, colour: bool = False, width: int = WIDTH) -> str:
    """The page for people: verdict first, then the few lines that tell, in order. `colour` only for a terminal."""
    parts = [_headline(verdict, colour), "", *_wrapped(verdict.why, width), "", *_facts(verdict)]
    if verdict.evidence:
        parts += ["", "The lines that tell:", *(_line(one, colour, width) for one in verdict.evidence)]
    if verdict.rivals:
        parts += ["", "Within reach, too:", *(f"  {_clean(rival)}" for rival in verdict.rivals)]
    if verdict.unknowns:
        parts += ["", "Not known:", *(f"  {_clean(one)}" for one in verdict.unknowns)]
    return "\n".join(parts) + "\n"


def _headline(verdict: Verdict, colour: bool) -> str:
    if verdict.kind is Kind.NONE:
        said = f"No recovery needed: {verdict.cause}"
    else:
        where = "cause unknown" if verdict.fault is FaultClass.UNKNOWN else f"root cause in {verdict.fault.value}"
        said = f"{verdict.kind.value.capitalize()}: {verdict.cause}, {where}"
    return f"{_BOLD}{_clean(said)}{_PLAIN}" if colour else _clean(said)


def _facts(verdict: Verdict) -> list[str]:
    nodes = ", ".join(map(_clean, verdict.culprit_nodes))
    ranks = ", ".join(map(str, verdict.culprit_ranks[:16])) + (" ..." if len(verdict.culprit_ranks) > 16 else "")
    advice = _ADVICE[verdict.advice] + (f" {nodes}" if verdict.advice is Advice.RESTART_EXCLUDING_NODES else "")
    rows = [("Advice", advice), ("Nodes", nodes or "none can be blamed"), ("Ranks", ranks or "none can be named")]
    shown = rows if verdict.kind is not Kind.NONE else rows[:1]
    return [f"{name:<11} {text}" for name, text in (*shown, ("Confidence", f"{verdict.confidence:.0%}"))]


def _line(one: Excerpt, colour: bool, width: int) -> str:
    place = _clean(one.source) + (f":{one.line}" if one.line is not None else "")
    mark = f"{_MARKS[one.role]:<8}"
    text = lines.excerpt(f"{place}  {_clean(one.text)}", max(40, width - 12))
    return f"  {_COLOURS[one.role]}{mark}{_PLAIN} {text}" if colour else f"  {mark} {text}"


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(_clean(text), width) or [""]


def _clean(text: str) -> str:
    """No control character of a stranger reaches a terminal or a page, whatever way the text came."""
    return lines.excerpt(text, 1000)
