"""How a command gets to the cluster: on this host, or over a link. All that differs between the two ways in is here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from rerail.ports import Right

ENVIRONMENT: Final[Mapping[str, str]] = {"LC_ALL": "C.UTF-8", "TZ": "UTC0", "SLURM_TIME_FORMAT": "%s"}
"""What every way in sets for every command, and nothing else of Slurm's: times come as seconds since 1970, whatever the time zone
there. Variables such as SQUEUE_STATES or SLURM_CLUSTERS would change what commands say."""


@dataclass(frozen=True)
class Ran:
    """A command that ran to its end."""

    rc: int
    stdout: bytes = b""
    stderr: bytes = b""


@runtime_checkable
class Runner(Protocol):
    """Runs one command line without a shell, in ENVIRONMENT."""

    def rights(self) -> frozenset[Right]:
        """What it has identities for."""
        ...

    def run(self, argv: Sequence[str], deadline_s: float) -> Ran:
        """Its exit status and output, within `deadline_s` seconds.

        Misconfigured when there is no such command; Transient when it surely did not start; OutcomeUnknown when it may have run:
        the deadline passed, the link was lost in the middle, it printed more than anyone wants to read.
        """
        ...
