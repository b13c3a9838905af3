"""Where a job's output lies: Slurm's filename patterns, filled in as slurmd fills them in for a batch script."""

import os
import re
from dataclasses import dataclass

_PATTERN = re.compile(r"%([0-9]*)([%AaJjNnstux])")

NO_TASK = 4294967294
"""What Slurm writes for %a in a job that is no array."""

WIDEST = 10
"""Slurm pads to ten digits at most."""


@dataclass(frozen=True)
class Names:
    """What the patterns stand for. `number` is the job's own number, which for a task of an array isn't the array's."""

    number: int
    array: int = 0
    task: int | None = None
    name: str = ""
    user: str = ""
    first_node: str = ""
    folder: str = ""


def log_path(pattern: str, names: Names) -> str:
    """The absolute path of the log; `pattern` empty stands for Slurm's default name."""
    if not pattern:
        pattern = "slurm-%A_%a.out" if names.array else "slurm-%j.out"
    return os.path.join(names.folder or "/", expanded(pattern, names))


def expanded(pattern: str, names: Names) -> str:
    """The pattern with its letters filled in; a backslash in it turns that off, as in Slurm."""
    if "\\" in pattern:
        return pattern.replace("\\", "")
    values: dict[str, str | int] = {
        "%": "%",
        "A": names.array or names.number,
        "a": NO_TASK if names.task is None else names.task,
        "J": names.number,
        "j": names.number,
        "N": names.first_node.partition(".")[0],
        "n": 0,
        "s": "batch",
        "t": 0,
        "u": names.user,
        "x": names.name,
    }

    def fill(found: re.Match[str]) -> str:
        value = values[found[2]]
        width = min(int(found[1] or 0), WIDEST)
        return f"{value:0{width}d}" if isinstance(value, int) else value

    return _PATTERN.sub(fill, pattern)
