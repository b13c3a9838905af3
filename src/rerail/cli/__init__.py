"""The command `rerail`: what people type anywhere. It speaks to Temporal, and does pure things offline.

Who may live here: verbs, what they show, and how they end. What is heavy is imported by the verb that needs it.
"""

import os
import sys
from contextlib import suppress

__all__ = ["main"]


def main() -> None:
    """Run the command line and leave with its exit code."""
    from rerail.cli.app import app

    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]  # an old terminal shall not break a sentence
    try:
        app(prog_name="rerail")
    except SystemExit as leaving:
        leave(leaving.code if isinstance(leaving.code, int) else 0)


def leave(code: int) -> None:
    """End the process. With Temporal's native threads running, the interpreter's teardown now and then aborts (1 in 12)."""
    if "temporalio" not in sys.modules:
        raise SystemExit(code)
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)
