#!/usr/bin/python3 -I
"""`rerail-gate`: what stands between a key in authorized_keys and Slurm. One file, standard library only, Python 3.9 or newer.

    restrict,command="/usr/local/sbin/rerail-gate --role reader --read /scratch" ssh-ed25519 AAAA... rerail

sshd runs the gate in place of whatever the client asked for. The gate cuts the request into words, looks for the one row of its
table that they fit, and becomes exactly that command: no shell, no environment but its own, an end after a minute. All else is
refused and logged. One request serves files instead: the reading half of SFTP, below the folders given by --read.
"""

from __future__ import annotations

import argparse
import functools
import os
import re
import shlex
import signal
import stat
import struct
import sys
import syslog
import time
from collections.abc import Callable
from typing import BinaryIO, NamedTuple, NoReturn

# -- The table --------------------------------------------------------------------------------------------------------

READER, OPERATOR, ADMIN = "reader", "operator", "admin"
ROLES = (READER, OPERATOR, ADMIN)

_NAME = r"(?!(?i:all)(?:,|$))[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?"
_SPAN = r"\[[0-9]{1,9}(?:-[0-9]{1,9})?(?:,[0-9]{1,9}(?:-[0-9]{1,9})?){0,9999}\]"
_NAMES = rf"(?!(?i:all)(?:,|$))[A-Za-z0-9][A-Za-z0-9._-]{{0,251}}(?:{_SPAN}[A-Za-z0-9._-]{{0,64}}){{0,4}}"
_TEXT = r"[^\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]"

KINDS = {
    "job": r"[1-9][0-9]{0,9}(?:_[0-9]{1,9}|\+[0-9]{1,4})?",
    "node": _NAME,
    "nodes": rf"(?:{_NAMES}(?:,{_NAMES}){{0,9999}})?",
    "begin": r"now(?:\+[0-9]{1,7}(?:seconds)?)?",
    "fields": r"[A-Za-z,]{1,500}",
    "table": r"[A-Za-z_]{1,30}:0x[0-9a-f]{16}(?:,[A-Za-z_]{1,30}:0x[0-9a-f]{16}){0,59}",
    "end": r"x[0-9a-f]{16}",
    "user": r"[A-Za-z_][A-Za-z0-9_.-]{0,31}",
    "reason": rf"rerail{_TEXT}{{0,250}}",
    "comment": r"[^\x00\ud800-\udfff]{0,1024}",
}
"""What may stand where a row has a name in braces. `all` is no node: Slurm would take it for every node. A node's reason carries
our name, so that it is known later whose drain it is; a comment is the user's own text with ours in it, whatever it holds."""


class Row(NamedTuple):
    """A command that a role may have run; words in it that stand in braces are the client's."""

    role: str
    words: str


