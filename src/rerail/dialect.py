"""A site's dialect: the signatures that it adds to ours, and how its own loops print their steps."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from rerail import signatures
from rerail.readers import progress
from rerail.signatures import Signature


@dataclass(frozen=True)
class Dialect:
    """What a job's log is read with."""

    rows: tuple[Signature, ...] = signatures.ALL
    steps: str = ""
    """A pattern of progress lines; see `progress.mark`."""

    @classmethod
    def load(cls, files: Iterable[Path] = (), steps: str = "") -> Self:
        """Ours and the rows of `files`. Raises Misconfigured, with file and line, for a bad row, and for a bad pattern."""
        progress.check(steps)
        rows = signatures.ALL
        for file in files:
            rows += signatures.load_site_rows(file, known=rows)
        return cls(rows, steps)
