"""What the documents say is there: links, paths, commands, states."""

import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
import typer

from rerail import names
from rerail.cli.app import app
from rerail.records import Result, Stage
from tests.house.checkout import ROOT, files, modules
from workers.__main__ import parser

DOCS = tuple(path for path in files() if path.suffix == ".md" and path.parts[0] != "tests")

SCREEN_LINES = 50
"""A README that fits on one screen."""

LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")
HEADING = re.compile(r"^#+ (.+)", re.MULTILINE)
MAKE = re.compile(r"\bmake ([a-z][a-z-]*)\b")
ROOMS = ("src", "policies", "workflows", "activities", "adapters", "workers", "demo", "tests", "docs", "requirements")


def text(path: Path) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def snippets(path: Path) -> list[str]:
    """Everything that is set as code, in a line or in a block of its own."""
    return [*CODE.findall(text(path)), *(line.split("  #")[0].strip() for line in text(path).splitlines() if line[:4] == "    ")]


def said(start: str) -> Iterator[tuple[str, str]]:
    """Commands of the documents that begin with `start`, each with its document."""
    for path in DOCS:
        for snippet in snippets(path):
            for command in re.split(r" (?:&&|\||then) ", snippet):
                if command.startswith(start):
                    yield str(path), command


def anchors(path: Path) -> set[str]:
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in HEADING.findall(text(path))}


@pytest.mark.parametrize("path", DOCS, ids=str)
def test_every_link_leads_somewhere(path: Path) -> None:
    lost = []
    for link in LINK.findall(text(path)):
        parts = urlsplit(link)
        if parts.scheme:
            continue
        target = (ROOT / path.parent / unquote(parts.path)) if parts.path else ROOT / path
        if not target.exists() or (parts.fragment and parts.fragment not in anchors(target.relative_to(ROOT))):
            lost.append(link)
    assert lost == []


@pytest.mark.parametrize("path", DOCS, ids=str)
def test_every_path_that_is_named_exists(path: Path) -> None:
    here = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "rerail.example.yaml")
    named = [s for s in CODE.findall(text(path)) if re.fullmatch(r"[\w./-]+", s)]
    paths = [s for s in named if s.startswith(tuple(f"{room}/" for room in ROOMS)) or s in here]
    assert [s for s in paths if not (ROOT / s).exists()] == []


def test_the_readme_fits_on_one_screen() -> None:
    assert len(text(Path("README.md")).splitlines()) <= SCREEN_LINES


def test_every_make_verb_that_is_named_exists() -> None:
    verbs = set(re.findall(r"^([a-z-]+):", text(Path("Makefile")), re.MULTILINE))
    named = {verb for path in DOCS for snippet in snippets(path) for verb in MAKE.findall(snippet)}
    assert named
    assert named <= verbs


def test_every_command_of_the_service_is_understood() -> None:
    commands = [(where, c) for where, c in said("python -m workers ") if not c.endswith(("VERB", "..."))]
    assert commands
    refused = []
    for where, command in commands:
        for spelt in alternatives(command):
            with contextlib.redirect_stderr(io.StringIO()) as told:
                try:
                    parser().parse_args(shlex.split(spelt)[3:])
                except SystemExit:
                    refused.append((where, spelt, told.getvalue()))
    assert refused == []


def test_every_command_of_people_is_understood() -> None:
    root = typer.main.get_command(app)
    commands = list(said("rerail "))
    assert commands
    refused = []
    for where, command in commands:
        for spelt in alternatives(command):
            if why := misunderstood(root, shlex.split(spelt)[1:]):
                refused.append((where, spelt, why))
    assert refused == []


def alternatives(command: str) -> list[str]:
    """`a b|c d` says two commands."""
    found = re.search(r"\S+\|\S+", command)
    return [command.replace(found[0], one) for one in found[0].split("|")] if found else [command]


def misunderstood(root: Any, words: list[str]) -> str:
    """Why the command line would be refused; a verb that is named alone only has to exist."""
    commands = getattr(root, "commands", {})
    if words[0] not in commands:
        return "" if words[0].startswith("--") else "no such verb"
    if len(words) == 1 or words[1:] == ["..."]:
        return ""
    try:
        commands[words[0]].make_context(words[0], words[1:], resilient_parsing=False)
    except Exception as error:  # whatever the parser refuses with
        return f"{type(error).__name__}: {error}"
    return ""


def test_the_bookmark_filters_what_waits() -> None:
    link = next(one for one in LINK.findall(text(Path("README.md"))) if "/workflows?" in one)
    assert parse_qs(urlsplit(link).query)["query"] == [f'{names.SA_STAGE}="{Stage.AWAITING_APPROVAL}"']


def test_each_state_to_be_stuck_in_has_a_runbook() -> None:
    """Stages pass by themselves except when they don't; of the results, these leave the job as broken as it was."""
    told = text(Path("docs/runbooks/README.md"))
    stuck = {*Stage} - {Stage.CLOSED} | {Result.EXPIRED, Result.REFUSED, Result.VOIDED, Result.FAILED}
    assert [s for s in stuck if f"`{s}`" not in told and f"({s.replace('_', '-')}.md)" not in told] == []


def test_every_runbook_is_listed_and_every_runbook_that_code_names_exists() -> None:
    listed = set(LINK.findall(text(Path("docs/runbooks/README.md"))))
    assert listed == {path.name for path in DOCS if path.parent == Path("docs/runbooks")} - {"README.md"}
    shipped = "\n".join(text(path) for path in modules("src", "workflows", "activities", "workers"))
    named = set(re.findall(r"docs/[\w/.-]+\.md", shipped))
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_contributing_has_the_five_recipes() -> None:
    recipes = {"A signature", "A detector", "A scheduler", "A policy rule", "A notification channel"}
    assert recipes <= set(HEADING.findall(text(Path("CONTRIBUTING.md"))))


def test_decisions_are_numbered_without_a_gap() -> None:
    numbers = sorted(int(path.name[:4]) for path in DOCS if path.parent == Path("docs/decisions"))
    assert numbers == list(range(1, len(numbers) + 1))


def test_the_map_names_every_room_and_every_workflow() -> None:
    shown = text(Path("ARCHITECTURE.md"))
    rooms = {
        f"{path.parts[0]}/" for path in modules("policies", "workflows", "activities", "adapters", "workers", "demo", "tests")
    }
    rooms |= {f"src/rerail/{path.parts[2]}/" for path in modules("src") if len(path.parts) > 3}
    rooms |= {f"{path.parts[1]}/" for path in modules("adapters") if len(path.parts) > 2}
    workflows = {names.WATCH_CLUSTER, names.WATCH_JOB, names.REMEDIATE_JOB, names.GUARD_CLUSTER}
    assert [name for name in {*rooms, *workflows} if name not in shown] == []