TABLE = (
    Row(READER, "squeue --all --states=all --json"),
    Row(READER, "squeue --all --states=all --jobs={job} --json"),
    Row(READER, "squeue --all --states=all --noheader --Format={table}"),
    Row(READER, "squeue --all --states=all --noheader --jobs={job} --Format={table}"),
    Row(READER, "squeue --all --states=all --noheader --jobs={job} --format=%A{end}%x{end}"),
    Row(READER, "squeue --version"),
    Row(READER, "sinfo --all --Node --noheader --format=%N|%T|%P|%E|{end}"),
    Row(READER, "sinfo --all --Node --noheader --nodes={nodes} --format=%N|%T|%H"),
    Row(READER, "scontrol show config"),
    Row(READER, "scontrol show job {job}"),
    Row(READER, "scontrol --oneliner show job {job}"),
    Row(READER, "scontrol show node {node}"),
    Row(READER, "scontrol --oneliner show node {node}"),
    Row(READER, "scontrol --oneliner show node"),
    Row(READER, "scontrol --oneliner show partition"),
    Row(READER, "scontrol --oneliner show reservation"),
    Row(READER, "scontrol ping"),
    Row(READER, "sacct --noheader --parsable2 --allocations --duplicates --jobs={job} --format={fields}"),
    Row(READER, "sacctmgr --noheader --parsable2 show user {user} format=AdminLevel"),
    Row(OPERATOR, "scontrol requeue {job}"),
    Row(OPERATOR, "scontrol requeue Incomplete {job}"),
    Row(OPERATOR, "scontrol update jobid={job} ExcNodeList={nodes}"),
    Row(OPERATOR, "scontrol update jobid={job} StartTime={begin}"),
    Row(OPERATOR, "scontrol update jobid={job} Comment={comment}"),
    Row(OPERATOR, "scontrol update jobid={job} Requeue=1"),
    Row(OPERATOR, "scontrol hold {job}"),
    Row(OPERATOR, "scontrol uhold {job}"),
    Row(OPERATOR, "scontrol release {job}"),
    Row(OPERATOR, "scancel --verbose {job}"),
    Row(OPERATOR, "scontrol write batch_script {job} -"),
    Row(ADMIN, "scontrol update nodename={node} state=drain reason={reason}"),
    Row(ADMIN, "scontrol update nodename={node} state=resume"),
    Row(ADMIN, "scontrol update jobid={job} AdminComment={comment}"),
)
"""All that can be asked for: rerail over SSH sends nothing else, gate or no gate. One node a request, so that no slip drains a
cluster. Slurm lets only an administrator write AdminComment."""

FILES = "files"
"""The request that serves files instead of running a command; a reader's."""

WHO = "roles"
"""The request that tells what this key may do: so the doctor knows that the way is open, and changes nothing."""

MOST_REQUEST = 65_536
"""Bytes; exclusions of thousands of nodes fit."""


class Asked(NamedTuple):
    """A request that was understood."""

    role: str
    argv: tuple[str, ...]


def understood(argv: tuple[str, ...]) -> Asked | None:
    """The row that the words fit, by its role; None when there is none."""
    for row in TABLE:
        words = row.words.split(" ")
        if len(words) == len(argv) and all(map(_fits, words, argv)):
            return Asked(row.role, argv)
    return None


def _fits(word: str, given: str) -> bool:
    return bool(_pattern(word).fullmatch(given)) if "{" in word else word == given


def words_of(request: bytes) -> tuple[str, ...]:
    """The request cut into words as a shell would cut it, nothing else done to it; ValueError for what is no such line."""
    if len(request) > MOST_REQUEST:
        raise ValueError("longer than 64 KiB")
    return tuple(shlex.split(request.decode("utf-8"), posix=True))


@functools.lru_cache(maxsize=None)  # noqa: UP033 - compiled when it is needed: a gate starts for each command
def _pattern(word: str) -> re.Pattern[str]:
    parts = re.split(r"\{([a-z]+)\}", word)
    return re.compile("".join(f"(?:{KINDS[part]})" if odd % 2 else re.escape(part) for odd, part in enumerate(parts)))


# -- Running one command ----------------------------------------------------------------------------------------------

REFUSED = 126
MISSING = 127
"""Exit codes that Slurm's commands don't have; what they mean is said on standard error."""

SAYS = "rerail-gate: "
"""How a line on standard error begins that is the gate's own."""

SEARCH_PATH = "/usr/bin:/bin:/usr/local/bin:/opt/slurm/bin:/usr/local/slurm/bin"
ENVIRONMENT = {"LC_ALL": "C.UTF-8", "TZ": "UTC0", "SLURM_TIME_FORMAT": "%s"}
COMMAND_S = 60
"""Seconds that a command may take: a client that went away leaves nothing behind for longer."""


class Options(NamedTuple):
    """The gate's own command line, written by the administrator."""

    roles: tuple[str, ...]
    read: tuple[str, ...]
    path: str
    conf: str
    log: str
    seconds: int


