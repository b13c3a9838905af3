"""The shapes that a fact takes in Slurm's JSON from 22.05 to 26.11; what can't be understood is unknown, never an error."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from rerail import hostlist

NO_VALUES = 0xFFFF_FFF0
"""Slurm writes "infinite" and "no value" as the highest numbers of 32 bits."""

LONGEST_TEXT = 4096
"""Characters kept of a name, reason or comment (Slurm's comments have 1,024); paths have their own end."""


def number(value: Any) -> int | None:
    """From int, null, or {set, infinite, number}."""
    if isinstance(value, Mapping):
        known = value.get("set", True) and not value.get("infinite", False)
        return number(value.get("number")) if known else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value < NO_VALUES else None


def text(value: Any) -> str:
    """From a string or null."""
    return value[:LONGEST_TEXT] if isinstance(value, str) else ""


def flag(value: Any, unknown: bool) -> bool:
    """From a boolean, a number, or nothing."""
    if isinstance(value, bool):
        return value
    found = number(value)
    return unknown if found is None else found != 0


def moment(value: Any) -> datetime | None:
    """From seconds since 1970; 0 is Slurm's "not yet"."""
    seconds = number(value)
    return datetime.fromtimestamp(seconds, UTC) if seconds else None


def words(value: Any) -> tuple[str, ...]:
    """From "RUNNING", ["RUNNING", "COMPLETING"] or {"current": either}; upper case."""
    if isinstance(value, Mapping):
        value = value.get("current")
    if isinstance(value, str):
        value = value.replace("+", " ").split()
    return tuple(str(word).upper() for word in value) if isinstance(value, list) else ()


def nodes(value: Any) -> tuple[str, ...]:
    """From "", null, a hostlist, a list of names or of {name} or {nodename}, or {list} or {nodes} of these."""
    if isinstance(value, Mapping):
        inner = next(
            (value[key] for key in ("list", "nodes", "allocation", "allocated_nodes", "name", "nodename") if value.get(key)), ""
        )
        return nodes(inner)
    if isinstance(value, list):
        return tuple(dict.fromkeys(name for item in value for name in nodes(item)))
    try:
        return hostlist.expand(value) if isinstance(value, str) else ()
    except ValueError:
        return ()


def exit_status(value: Any) -> tuple[int | None, int | None]:
    """Exit code and signal, from a raw wait status (22.05, 23.02) or {return_code, signal: {id or signal_id}} (23.11 on)."""
    if isinstance(value, Mapping) and ("return_code" in value or "signal" in value):
        by = value.get("signal")
        by = (by.get("id", by.get("signal_id")) if isinstance(by, Mapping) else by) or None
        return number(value.get("return_code")), number(by) or None
    raw = number(value)
    return (None, None) if raw is None else (raw >> 8, raw & 0x7F or None)
