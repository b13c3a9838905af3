"""Exit codes of `rerail`, as docs/cli.md tells them."""

from enum import IntEnum

from rerail.errors import Malformed, Misconfigured, NotFound, NotYet, RerailError, Transient
from rerail.records import Outcome, Result


class Exit(IntEnum):
    """How a verb ended, for scripts."""

    OK = 0
    NO = 1
    """The answer is no: refused, decided already, closed."""
    USAGE = 2
    """Wrong use or wrong settings."""
    UNREACHABLE = 3
    """Temporal or the workers do not answer."""
    NOT_FOUND = 4
    TOO_LATE = 5
    """Time ran out: of `wait`, or of the approval."""
    NOT_RECOVERED = 6
    """The incident ended otherwise than recovered."""
    DEFECT = 70
    """An error nobody foresaw (EX_SOFTWARE of sysexits.h)."""
    INTERRUPTED = 130
    """Ctrl-C, as shells count it: 128 + SIGINT."""
    BROKEN_PIPE = 141
    """Whoever read the output went away: 128 + SIGPIPE."""


BY_ERROR: tuple[tuple[type[RerailError], Exit], ...] = (
    (NotYet, Exit.TOO_LATE),
    (NotFound, Exit.NOT_FOUND),
    (Malformed, Exit.USAGE),
    (Misconfigured, Exit.USAGE),
    (Transient, Exit.UNREACHABLE),
    (RerailError, Exit.NO),
)
"""The first that fits."""


def of_error(error: RerailError) -> Exit:
    """The exit code of an error."""
    return next(code for sort, code in BY_ERROR if isinstance(error, sort))


def of_outcome(outcome: Outcome) -> Exit:
    """The exit code of how an incident ended."""
    return {Result.RECOVERED: Exit.OK, Result.EXPIRED: Exit.TOO_LATE}.get(outcome.result, Exit.NOT_RECOVERED)
