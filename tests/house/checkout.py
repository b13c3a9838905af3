"""What is committed, and what of it is Python."""

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

SHIPPED = ("src", "policies", "workflows", "activities", "adapters", "console", "workers", "demo", "bench")
"""Folders whose code runs outside the tests."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def files() -> tuple[Path, ...]:
    """All committed files, relative to the root; `git` has to know the checkout."""
    argv = ["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), "ls-files", "-z"]
    listed = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.split("\0")
    return tuple(Path(name) for name in listed if name and (ROOT / name).exists())


def modules(*folders: str) -> tuple[Path, ...]:
    """The committed Python files of those top-level folders."""
    return tuple(path for path in files() if path.suffix == ".py" and path.parts[0] in folders)


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse((ROOT / path).read_text(encoding="utf-8"))


def functions(*folders: str) -> Iterator[tuple[Path, Function]]:
    for path in modules(*folders):
        for node in ast.walk(tree(path)):
            if isinstance(node, Function):
                yield path, node


def length(function: Function) -> int:
    """Lines from `def` to the last one; decorators and docstring belong to the reader, not to the breath."""
    body = function.body
    said = ast.get_docstring(function) is not None
    end = function.end_lineno or function.lineno
    first = body[0]
    return end - function.lineno + 1 - ((first.end_lineno or 0) - first.lineno + 1 if said else 0)
