"""Opening a file that a stranger may have put there: regular files only, never blocking, errors in our own words."""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from rerail.errors import Misconfigured, Unreadable

MAX_PATH = 4096  # PATH_MAX of Linux


class OpenFile(Protocol):
    """A regular file, wherever it lies. Both raise OSError, which whoever opened it turns into our own words."""

    def size(self) -> int:
        """Bytes, now."""
        ...

    def read_at(self, offset: int, limit: int) -> bytes:
        """At most `limit` bytes from `offset`, less only at the end of the file."""
        ...


Opener = Callable[[str], AbstractContextManager[OpenFile | None]]
"""Opens a full path as `opened` does."""


class LocalFile:
    """One of this machine's own."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def size(self) -> int:
        """As the protocol says."""
        return os.fstat(self._descriptor).st_size

    def read_at(self, offset: int, limit: int) -> bytes:
        """As the protocol says."""
        parts: list[bytes] = []
        while limit > 0:
            part = os.pread(self._descriptor, limit, offset)
            if not part:
                break
            parts.append(part)
            offset += len(part)
            limit -= len(part)
        return b"".join(parts)


@contextmanager
def opened(path: str) -> Iterator[OpenFile | None]:
    """A regular file, or None where there is no such file (yet).

    A symbolic link is followed where it ends in a regular file. Raises Misconfigured for anything that is no regular file and
    for a path that cannot be one, Unreadable where rights, the disk or the network are in the way.
    """
    check_path(path)
    descriptor = _open(path)
    try:
        yield None if descriptor is None else LocalFile(descriptor)
    except OSError as error:
        raise unreadable(path, error) from error
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _open(path: str) -> int | None:
    try:
        check_kind(path, os.stat(path).st_mode)  # before opening: to open a device can already do something
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unreadable(path, error) from error
    try:
        check_kind(path, os.fstat(descriptor).st_mode)  # it may have been exchanged in between
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def check_path(path: str) -> None:
    """Misconfigured unless it is a full path."""
    if not path.startswith("/") or "\0" in path or len(path) > MAX_PATH or not _encodable(path):
        raise Misconfigured(f"{shown(path)} is no full path of a file: give a path that begins with /.")


def _encodable(path: str) -> bool:
    """False for half a character, which no file system takes."""
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return True


def check_kind(path: str, mode: int) -> None:
    """Misconfigured unless the mode is a regular file's."""
    if not stat.S_ISREG(mode):
        raise Misconfigured(f"{shown(path)} is {_KINDS.get(stat.S_IFMT(mode), 'something else')}; only regular files are read.")


_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}

_NEXT_STEP = {
    errno.EACCES: "let the user that runs rerail read it and enter its folders",
    errno.EPERM: "let the user that runs rerail read it and enter its folders",
    errno.ESTALE: "the network file system lost it; check the mount",
    errno.EIO: "check the disk or the mount",
    errno.ELOOP: "its symbolic links run in a circle; mend them",
    errno.EMFILE: "too many files are open; raise the limit (ulimit -n)",
}


def unreadable(path: str, error: OSError) -> Unreadable:
    """The error in our own words, with the next step."""
    step = _NEXT_STEP.get(error.errno or 0, "check the path and the file system")
    return Unreadable(f"{shown(path)} cannot be read ({os.strerror(error.errno or 0)}): {step}.")


def shown(path: str) -> str:
    """A stranger's path for a message: one line, bounded."""
    return repr(path if len(path) <= 200 else f"{path[:100]}...{path[-97:]}")
