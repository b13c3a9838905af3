"""A job's log, read once: known lines, tracebacks put back together, launchers' failure blocks, progress, and who ran where.

A small log is walked line by line. Of a large one every byte still goes through the signature automaton, but only its front, the
ends of its blocks, and the surroundings of what looks like an error are walked: memory and time stay bounded.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, BinaryIO, NamedTuple

import re2

from rerail import signatures
from rerail.readers import blocks, exits, lines, prefixes, progress, stacks
from rerail.readers.blocks import Block
from rerail.readers.prefixes import Prefix
from rerail.readers.progress import Mark, Phase
from rerail.readers.stacks import Stack
from rerail.readers.tracebacks import Traceback, Tracebacks
from rerail.signatures import Scanner, Signature, engine

WALK_ALL = 6 << 20
"""Bytes up to which a log is walked line by line: a second or two."""

WALK_FRONT = 3_000
WALK_END = 240
"""Lines walked at the front and at the end of each block of a larger log (half of that far from its end), so that the last
progress is found anywhere."""

AROUND_ERRORS = 300
"""Lines walked after something that looks like an error: the length of a long interleaved traceback."""

WALKED_FRONT, WALKED_ON, WALKED_END = 8_000, 5_000, 5_000
"""Lines walked around errors of a larger log: anywhere from the front on, evenly over the rest, and in its last END bytes. A line
costs up to 40 us, so this is less than a second."""

MOST_HITS = 100_000
"""Known lines looked at in a log, the last END bytes left out of the count: RE2 reads a text of nothing but different failures
at 0.2 MB/s, and strangers write logs. The healthy and the failing log of bench/scan.py stay below 50,000 in 200 MB."""
END = 8 << 20

MOST_BYTES = 8 << 30
MOST_A_SPEAKER = 6
MOST_A_ROW = 600
MOST_MARKS = 20_000
MOST_FAILURES = 600
TAIL = 60


class Sighting(NamedTuple):
    """One known line: the row that speaks for it, who said it, when."""

    line: int
    row: Signature
    front: Prefix
    raw: bytes


class Failure(NamedTuple):
    """A launcher's block about one failed process (torchrun's "Root Cause" and "Failures")."""

    line: int
    host: str
    rank: int | None
    exit_code: int | None
    at: datetime | None
    first: bool
    said: str
    task: int | None = None
    """The launcher's task that says it."""
    local: int | None = None
    """The rank's place on its node."""
    pid: int | None = None


class Point(NamedTuple):
    """One progress line."""

    line: int
    mark: Mark


