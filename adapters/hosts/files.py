"""Kernel logs of nodes, as files under a path with the node's name in it: a shared folder, or what syslog forwards."""

import re
from collections.abc import Iterator
from datetime import datetime, tzinfo

from adapters.hosts.stamps import stamp
from adapters.regular_file import Opener, OpenFile, opened
from rerail.errors import Misconfigured

MAX_READ_BYTES = 64 * 1024 * 1024
NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")
"""A host name, and nothing that leads to another folder."""


class KernelLogFiles:
    """Implements `rerail.ports.Hosts`. `template` is a full path with `{node}` in it; `zone` that of times without a zone in the
    logs, None for this machine's own. `opener` opens files elsewhere in the same way."""

    def __init__(self, template: str, zone: tzinfo | None = None, opener: Opener = opened) -> None:
        self._template = template
        self._zone = zone
        self._opened = opener

    def kernel_log(self, node: str, since: datetime, limit: int) -> bytes | None:
        """The last `limit` bytes of the node's log, whole lines, those that say they are older than `since` (aware) left out;
        lines without a time are kept. None where there is no file. Raises Unreadable, and Misconfigured for a wrong name."""
        if not NODE_NAME.fullmatch(node):
            raise Misconfigured(f"{node[:80]!r} is no node name: letters, digits, '.', '_' and '-' only.")
        with self._opened(self._template.replace("{node}", node)) as file:
            return None if file is None else b"".join(self._recent(_tail(file, limit), since))

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


def _tail(file: OpenFile, limit: int) -> bytes:
    size = file.size()
    start = max(0, size - min(limit, MAX_READ_BYTES))
    text = file.read_at(start, size - start)
    if start and file.read_at(start - 1, 1) != b"\n":  # a half line could be read as another one
        return text.partition(b"\n")[2]
    return text
