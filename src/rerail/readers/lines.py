"""Lines as people see them: no colours, no overwritten progress bars, no control character, bounded in length."""

import re

LONGEST_LINE = 4096
"""Bytes of a line that are looked at, half from its front and half from its end: a traceback's last line is far shorter."""

LONGEST_EXCERPT = 300
"""Characters of a line that a record may carry."""

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)|[@-Z\\-_])|\x9b[0-?]*[ -/]*[@-~]")
_ANSI_BYTES = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)|[@-Z\\-_])")
# What can hide or reorder text on a terminal or a page: C0, DEL, C1, bidirectional marks, zero-width characters, line separators.
_CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]")


def bounded(line: bytes) -> bytes:
    """The line itself, or its front and end when it is longer than LONGEST_LINE."""
    if len(line) <= LONGEST_LINE:
        return line
    half = LONGEST_LINE // 2
    return line[:half] + b" ... " + line[-half:]


def plain(line: bytes) -> bytes:
    """One line without colours, bounded; of a line that a progress bar overwrote, its last part that isn't empty."""
    line = bounded(line)
    if b"\x1b" in line:
        line = _ANSI_BYTES.sub(b"", line)
    if b"\r" in line:
        line = next((part for part in reversed(line.split(b"\r")) if part.strip()), b"")
    return line


def text(line: bytes) -> str:
    """One line as text: invalid UTF-8 replaced, colours gone, `\\r` kept (see `shown`), bounded."""
    decoded = bounded(line).decode("utf-8", "replace")
    return _ANSI.sub("", decoded) if "\x1b" in decoded or "\x9b" in decoded else decoded


def shown(line: str) -> str:
    """What a terminal would show of a line that a progress bar overwrote: its last part that isn't empty."""
    if "\r" not in line:
        return line
    parts = [part for part in line.split("\r") if part.strip()]
    return parts[-1] if parts else ""


def excerpt(line: str | bytes, longest: int = LONGEST_EXCERPT) -> str:
    """A line fit for a record, a terminal or a page: no colour, no control character, at most `longest` characters."""
    said = text(line) if isinstance(line, bytes) else _ANSI.sub("", line[: LONGEST_LINE * 2])
    said = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", shown(said).replace("\t", " ")).strip()
    return said if len(said) <= longest else said[: longest - 1] + "…"
