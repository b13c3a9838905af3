"""What launchers and loggers put in front of a line: rank, host, time; and the body behind it."""

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import NamedTuple


class Prefix(NamedTuple):
    """What stood in front. `task` is a launcher's own counter (srun --label): a rank only where each task is one."""

    rank: int | None = None
    task: int | None = None
    local: int | None = None
    host: str = ""
    at: datetime | None = None
    """Naive where the line names no zone; an aware time is turned into UTC and then made naive."""
    body: str = ""


_MONTHS = {m: i for i, m in enumerate(["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"], 1)}
_CLOCK = r"(?P<hour>\d{2}):(?P<minute>\d{2}):(?P<second>\d{2})(?:[.,](?P<fraction>\d{1,9}))?"

# Each row is tried at the place where the one before it ended; examples are in tests/library/test_prefixes.py.
_ROWS = (
    r"\[rank\s?(?P<rank>\d{1,7})\]:?\s*",  # PyTorch: [rank7]: , [rank 7] , [Rank 7]
    r"rank\s?(?P<rank>\d{1,7})\s?[:|]\s+",  # a site's own: rank 7:
    r"\[\d+,(?P<rank>\d{1,7})\]<std(?:out|err|diag)>:\s?",  # mpirun --tag-output: [1,2]<stdout>:
    r"\[default(?P<local>\d{1,4})\]:\s?",  # torchrun --tee: local rank
    r"\(?\[?pod/(?P<host>[\w.-]{1,100})/[\w.-]{1,100}\]?\s+",  # kubectl logs --prefix
    r"\[(?:process|proc|task|host)[ =:#](?P<task>\d{1,6})\]:?\s+",  # JAX and sites' own: [process 2]
    r"\[[A-Za-z][\w.-]{0,30}\]:?\s+(?=\[?\d{4}[-/]\d{2}[-/]\d{2}[T ])",  # a logger's tag before its time: [titan] 2025-09-14
    r"\((?:[\w.:@-]{1,80} )?pid=\d{1,9}(?:, ip=(?P<host>[\w.:-]{1,64}))?\)\s?",  # Ray
    r"(?P<task>\d{1,6}): ?",  # srun --label
    r"\[?(?P<year>\d{4})[-/](?P<month>\d{2})[-/](?P<day>\d{2})[T_ ]" + _CLOCK + r"\s?(?P<zone>Z|[+-]\d{2}:?\d{2}(?!\d))?\]?:?\s*",
    r"\[?[IWEF](?P<month>\d{2})(?P<day>\d{2}) " + _CLOCK + r"\s+",  # glog: E1201 03:23:52.724000
    r"\[?(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) )?(?P<name>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\s+(?P<day>\d{1,2}) "
    + _CLOCK
    + r"(?: (?P<year>\d{4}))?\]?:?\s*",
    r"\[(?:INFO|DEBUG|WARN|WARNING|ERROR|CRITICAL|FATAL)\]:?\s*",
    r"(?:INFO|DEBUG|WARN|WARNING|ERROR|CRITICAL|FATAL)[:|]\s+",
    r"DLL\s+",  # NVIDIA's DLLogger
    r"(?P<host>[A-Za-z][\w.-]{0,80}\d[\w.-]{0,60}|[a-z][a-z0-9]{1,20})(?: \||:)\s(?!\d+%)",  # pdsh, stern: node17: , worker-0 |
)
_PIECES = tuple(re.compile(row, re.IGNORECASE if "rank" in row else 0) for row in _ROWS)


def _openers(row: str) -> str:
    """What a row can begin with: a bracket, 0 for a digit, a for a letter."""
    opens = ""
    for mark in "([":
        if row.startswith(f"\\{mark}"):
            opens, row = opens + mark, row[2:]
            if not row.startswith("?"):
                return opens
            row = row[1:]
    return opens + ("0" if re.match(r"(?:\(\?P<\w+>)?\\d", row) else "a")


_OPENED_BY = {
    kind: tuple(piece for piece, row in zip(_PIECES, _ROWS, strict=True) if kind in _openers(row))
    for kind in ("[", "(", "0", "a")
}
"""Most lines have nothing in front, and asking all rows so takes longest."""

_MOST_PIECES = 8
_NO_HOSTS = frozenset(
    [
        "srun",
        "slurmstepd",
        "slurmd",
        "error",
        "warning",
        "info",
        "debug",
        "traceback",
        "mpirun",
        "prterun",
        "orterun",
        "step",
        "steps",
        "loss",
        "epoch",
        "iter",
        "iteration",
        "time",
        "torch",
        "note",
        "usage",
        "python",
        "python3",
        "bash",
        "sh",
        "kernel",
        "node",
        "host",
        "rank",
        "train",
        "training",
        "val",
        "eval",
        "ray",
        "accelerate",
        "deepspeed",
        "wandb",
        "cuda",
        "nccl",
        "ucx",
        "pmix",
    ]
)


def read(line: str, year: int | None = None) -> Prefix:
    """Split a line into what stands in front and the body. `year` completes times that name none."""
    found: dict[str, str] = {}
    moment: datetime | None = None
    at = len(line) - len(line.lstrip(" \t>"))
    for _ in range(_MOST_PIECES):
        match = _next(line, at)
        if match is None:
            break
        groups = {name: value for name, value in match.groupdict().items() if value is not None}
        if "hour" in groups and moment is None:
            moment = _moment(groups, year)
        for name in ("rank", "task", "local", "host"):
            if name in groups:
                found.setdefault(name, groups[name])
        at = match.end()
    return Prefix(
        _number(found, "rank"), _number(found, "task"), _number(found, "local"), found.get("host", ""), moment, line[at:]
    )


def _next(line: str, at: int) -> re.Match[str] | None:
    """The first piece that stands at this place."""
    first = line[at : at + 1]
    kind = "a" if first.isascii() and first.isalpha() else "0" if first.isdecimal() else first
    for piece in _OPENED_BY.get(kind, ()):
        match = piece.match(line, at)
        if match and match.end() > at and not _is_a_word(match):
            return match
    return None


def _is_a_word(match: re.Match[str]) -> bool:
    """True when what looks like a host is a word of the message."""
    host = match.groupdict().get("host")
    return host is not None and host.lower() in _NO_HOSTS


def _number(found: dict[str, str], name: str) -> int | None:
    return int(found[name]) if name in found else None


def _moment(groups: dict[str, str], year: int | None) -> datetime | None:
    """The naive time that a prefix names, in UTC when it tells its zone; None when it is no time."""
    try:
        month = _MONTHS[groups["name"]] if "name" in groups else int(groups["month"])
        fraction = int(groups.get("fraction", "0").ljust(6, "0")[:6])
        clock = (int(groups["hour"]), int(groups["minute"]), int(groups["second"]), fraction)
        moment = datetime(int(groups.get("year") or year or 1970), month, int(groups["day"]), *clock)  # noqa: DTZ001
        return _unzoned(moment, groups["zone"]) if "zone" in groups else moment
    except (ValueError, OverflowError):
        return None


def _unzoned(moment: datetime, zone: str) -> datetime:
    if zone == "Z":
        return moment
    sign = -1 if zone[0] == "-" else 1
    offset = timezone(sign * timedelta(hours=int(zone[1:3]), minutes=int(zone[-2:])))
    return moment.replace(tzinfo=offset).astimezone(UTC).replace(tzinfo=None)