def main(words: list[str] | None = None) -> int:
    """The exit code; where all is well it does not return, for the gate has become the command."""
    options = options_of(words)
    request = os.environb.get(b"SSH_ORIGINAL_COMMAND", b"")
    try:
        argv = words_of(request)
    except ValueError as error:
        return refuse(options, request, f"it cannot be read: {error}"[:200])
    if argv == (FILES,):
        return serve_files(options, request)
    if argv == (WHO,):
        print(" ".join(options.roles))
        return 0
    asked = understood(argv)
    if asked is None:
        return refuse(options, request, "no row of the gate's table fits")
    if asked.role not in options.roles:
        return refuse(options, request, f"this key's role is {', '.join(options.roles)}, and this takes the role {asked.role}")
    program = found(argv[0], options.path)
    if program:
        become(options, asked, program)
    print(f"{SAYS}no command {argv[0]} in {options.path}; set --path", file=sys.stderr)
    return MISSING


def options_of(words: list[str] | None) -> Options:
    """Its own options, checked."""
    parser = argparse.ArgumentParser(prog="rerail-gate", description="Forced command for rerail's keys in authorized_keys.")
    parser.add_argument("--role", action="append", choices=ROLES, required=True, help="what this key may do; can be repeated")
    parser.add_argument("--read", action="append", default=[], metavar="FOLDER", help="files below it may be read (role reader)")
    parser.add_argument("--path", default=SEARCH_PATH, help=f"where Slurm's commands lie ({SEARCH_PATH})")
    parser.add_argument("--conf", default="", metavar="FILE", help="slurm.conf, where it is not where Slurm looks for it")
    parser.add_argument(
        "--log", default="", metavar="FILE", help="log there and not to syslog; the user has to be able to write it"
    )
    parser.add_argument("--seconds", type=int, default=COMMAND_S, help=f"end of every command ({COMMAND_S})")
    got = parser.parse_args(words)
    if any(not os.path.isabs(folder) for folder in got.read):
        parser.error("--read takes full paths")
    return Options(tuple(got.role), tuple(got.read), got.path, got.conf, got.log, max(1, got.seconds))


def become(options: Options, asked: Asked, program: str) -> NoReturn:
    """Run it in our place: an alarm ends it, nothing of the client's environment reaches it."""
    if asked.role != READER:
        log(options, "runs", " ".join(asked.argv))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and that would be handed on
    signal.alarm(options.seconds)  # so is this
    os.execve(program, [word.encode() for word in asked.argv], environment(options))  # noqa: S606 - without a shell is the point


def environment(options: Options) -> dict[str, str]:
    """All that the commands see: variables such as SQUEUE_STATES would change what they say. Times come as seconds since 1970."""
    made = {"PATH": options.path, "LC_ALL": "C.UTF-8", "TZ": "UTC0", "SLURM_TIME_FORMAT": "%s"}
    return {**made, "SLURM_CONF": options.conf} if options.conf else made


def found(name: str, path: str) -> str:
    """The command's full path; empty when no folder of `path` has it."""
    places = (os.path.join(folder, name) for folder in path.split(":") if os.path.isabs(folder))
    return next((place for place in places if os.path.isfile(place) and os.access(place, os.X_OK)), "")


def refuse(options: Options, request: bytes, why: str) -> int:
    """Say no, and write down who asked for what."""
    log(options, "refuses", request[:LONGEST].decode("utf-8", "backslashreplace"), why)
    print(f"{SAYS}refused: {why}", file=sys.stderr)
    return REFUSED


# -- The log ----------------------------------------------------------------------------------------------------------

LONGEST = 500
"""Characters of a request that are logged."""


