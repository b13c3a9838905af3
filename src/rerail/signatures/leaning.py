"""What a row leans to: the few combinations of role, class, scope, kind and advice that rows are written in."""

from typing import NamedTuple

from rerail.records import Advice, FaultClass, Kind, Role
from rerail.signatures.signature import Scope, Signature


class Leaning(NamedTuple):
    """Role, class, scope, kind and advice in one word."""

    role: Role
    fault: FaultClass
    scope: Scope
    kind: Kind
    advice: Advice | None


_ROOT, _CASCADE, _NOISE = Role.ROOT, Role.CASCADE, Role.NOISE
_HARDWARE, _SYSTEM, _APPLICATION = FaultClass.HARDWARE, FaultClass.SYSTEM, FaultClass.APPLICATION
_EXCLUDE, _RESTART, _STOP = Advice.RESTART_EXCLUDING_NODES, Advice.RESTART, Advice.STOP

FAULTY_NODE = Leaning(_ROOT, _HARDWARE, Scope.NODE, Kind.CRASH, _EXCLUDE)
"""Hardware of one machine failed."""
SICK_NODE = Leaning(_ROOT, _SYSTEM, Scope.NODE, Kind.CRASH, _EXCLUDE)
"""Driver, limits, mounts or services of one machine; the same on all nodes means configuration."""
SLOW_NODE = Leaning(_ROOT, _HARDWARE, Scope.NODE, Kind.STRAGGLER, _EXCLUDE)
"""One machine slows the job."""
STUCK_NODE = Leaning(_ROOT, _SYSTEM, Scope.NODE, Kind.HANG, _EXCLUDE)
"""One machine does not answer or does not end."""
ODD_NODE = Leaning(_ROOT, FaultClass.UNKNOWN, Scope.NODE, Kind.CRASH, _RESTART)
"""Something about one machine that nobody has a word for: quoted, never guessed."""
LOST_MEMORY = Leaning(_ROOT, _SYSTEM, Scope.RANK, Kind.CRASH, _RESTART)
"""Killed for host memory: whose fault is told by repeats."""
SERVICE = Leaning(_ROOT, _SYSTEM, Scope.SERVICE, Kind.CRASH, _RESTART)
"""A service that many share; it may recover by itself."""
SERVICE_STOP = Leaning(_ROOT, _SYSTEM, Scope.SERVICE, Kind.CRASH, _STOP)
"""A shared resource that stays short until somebody acts."""
SERVICE_HANG = Leaning(_ROOT, _SYSTEM, Scope.SERVICE, Kind.HANG, _RESTART)
"""A shared service that blocks instead of failing."""
TRANSIENT = Leaning(_ROOT, _SYSTEM, Scope.JOB, Kind.CRASH, _RESTART)
"""System trouble that belongs to no machine; a restart usually passes."""
SETUP = Leaning(_ROOT, _SYSTEM, Scope.JOB, Kind.CRASH, _STOP)
"""Configuration of the environment: the same again at each start."""
CODE = Leaning(_ROOT, _APPLICATION, Scope.RANK, Kind.CRASH, _STOP)
"""Program, model, data or options: fails again until somebody changes them."""
CODE_RETRY = Leaning(_ROOT, _APPLICATION, Scope.RANK, Kind.CRASH, _RESTART)
"""Program trouble with a race or a rare input in it: one retry is fair."""
CODE_HANG = Leaning(_ROOT, _APPLICATION, Scope.RANK, Kind.HANG, _STOP)
"""The program waits for itself."""
POLICY = Leaning(_ROOT, FaultClass.NONE, Scope.JOB, Kind.NONE, Advice.NO_ACTION)
"""Somebody's or the scheduler's will, or a regular end."""
WILL = Leaning(_CASCADE, FaultClass.NONE, Scope.JOB, Kind.NONE, Advice.NO_ACTION)
"""Traces of somebody's will, or of a clean-up that looks the same: the scheduler's record decides."""
LOST_NODE = Leaning(_ROOT, _SYSTEM, Scope.NODE, Kind.CRASH, _EXCLUDE)
"""The scheduler lost a node; why is another question."""
ECHO = Leaning(_CASCADE, FaultClass.UNKNOWN, Scope.RANK, Kind.CRASH, _RESTART)
"""A consequence: look for the earlier root."""
ECHO_HANG = Leaning(_CASCADE, FaultClass.UNKNOWN, Scope.RANK, Kind.HANG, _RESTART)
"""A wait that ran out: the reporter is usually a victim."""
ECHO_NODE = Leaning(_CASCADE, _SYSTEM, Scope.NODE, Kind.CRASH, _RESTART)
"""Context about one machine: evidence, but no verdict alone."""
ECHO_HARDWARE = Leaning(_CASCADE, _HARDWARE, Scope.NODE, Kind.CRASH, _RESTART)
"""Context about the hardware of one machine: evidence, but no verdict alone."""
ECHO_NETWORK = Leaning(_CASCADE, _SYSTEM, Scope.JOB, Kind.CRASH, _RESTART)
"""A connection broke: either end or the path."""
TREND = Leaning(_NOISE, _HARDWARE, Scope.NODE, Kind.NONE, None)
"""Goes on the node's record; no failure by itself."""
HARMLESS = Leaning(_NOISE, FaultClass.NONE, Scope.JOB, Kind.NONE, None)
"""Everybody has it."""


class Family:
    """Writes the rows of one file: shares the id's first half and the source."""

    def __init__(self, name: str, source: str) -> None:
        self._name = name
        self._source = source

    def __call__(
        self, name: str, leaning: Leaning, cause: str, pattern: str, why: str, *examples: str, **more: object
    ) -> Signature:
        """A row. `more` takes fields of Signature that differ from the leaning: source, kind, general ..."""
        fields: dict[str, object] = {
            **leaning._asdict(),
            "id": f"{self._name}.{name}",
            "cause": cause,
            "pattern": pattern.replace('\\"', '"'),  # a raw string cannot hold a bare quote
            "why": why,
            "source": self._source,
            "example": examples[0],
            "examples": examples[1:],
        }
        return Signature.model_validate(fields | more)
