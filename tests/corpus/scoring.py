"""Judging a verdict against a case's labels, and both sets of cases."""

import json
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from rerail import hostlist, report, signatures
from rerail.attribution import attribute
from rerail.case import read_case
from rerail.signatures import Signature

HERE = Path(__file__).parent
CORPUS = HERE / "cases"
REAL_LOGS = HERE.parent / "reallogs" / "cases"
FIELDS = ("kind", "class", "culprit", "advice")


class Case(NamedTuple):
    """One labelled case."""

    name: str
    folder: Path
    truth: dict[str, Any]


class Judged(NamedTuple):
    """What was said of a case, and which fields are right."""

    case: Case
    said: dict[str, Any]
    right: dict[str, bool]

    @property
    def all_right(self) -> bool:
        return all(self.right.values())

    @property
    def told(self) -> str:
        wrong = [name for name, right in self.right.items() if not right]
        said = {name: self.said[name] for name in ("kind", "class", "cause", "culprit_nodes", "culprit_ranks", "advice")}
        return f"{self.case.name}: wrong {wrong}; said {said}; truth {self.case.truth}"


@cache
def cases(root: Path) -> tuple[Case, ...]:
    """All cases of a set, by name."""
    found = sorted(path for path in root.iterdir() if (path / "truth.json").exists())
    return tuple(Case(path.name, path, json.loads((path / "truth.json").read_text())) for path in found)


def judge(case: Case, rows: Sequence[Signature] = signatures.ALL) -> Judged:
    """The verdict on a case, judged. The truth lies in the folder, too, but nothing reads it there."""
    said = report.as_json(attribute(read_case(case.folder, tuple(rows))))
    accepted = {name: [case.truth[name], *case.truth.get("accept", {}).get(name, [])] for name in ("kind", "class", "advice")}
    right = {name: said[name] in values for name, values in accepted.items()}
    return Judged(case, said, {**right, "culprit": _culprit(case.truth, said)})


def _culprit(truth: dict[str, Any], said: dict[str, Any]) -> bool:
    accept = truth.get("accept", {})
    nodes = [_names(truth["culprit_nodes"]), *(_names(names) for names in accept.get("culprit_nodes", []))]
    ranks = [set(truth["culprit_ranks"]), *(set(some) for some in accept.get("culprit_ranks", []))]
    named = set(said["culprit_nodes"])
    if truth["culprit_nodes"]:
        return named in nodes
    if truth["culprit_ranks"]:
        return set(said["culprit_ranks"]) in ranks
    return not named or named in nodes[1:]


def _names(said: list[str]) -> set[str]:
    return {name for text in said for name in hostlist.expand(text)}


def hit_by(folder: Path) -> set[str]:
    """Signatures that hit any text of a case."""
    texts = [folder / "job.log", *sorted((folder / "dmesg").glob("*.log"))]
    return {hit.id for text in texts if text.exists() for hit in signatures.scan(text.read_bytes())}


def without_own_rows() -> Iterator[Judged]:
    """Each case judged without the rows that hit in no other case and in no line of the fact sheet: learnt, or memorised?"""
    every = (*cases(CORPUS), *cases(REAL_LOGS))
    hits = {case.folder: hit_by(case.folder) for case in every}
    known = {hit.id for hit in signatures.scan((HERE / "fact-sheet.txt").read_bytes())}
    for case in every:
        elsewhere = set().union(*(found for folder, found in hits.items() if folder != case.folder))
        own = hits[case.folder] - elsewhere - known
        yield judge(case, [row for row in signatures.ALL if row.id not in own])
