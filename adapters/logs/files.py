"""Log files on a file system that this machine sees. Each read opens the file anew, so a file moved or replaced is noticed."""

import hashlib
import os
import re
from itertools import islice

from adapters.regular_file import Opener, OpenFile, opened
from rerail.ports import Chunk

MAX_READ_BYTES = 64 * 1024 * 1024
"""The most that one read gives, whatever is asked for: a worker follows a thousand logs."""
MOST_NAMES = 100_000
"""Names of a folder that are looked at; more is no folder of logs."""
FINGERPRINT_BYTES = 64
"""So many bytes before the offset tell whether a file is still the same: a line of a log with its time."""


class FileLogs:
    """Implements `rerail.ports.Logs`. `opener` opens files elsewhere in the same way."""

    def __init__(self, opener: Opener = opened) -> None:
        self._opened = opener

    def read(self, path: str, offset: int, limit: int, fingerprint: str = "") -> Chunk:
        """At most `limit` bytes from `offset`, or from 0 where the file is no longer the one that `fingerprint` was taken of.

        A file that is not there reads as empty, with the offset kept: it may be moved away for a moment.
        Raises Unreadable, and Misconfigured for a pipe, a device or a folder.
        """
        with self._opened(path) as file:
            if file is None:
                return Chunk(b"", offset, offset, 0)
            size = file.size()
            replaced = offset > 0 and not _same(file, size, offset, fingerprint)
            start = 0 if replaced else offset
            data = file.read_at(start, min(limit, MAX_READ_BYTES))
            return Chunk(data, start, start + len(data), max(size, start + len(data)), replaced)

    def find(self, folder: str, pattern: str) -> tuple[str, ...]:
        """As `rerail.ports.Folders` says; of files that lie elsewhere nothing is found."""
        if self._opened is not opened or not folder.startswith("/"):
            return ()
        try:
            with os.scandir(folder) as entries:
                names = sorted(e.name for e in islice(entries, MOST_NAMES) if re.fullmatch(pattern, e.name))
        except (OSError, ValueError):
            return ()
        return tuple(os.path.join(folder, name) for name in names)

    def fingerprint_at(self, path: str, offset: int) -> str:
        """16 hexadecimal digits over the bytes before `offset`; empty for offset 0. Raises as `read` does.

        Of a file that has become shorter meanwhile it tells the bytes that are left, so the next read finds it replaced.
        """
        if offset <= 0:
            return ""
        with self._opened(path) as file:
            return _fingerprint(b"" if file is None else _before(file, offset))


def _same(file: OpenFile, size: int, offset: int, fingerprint: str) -> bool:
    if size < offset:
        return False
    return not fingerprint or _fingerprint(_before(file, offset)) == fingerprint


def _before(file: OpenFile, offset: int) -> bytes:
    start = max(0, offset - FINGERPRINT_BYTES)
    return file.read_at(start, offset - start)


def _fingerprint(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