def log(options: Options, verb: str, request: str, why: str = "") -> None:
    """One line: the role, the client's address, the request in plain letters. A log that can't be written stops nothing."""
    client = ascii(os.environ.get("SSH_CONNECTION", "").partition(" ")[0][:64]).strip("'")
    line = f"{'+'.join(options.roles)} from {client or 'nowhere'} {verb} {request[:LONGEST]!a}" + (f": {why}" if why else "")
    try:
        if not options.log:
            syslog.openlog("rerail-gate", syslog.LOG_PID, syslog.LOG_AUTH)
            syslog.syslog(syslog.LOG_WARNING if why else syslog.LOG_INFO, line)
            return
        with open(options.log, "a", encoding="ascii") as file:
            file.write(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {line}\n")
    except OSError as error:
        print(f"{SAYS}cannot log: {error.strerror}", file=sys.stderr)


# -- Serving files: the reading half of SFTP version 3 ----------------------------------------------------------------

INIT, VERSION, OPEN, CLOSE, READ, LSTAT, FSTAT, REALPATH, STAT = 1, 2, 3, 4, 5, 7, 8, 16, 17
STATUS, HANDLE, DATA, NAME, ATTRS = 101, 102, 103, 104, 105
OK, EOF, NO_SUCH_FILE, PERMISSION_DENIED, FAILURE, BAD_MESSAGE, UNSUPPORTED = 0, 1, 2, 3, 4, 5, 8

READING = 1
MOST_PACKET = 34_000
"""Bytes of a request; the longest is a path."""
MOST_READ = 262_144
MOST_OPEN = 64


class Denied(Exception):
    """An answer of the protocol that is no success."""

    def __init__(self, code: int, said: str) -> None:
        super().__init__(said)
        self.code = code
        self.said = said


class Files:
    """Answers one packet after the other. Regular files below `folders`, wherever links lead; nothing is ever written."""

    def __init__(self, folders: tuple[str, ...]) -> None:
        self._folders = tuple(os.path.realpath(folder) for folder in folders)
        self._open: dict[bytes, int] = {}
        self._numbers = 0

    def answer(self, packet: bytes) -> bytes:
        """The answer's packet, without its length. ValueError for what is no packet at all."""
        if not packet:
            raise ValueError("an empty packet")
        if packet[0] == INIT:
            return struct.pack(">BI", VERSION, 3)
        try:
            kind, number = struct.unpack_from(">BI", packet)
        except struct.error as error:
            raise ValueError("a packet without a number") from error
        return self._answered(kind, packet[5:], struct.pack(">I", number))

    def _answered(self, kind: int, rest: bytes, number: bytes) -> bytes:
        verb = self._VERBS.get(kind)
        try:
            if verb is None:
                raise Denied(UNSUPPORTED, "this gate only reads")
            what, body = verb(self, rest)
        except Denied as no:
            what, body = STATUS, _status(no.code, no.said)
        except (FileNotFoundError, NotADirectoryError):
            what, body = STATUS, _status(NO_SUCH_FILE, "no such file")
        except PermissionError:
            what, body = STATUS, _status(PERMISSION_DENIED, "permission denied")
        except OSError as error:
            what, body = STATUS, _status(FAILURE, os.strerror(error.errno or 0))
        except (struct.error, ValueError):
            what, body = STATUS, _status(BAD_MESSAGE, "bad message")
        return bytes([what]) + number + body

    def close(self) -> None:
        """Close what is still open."""
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()

    def _opened(self, rest: bytes) -> tuple[int, bytes]:
        path, rest = _string(rest)
        if struct.unpack_from(">I", rest)[0] != READING:
            raise Denied(PERMISSION_DENIED, "this gate only reads")
        if len(self._open) >= MOST_OPEN:
            raise Denied(FAILURE, "too many open files")
        place = self._allowed(path)
        _regular(os.stat(place))  # before opening: to open a device can already do something
        descriptor = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY | os.O_NOFOLLOW)
        try:
            _regular(os.fstat(descriptor))
            self._below(os.readlink(f"/proc/self/fd/{descriptor}"))  # a folder may have become a link in between
        except BaseException:
            os.close(descriptor)
            raise
        self._numbers += 1
        handle = b"%d" % self._numbers
        self._open[handle] = descriptor
        return HANDLE, _packed(handle)

    def _closed(self, rest: bytes) -> tuple[int, bytes]:
        descriptor = self._open.pop(_string(rest)[0], None)
        if descriptor is None:
            raise Denied(FAILURE, "no such handle")
        os.close(descriptor)
        return STATUS, _status(OK, "")

    def _read(self, rest: bytes) -> tuple[int, bytes]:
        descriptor, rest = self._handle(rest)
        offset, length = struct.unpack_from(">QI", rest)
        data = os.pread(descriptor, min(length, MOST_READ), min(offset, 2**63 - 1 - MOST_READ))
        if not data:
            raise Denied(EOF, "end of file")
        return DATA, _packed(data)

    def _fstat(self, rest: bytes) -> tuple[int, bytes]:
        return ATTRS, _attributes(os.fstat(self._handle(rest)[0]))

    def _stat(self, rest: bytes) -> tuple[int, bytes]:
        return ATTRS, _attributes(os.stat(self._allowed(_string(rest)[0])))

    def _realpath(self, rest: bytes) -> tuple[int, bytes]:
        path = self._allowed(_string(rest)[0])
        return NAME, struct.pack(">I", 1) + _packed(path) + _packed(path) + struct.pack(">I", 0)

    def _handle(self, rest: bytes) -> tuple[int, bytes]:
        handle, rest = _string(rest)
        if handle not in self._open:
            raise Denied(FAILURE, "no such handle")
        return self._open[handle], rest

    def _allowed(self, path: bytes) -> bytes:
        """Where the path leads to, when that lies below one of the folders."""
        if not path.startswith(b"/") or b"\0" in path or len(path) > 4096:
            raise Denied(PERMISSION_DENIED, "not a full path")
        place = os.path.realpath(path)
        self._below(os.fsdecode(place))
        return place

    def _below(self, place: str) -> None:
        if not any(place == folder or place.startswith(folder.rstrip("/") + "/") for folder in self._folders):
            raise Denied(PERMISSION_DENIED, "outside of what --read allows")

    _VERBS: dict[int, Callable[[Files, bytes], tuple[int, bytes]]] = {
        OPEN: _opened,
        CLOSE: _closed,
        READ: _read,
        LSTAT: _stat,
        FSTAT: _fstat,
        STAT: _stat,
        REALPATH: _realpath,
    }


