"""The terminal: text of strangers loses its control characters here, and colours go to terminals alone."""

import json
import os
import sys
from collections.abc import Iterable
from typing import Any

import typer


def clean(text: object) -> str:
    """Any text on one line; what can't be printed, or moves the cursor, is shown as a dot."""
    return "".join(c if c.isprintable() else "·" for c in str(text))


def bold(text: str) -> str:
    """The loud part of a line; colours are taken out again where there is no terminal."""
    return typer.style(clean(text), bold=True)


def say(lines: Iterable[str], *, err: bool = False) -> None:
    """Lines that `clean` and `bold` have made."""
    for line in lines:
        typer.echo(line, err=err, color=False if os.environ.get("NO_COLOR") else None)


def say_json(value: Any) -> None:
    """One JSON value. Escaped to ASCII, so that nothing in it reaches a terminal as more than text."""
    typer.echo(json.dumps(value, indent=2))


def complain(sentence: object) -> None:
    """A sentence on standard error."""
    say([f"rerail: {clean(sentence)}"], err=True)


def hint(sentence: str) -> None:
    """A next step for a person; scripts need none."""
    if sys.stderr.isatty():
        say([clean(sentence)], err=True)
