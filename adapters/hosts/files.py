"""Kernel logs of nodes, as files under a path with the node's name in it: a shared folder, or what syslog forwards."""

import os
import re
from collections.abc import Iterator
from datetime import datetime, tzinfo

from adapters.hosts.stamps import stamp
from adapters.regular_file import opened, read_at
from rerail.errors import Misconfigured

MAX_READ_BYTES = 64 * 1024 * 1024
NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")
"""A host name, and nothing that leads to another folder."""


class KernelLogFiles:
    """Implements `rerail.ports.Hosts`. `template` is a full path with `{node}` in it; `zone` that of times without a zone in the
    logs, None for this machine's own."""

    def __init__(self, template: str, zone: tzinfo | None = None) -> None:
        self._template = template
        self._zone = zone

    def kernel_log(self, node: str, since: datetime, limit: int) -> bytes | None:
        """The last `limit` bytes of the node's log, whole lines, those that say they are older than `since` (aware) left out;
        lines without a time are kept. None where there is no file. Raises Unreadable, and Misconfigured for a wrong name."""
        if not NODE_NAME.fullmatch(node):
            raise Misconfigured(f"{node[:80]!r} is no node name: letters, digits, '.', '_' and '-' only.")
        with opened(self._template.replace("{node}", node)) as descriptor:
            return None if descriptor is None else b"".join(self._recent(_tail(descriptor, limit), since))

    def _recent(self, text: bytes, since: datetime) -> Iterator[bytes]:
        since = since.replace(microsecond=0)  # many formats tell whole seconds only
        old = False
        for line in text.splitlines(keepends=True):
            at = stamp(line, since, self._zone)
            if at is not None:
                old = at < since
            elif not line[:1].isspace():  # a line of its own; an indented one goes with the line that it continues
                old = False
            if not old:
                yield line


def _tail(descriptor: int, limit: int) -> bytes:
    size = os.fstat(descriptor).st_size
    start = max(0, size - min(limit, MAX_READ_BYTES))
    text = read_at(descriptor, start, size - start)
    if start and read_at(descriptor, start - 1, 1) != b"\n":  # a half line could be read as another one
        return text.partition(b"\n")[2]
    return text