@dataclass
class JobLog:
    """What a log told. Line numbers count from 1 and lines end at `\\n` only."""

    name: str = "job.log"
    lines: int = 0
    size: int = 0
    sightings: list[Sighting] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    """Hits by signature id, those not kept included."""
    tracebacks: list[Traceback] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    points: list[Point] = field(default_factory=list)
    phases: list[tuple[int, Phase]] = field(default_factory=list)
    times: list[tuple[int, datetime]] = field(default_factory=list)
    """Line number and time of walked lines that tell one."""
    rank_nodes: dict[int, str] = field(default_factory=dict)
    """Which rank runs where, as the log itself tells."""
    task_nodes: dict[int, str] = field(default_factory=dict)
    """Which task of the launcher runs where."""
    speakers: dict[str, int] = field(default_factory=dict)
    """Hosts that speak in prefixes, with their line counts."""
    stacks: list[Stack] = field(default_factory=list)
    """Python stacks that a watcher dumped, one a rank."""
    scores: list[bytes] = field(default_factory=list)
    """Lines in which a tool reports how fast each rank is."""
    remarks: list[tuple[int, int]] = field(default_factory=list)
    """Line number and rank of lines without a prefix that name a rank."""
    tail: list[tuple[int, bytes]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What was not read, and why."""

    def time_near(self, line: int) -> datetime | None:
        """The last time told at or before a line, else the first one after it."""
        after = bisect_right(self.times, line, key=lambda told: told[0])
        return self.times[max(0, after - 1)][1] if self.times else None


def _compiled(pattern: str) -> Any:
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.never_nl = True
    options.log_errors = False
    return re2.compile(pattern.encode(), options=options)


_ERRORS = _compiled(
    r"Traceback \(most recent call last\)|Root Cause \(first observed failure\)|(?:Error|Exception): |exitcode|Fatal Python error"
    r"|[Ss]egmentation fault|killed by signal|srun: error|slurmstepd|[Uu]nhandled exception|exit code \d"
)
_YEAR = re.compile(rb"\b(20\d{2})-\d{2}-\d{2}[T _]\d{2}:\d{2}")
_FIELD = re.compile(r"^\s*(time|host|rank|exitcode|error_file|traceback)\s*: (.{0,300})$")
_RANK_ON = re.compile(
    r"(?i)(?<!\w)(?:global[_ ]?)?rank[=: #]{0,3}(\d{1,7})\b[^\n]{0,60}?\b(?:on|host|hostname|node|nodename)[=:"
    r" ]{1,3}\"?([a-z][\w.-]{1,80})"
    r"|\bhost(?:name)?=([a-z][\w.-]{1,80})[^\n]{0,80}?\bglobal_rank[=:](\d{1,7})"
)
_SCORED = re.compile(rb"(?i)\bscore[ =:]{0,2}[01]?\.?\d|MxRtt/Rnk|StragglerId\(")
_RANK_SAID = re.compile(r"(?i)(?:<rank |\[rank |\brank=)(\d{1,7})\b")
_NCCL_HEAD = re.compile(r"^([A-Za-z][\w.-]{1,80}):\d{1,9}:\d{1,9} (?:\[\d{1,3}\] )?NCCL ")
_NCCL_RANK = re.compile(
    r"^([A-Za-z][\w.-]{1,80}):\d{1,9}:\d{1,9} \[\d{1,3}\] NCCL .{0,200}?\brank (\d{1,7}) (?:nranks|nRanks|cudaDev|localrank)"
)


def read(
    stream: BinaryIO, size: int, rows: Sequence[Signature] = signatures.ALL, year: int | None = None, steps: str = ""
) -> JobLog:
    """Read a log of `size` bytes from a binary stream; what it grows by meanwhile is not looked at.

    `steps` is a site's own pattern of progress lines; see `progress.mark`.
    """
    reading = _Reading(tuple(rows), year, steps, min(size, MOST_BYTES))
    seen = 0
    for block in blocks.read(stream, min(size, MOST_BYTES)):
        reading.date(block)
        reading.take(block)
        seen += len(block.data)
    log = reading.log
    if size > MOST_BYTES:
        log.notes.append(f"only the first {MOST_BYTES >> 30} GiB of the log were read")
    elif seen < size and not reading.cut:
        log.notes.append("the log was truncated while it was read")
    return reading.close()


class _Reading:
    """The state of one reading."""

    def __init__(self, rows: tuple[Signature, ...], year: int | None, steps: str, size: int) -> None:
        self.log = JobLog()
        self.cut = False
        self._rows = rows
        self._index = {row.id: row for row in rows}
        self._year = year
        self._steps = steps
        self._size = size
        self._walk_all = size <= WALK_ALL
        self._engine = engine.fitting(size)
        self._hits = 0
        self._unsighted = (0, 0)
        self._walked = 0
        self._kept: dict[tuple[str, str], int] = {}
        self._tracebacks = Tracebacks()
        self._stacks = stacks.Stacks()
        self._block: dict[str, str] = {}
        self._first = False

    def date(self, block: Block) -> None:
        """Learn the year from the first full date, for times that name none."""
        if self._year is None and (found := _YEAR.search(block.data, 0, 1 << 20)):
            self._year = int(found[1])

    def take(self, block: Block) -> None:
        """Take in whole lines."""
        if block.cut and not self.cut:
            self.cut = True
            self.log.notes.append(f"of lines longer than {blocks.LONGEST >> 10} KiB only the front was read")
        if self._hits < MOST_HITS or self._size - self.log.size <= END:
            self._sight(block)
        else:
            self._unsighted = (self._unsighted[0] or block.line, block.line + block.data.count(b"\n") - 1)
        said = block.data[:-1].split(b"\n")
        for at in self._to_walk(block, len(said)):
            self._walk(block.line + at, said[at])
        self.log.tail = [(block.line + at, said[at]) for at in range(max(0, len(said) - TAIL), len(said))]
        self.log.lines = block.line + len(said) - 1
        self.log.size += len(block.data)

    def close(self) -> JobLog:
        """What was found."""
        if self._unsighted[0]:
            first, last = self._unsighted
            self.log.notes.append(
                f"{MOST_HITS} known lines were read; lines {first} to {last} were not looked at for more of them"
            )
        self.log.tracebacks = self._tracebacks.close()
        self.log.stacks = self._stacks.close()
        self._end_block(self.log.lines)
        return self.log

    def _sight(self, block: Block) -> None:
        """Known lines: the row that speaks for each, bounded for each speaker and row."""
        scanner = Scanner(self._rows, self._engine, line=block.line)
        by_line: dict[int, list[Signature]] = {}
        where: dict[int, tuple[int, int]] = {}
        hits = scanner.feed(block.data)
        self._hits += len(hits)
        for hit in hits:
            by_line.setdefault(hit.line, []).append(self._index[hit.id])
            where.setdefault(hit.line, (hit.start, hit.end))
            self.log.counts[hit.id] = self.log.counts.get(hit.id, 0) + 1
        for number, rows in by_line.items():
            row = signatures.loudest(rows)
            if row is not None:
                start, end = where[number]
                self._keep(number, row, lines.bounded(block.data[start:end]))

    def _keep(self, number: int, row: Signature, raw: bytes) -> None:
        if self._kept.get((row.id, ""), 0) >= MOST_A_ROW:
            return
        front = prefixes.read(lines.shown(lines.text(raw)), self._year)
        speaker = f"{front.rank}/{front.task}/{front.local}/{front.host}"
        if self._kept.get((row.id, speaker), 0) >= (MOST_A_SPEAKER if speaker != "None/None/None/" else MOST_A_ROW // 4):
            return
        for key in ((row.id, ""), (row.id, speaker)):
            self._kept[key] = self._kept.get(key, 0) + 1
        self.log.sightings.append(Sighting(number, row, front, raw))

    def _to_walk(self, block: Block, count: int) -> Iterator[int]:
        """Indices of the lines of a block to be looked at one by one."""
        if self._walk_all or (block.last and count <= AROUND_ERRORS):
            yield from range(count)
            return
        ends = WALK_END if self._size - self.log.size <= END else WALK_END // 2
        until = WALK_FRONT if block.line == 1 else WALK_END // 4
        yield from range(min(until, count))
        tail = max(until, count - ends)
        most = self._may_walk()
        for start in self._error_lines(block):
            if self._walked > most:
                break
            for at in range(max(start, until), min(start + AROUND_ERRORS, tail)):
                self._walked += 1
                yield at
            until = max(until, start + AROUND_ERRORS)
        yield from range(tail, count)

    def _may_walk(self) -> int:
        """Lines that may have been walked around errors by the end of the block at hand."""
        done = self.log.size / self._size
        return WALKED_FRONT + int(WALKED_ON * done) + (WALKED_END if self._size - self.log.size <= END else 0)

    def _error_lines(self, block: Block) -> Iterator[int]:
        """Indices of lines that look like an error, at most one in AROUND_ERRORS."""
        at = line = 0
        while found := _ERRORS.search(block.data, at):
            line += block.data.count(b"\n", at, found.start())
            yield max(0, line - 2)
            for _ in range(AROUND_ERRORS):
                end = block.data.find(b"\n", found.start() if at <= found.start() else at) + 1
                if end <= 0:
                    return
                if at <= found.start():
                    line += block.data.count(b"\n", found.start(), end)
                else:
                    line += 1
                at = end

    def _walk(self, number: int, raw: bytes) -> None:
        """Look at one line: progress, times, tracebacks, failure blocks, who runs where."""
        if not raw or raw.isspace():
            return
        mark = progress.mark(raw, self._steps)
        if mark is not None:
            self._marked(number, mark)
            return
        said = lines.shown(lines.text(raw))
        front = prefixes.read(said, self._year)
        if front.at is not None:
            self.log.times.append((number, front.at))
        if front.host:
            self.log.speakers[front.host] = self.log.speakers.get(front.host, 0) + 1
        self._tracebacks.take(number, front, said)
        self._stacks.take(number, front)
        self._launcher_says(number, front)
        if _SCORED.search(raw) and len(self.log.scores) < MOST_MARKS:
            self.log.scores.append(lines.bounded(raw))
        self._placed(number, front)
        phase = progress.phase(raw)
        if phase is not None:
            self.log.phases.append((number, phase))

    def _marked(self, number: int, mark: Mark) -> None:
        points = self.log.points
        points.append(Point(number, mark))
        if len(points) > MOST_MARKS:
            del points[MOST_MARKS // 4 : MOST_MARKS * 3 // 4 : 2]  # the middle is thinned; front and end tell most
        if mark.at is not None:
            self.log.times.append((number, mark.at))

    def _placed(self, number: int, front: Prefix) -> None:
        """A line that tells where a rank runs."""
        body = front.body
        if len(self.log.rank_nodes) > 100_000 or ("rank" not in body.lower() and "host=" not in body):
            return
        match = _NCCL_RANK.match(body)
        if match:
            self.log.rank_nodes.setdefault(int(match[2]), match[1])
            return
        match = _RANK_ON.search(body[:400])
        said = _RANK_SAID.search(body[:400])
        if said and front.rank is None and len(self.log.remarks) < MOST_MARKS:
            self.log.remarks.append((number, int(said[1])))
        if match:
            rank, host = (match[1], match[2]) if match[1] else (match[4], match[3])
            self.log.rank_nodes.setdefault(int(rank), host.rstrip(".:,"))
        elif front.rank is not None and (match := re.search(r"\bhost(?:name)?=([A-Za-z][\w.-]{1,80})", body)):
            self.log.rank_nodes.setdefault(front.rank, match[1])

    def _launcher_says(self, number: int, front: Prefix) -> None:
        """torchrun's failure block, field by field; and what launchers say in one line."""
        if "Root Cause (first observed failure)" in front.body:
            self._end_block(number)
            self._first = True
        exit_said = exits.read(front.body)
        if exit_said is not None and len(self.log.failures) < MOST_FAILURES:
            self.log.failures.append(_failure(number, front, exit_said))
        match = _FIELD.match(front.body)
        if match is None:
            return
        if match[1] == "time":
            self._end_block(number)
            self._block = {"line": str(number), "task": str(front.task) if front.task is not None else ""}
        if self._block:
            self._block[match[1]] = match[2].strip()

    def _end_block(self, number: int) -> None:
        said, self._block = self._block, {}
        if "rank" not in said or len(self.log.failures) >= MOST_FAILURES:
            return
        rank = re.match(r"(\d+)(?: \(local_rank: (\d+)\))?", said["rank"])
        code = re.match(r"(-?\d+)(?: +\(pid: (\d+)\))?", said.get("exitcode", ""))
        self.log.failures.append(
            Failure(
                int(said["line"]),
                said.get("host", ""),
                int(rank[1]) if rank else None,
                int(code[1]) if code else None,
                prefixes.read(said.get("time", "").replace("_", " ")).at,
                self._first,
                said.get("traceback", ""),
                int(said["task"]) if said.get("task") else None,
                int(rank[2]) if rank and rank[2] else None,
                int(code[2]) if code and code[2] else None,
            )
        )
        self._first = False


def _failure(number: int, front: Prefix, said: exits.Exit) -> Failure:
    host = said.host or front.host
    return Failure(
        number,
        host,
        said.rank,
        said.code,
        front.at,
        False,
        "",
        said.task if said.task is not None else front.task,
        said.local,
        said.pid,
    )
