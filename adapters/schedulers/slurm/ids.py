"""Job ids, node names, reasons and comments, judged before any command sees them."""

import re
from collections.abc import Sequence

from rerail.errors import Refused

_JOB = re.compile(r"[1-9][0-9]{0,9}(?:_[0-9]{1,9}|\+[0-9]{1,4})?")
"""123, a task of an array 123_4, a component of a heterogeneous job 123+1."""

_NODE = re.compile(r"(?!(?i:all)$)[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")
"""A hostname. It can't begin with a dash, so it is never taken for an option; `ALL` is Slurm's word for every node."""

MOST_NODES = 10_000
"""Names in one exclusion; more is a mistake."""


def job_id(text: str) -> str:
    """The same text, now known to be a job id; Refused otherwise."""
    if not _JOB.fullmatch(text):
        raise Refused(f"{text[:40]!r} is no Slurm job id; give 123, 123_4 for a task of an array, or 123+0")
    return text.removesuffix("+0")  # the leader's own id: Slurm takes no other for the whole job


def node_names(names: Sequence[str]) -> tuple[str, ...]:
    """The same names, now known to be hostnames; Refused otherwise."""
    if len(names) > MOST_NODES:
        raise Refused(f"{len(names)} nodes to exclude are more than {MOST_NODES}")
    for name in names:
        if not _NODE.fullmatch(name):
            raise Refused(f"{name[:40]!r} is no node name; give names as `sinfo -N` shows them")
    return tuple(names)


LONGEST_REASON = 250
LONGEST_COMMENT = 1024
"""Characters; Slurm's own limit."""


def reason(text: str) -> str:
    """The same text, now known to be one line that can be the reason of a drain; Refused otherwise."""
    if not text.strip() or len(text) > LONGEST_REASON or not text.isprintable():
        raise Refused(f"a drain needs a reason: one line of at most {LONGEST_REASON} characters without control characters")
    return text


def comment(text: str) -> str:
    """The same text, now known to be one line that can be a job's comment; Refused otherwise."""
    if len(text) > LONGEST_COMMENT or not (text.isprintable() or not text):
        raise Refused(f"a comment is one line of at most {LONGEST_COMMENT} characters without control characters")
    return text