def serve_files(options: Options, request: bytes) -> int:
    """Serve until the client closes."""
    if READER not in options.roles or not options.read:
        return refuse(options, request, "files take the role reader and a folder, --read FOLDER")
    files = Files(options.read)
    try:
        converse(files, sys.stdin.buffer, sys.stdout.buffer)
    except ValueError as error:
        return refuse(options, request, f"no SFTP: {error}")
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the client is gone; nothing is left to be flushed to it
    finally:
        files.close()
    return 0


def converse(files: Files, asks: BinaryIO, answers: BinaryIO) -> None:
    """Packet by packet, to the end of `asks`. ValueError for what is no SFTP."""
    while len(head := asks.read(4)) == 4:
        (length,) = struct.unpack(">I", head)
        if length > MOST_PACKET:
            raise ValueError(f"a packet of {length} bytes")
        packet = asks.read(length)
        if len(packet) < length:
            return
        answer = files.answer(packet)
        answers.write(struct.pack(">I", len(answer)) + answer)
        answers.flush()


def _regular(found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise Denied(PERMISSION_DENIED, "only regular files are read")


def _string(rest: bytes) -> tuple[bytes, bytes]:
    (length,) = struct.unpack_from(">I", rest)
    if length > len(rest) - 4:
        raise ValueError("a string that is longer than its packet")
    return rest[4 : 4 + length], rest[4 + length :]


def _packed(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def _status(code: int, said: str) -> bytes:
    return struct.pack(">I", code) + _packed(said.encode()) + _packed(b"en")


def _attributes(found: os.stat_result) -> bytes:
    """Size, owner, mode, times: bits 1, 2, 4 and 8 of the protocol's flags."""
    times = (max(0, min(int(moment), 2**32 - 1)) for moment in (found.st_atime, found.st_mtime))
    return struct.pack(">IQIIIII", 15, found.st_size, found.st_uid, found.st_gid, found.st_mode, *times)


def leave() -> NoReturn:
    sys.exit(main())


if __name__ == "__main__":
    leave()
