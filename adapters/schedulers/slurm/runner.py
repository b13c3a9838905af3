"""How a command gets to the cluster: on this host, or over a link. All that differs between the two ways in is here."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True)
class Ran:
    """A command that ran to its end."""

    rc: int
    stdout: bytes = b""
    stderr: bytes = b""


@runtime_checkable
class Runner(Protocol):
    """Runs one command line without a shell."""

    def run(self, argv: Sequence[str], deadline_s: float) -> Ran:
        """Its exit status and output, within `deadline_s` seconds.

        Misconfigured when there is no such command; Transient when it surely did not start; OutcomeUnknown when it may have run:
        the deadline passed, the link was lost in the middle, it printed more than anyone wants to read.
        """
        ...
