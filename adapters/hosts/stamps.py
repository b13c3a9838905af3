"""The time at the beginning of a kernel log's line: ISO 8601, syslog, or `dmesg -T`."""

import re
from datetime import datetime, timedelta, tzinfo
from functools import lru_cache

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
HALF_A_YEAR = timedelta(days=182)
_PRIORITY = rb"(?:<\d{1,3}>)?"  # as the kernel itself writes it
_CLOCK = rb"(?P<clock>\d{2}:\d{2}:\d{2})"

ISO = re.compile(
    _PRIORITY
    + rb"\[?(?P<day>\d{4}-\d{2}-\d{2})[T ]"
    + _CLOCK
    + rb"(?:[.,](?P<part>\d{1,9}))?\s?(?P<zone>Z|[+-]\d{2}:?\d{2})?(?=[\s\]:]|$)"
)
SYSLOG = re.compile(_PRIORITY + rb"(?P<month>[A-Z][a-z]{2}) {1,2}(?P<day>\d{1,2}) " + _CLOCK + rb"(?:\.\d{1,9})?(?=\s|$)")
DMESG_T = re.compile(
    _PRIORITY + rb"\[[A-Z][a-z]{2} (?P<month>[A-Z][a-z]{2}) {1,2}(?P<day>\d{1,2}) " + _CLOCK + rb" (?P<year>\d{4})\]"
)


def stamp(line: bytes, near: datetime, zone: tzinfo | None) -> datetime | None:
    """When `line` says that it was written, or None where it does not say.

    `near` (aware) chooses the year where a line has none: that with the nearest time. `zone` is the node's, for times
    without one; None means this machine's own.
    """
    for read in (_iso, _dmesg, _syslog):
        try:
            found = read(line, near)
        except (ValueError, OverflowError):  # a 31 November, an hour 25
            return None
        if found is not None:
            return found if found.tzinfo else (found.replace(tzinfo=zone) if zone else found.astimezone())
    return None


def _iso(line: bytes, near: datetime) -> datetime | None:
    match = ISO.match(line)
    if match is None:
        return None
    part = (match["part"] or b"0")[:6].ljust(6, b"0")
    zone = (match["zone"] or b"").replace(b"Z", b"+00:00")
    return datetime.fromisoformat(f"{match['day'].decode()}T{match['clock'].decode()}.{part.decode()}{zone.decode()}")


def _dmesg(line: bytes, near: datetime) -> datetime | None:
    match = DMESG_T.match(line)
    return None if match is None else _at(match, int(match["year"]))


def _syslog(line: bytes, near: datetime) -> datetime | None:
    match = SYSLOG.match(line)
    if match is None:
        return None
    plain = near.replace(tzinfo=None)
    usual = _at(match, near.year)
    if usual is not None and abs(usual - plain) < HALF_A_YEAR:
        return usual
    around = (_at(match, near.year - 1), usual, _at(match, near.year + 1))
    return min((one for one in around if one is not None), key=lambda one: abs(one - plain), default=None)


def _at(match: re.Match[bytes], year: int) -> datetime | None:
    day = _midnight(year, match["month"], match["day"])
    clock = match["clock"]
    return day and day + timedelta(hours=int(clock[:2]), minutes=int(clock[3:5]), seconds=int(clock[6:]))


@lru_cache(maxsize=64)  # a log has ten thousand lines a day
def _midnight(year: int, month: bytes, day: bytes) -> datetime | None:
    """None where there is no such day: 29 February of another year, or no month at all."""
    try:
        return datetime(year, MONTHS.index(month.decode()) + 1, int(day))  # noqa: DTZ001 - the zone follows
    except ValueError:
        return None
