"""Runs the jobs of one cluster folder: starts what is pending, sees ranks end, ends what is over. Nothing is known to it alone.

It may be killed at any moment: the record says what is wanted, the attempts' files say what is, and the next daemon goes on.
"""

import contextlib
import os
import random
import secrets
import selectors
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from adapters.schedulers.local import bell, rules
from adapters.schedulers.local.attempt import Attempt, Sight, attempt_folder, end
from adapters.schedulers.local.book import Book, Entry, book_path, reading, writing
from adapters.schedulers.local.settings import Settings
from rerail.errors import Transient
from rerail.records import JobState

TICK_S = 1.0
"""The longest sleep while there is work; bells and ends of ranks wake it sooner."""
SOON_S = 0.05
"""The sleep while ranks start or are being ended, which nothing announces."""
TRIES = 3
"""Starts of a rank's guard before the attempt is given up."""
WATCHED = 256
"""Ranks whose end wakes the daemon at once (a descriptor each); others are noticed at the next tick."""
PORTS = (20_000, 32_000)
"""Below the kernel's ephemeral range, so that no outgoing connection takes the port between our look and the rank's bind."""


@dataclass
class Care:
    """What the daemon remembers of one attempt while it looks after it; all of it can be found again."""

    guards: dict[int, "subprocess.Popen[bytes]"] = field(default_factory=dict)
    tries: dict[int, int] = field(default_factory=dict)
    watched: dict[int, int] = field(default_factory=dict)
    asked_at: float | None = None
    """When its processes were asked to end, by the monotonic clock."""


class Daemon:
    """One cluster folder's."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._cares: dict[tuple[int, int], Care] = {}
        self._events = selectors.DefaultSelector()
        self._bell = bell.hang(folder)
        self._events.register(self._bell, selectors.EVENT_READ)
        self._wait = TICK_S
        self._asked_to_go = False

    def run(self) -> bool:
        """Work until asked to go (True) or until there was nothing to do for a while (False)."""
        signal.signal(signal.SIGTERM, lambda *_: setattr(self, "_asked_to_go", True))
        idle_since = time.monotonic()
        while not self._asked_to_go and book_path(self._folder).exists():
            bell.beat(self._folder)
            settings, busy = self._step_safely()
            if busy:
                idle_since = time.monotonic()
            elif time.monotonic() - idle_since > settings.idle_exit_s:
                return False
            self._sleep()
        return True

    def _step_safely(self) -> tuple[Settings, bool]:
        """A record that can't be read for a moment is no reason to leave the ranks alone."""
        try:
            return self._step()
        except Transient as error:
            say(str(error))
            return Settings(), True

    def _step(self) -> tuple[Settings, bool]:
        self._wait = TICK_S
        with reading(self._folder) as book:
            cluster, settings = book.cluster()
            entries = book.active()
        for entry in entries:
            if entry.live is not None:
                self._tend(cluster, settings, entry)
        if any(entry.state is JobState.PENDING for entry in entries):
            self._start_pending()
        return settings, bool(entries)

    def _sleep(self) -> None:
        for key, _ in self._events.select(self._wait):
            if key.fd == self._bell:
                os.read(self._bell, 4096)
            else:
                self._events.unregister(key.fd)
                os.close(key.fd)

    # One attempt

    def _tend(self, cluster: str, settings: Settings, entry: Entry) -> None:
        assert entry.live is not None
        care = self._cares.setdefault((entry.id, entry.live), Care())
        attempt = Attempt(attempt_folder(self._folder, entry.id, entry.live))
        for rank in [rank for rank, guard in care.guards.items() if guard.poll() is not None]:
            del care.guards[rank]
        if entry.state is JobState.RUNNING:
            ending = self._advance(cluster, settings, entry, attempt, care)
            if ending is None or not self._finish(entry, ending):
                return
        self._clear(settings, entry, attempt, care)

    def _advance(self, cluster: str, settings: Settings, entry: Entry, attempt: Attempt, care: Care) -> rules.Ending | None:
        if not attempt.written:
            try:
                open_log(entry)
                attempt.write(cluster, entry)
            except OSError as error:
                return rules.Ending(JobState.FAILED, f"OutputUnwritable: {error.strerror}")
        sights = attempt.see(attempt.spec())
        for sight in sights:
            if not sight.claimed and not self._launch(attempt, care, sight.rank):
                return rules.Ending(JobState.FAILED, "LaunchFailed")
            self._watch(care, sight)
        now = time.time()
        if any(s.bad for s in sights):
            self._soon()
        return rules.judge(sights, now, settings.bad_exit_grace_s)

    def _launch(self, attempt: Attempt, care: Care, rank: int) -> bool:
        """Start a rank's guard unless one is starting; False when it never came up."""
        self._soon()
        if rank in care.guards:
            return True
        care.tries[rank] = care.tries.get(rank, 0) + 1
        if care.tries[rank] > TRIES:
            return False
        try:
            care.guards[rank] = attempt.launch(rank)
        except OSError as error:
            say(f"rank {rank} in {attempt.folder} could not be started: {error}")
        return True

    def _watch(self, care: Care, sight: Sight) -> None:
        """Be woken by the end of the rank's guard."""
        if not sight.guarded or sight.guard is None or sight.rank in care.watched or sight.rank >= WATCHED:
            return
        with contextlib.suppress(OSError):
            care.watched[sight.rank] = os.pidfd_open(sight.guard)
            self._events.register(care.watched[sight.rank], selectors.EVENT_READ)

    def _finish(self, entry: Entry, ending: rules.Ending) -> bool:
        """Write the end, unless somebody requeued or cancelled the job meanwhile: that comes first, at the next step."""
        with writing(self._folder) as book:
            now = book.entry(entry.id)
            if now.state is not JobState.RUNNING or now.live != entry.live:
                self._soon()
                return False
            book.change(
                entry.id,
                state=ending.state,
                reason=ending.reason,
                ended_at=time.time(),
                exit_code=ending.exit_code,
                exit_signal=ending.exit_signal,
            )
        return True

    def _clear(self, settings: Settings, entry: Entry, attempt: Attempt, care: Care) -> None:
        """End what is left of an attempt that is over; when nothing is left, give its nodes back."""
        attempt.stop()
        if care.asked_at is None:
            care.asked_at = time.monotonic()
            left = end(entry.token, hard=False)
        else:
            left = end(entry.token, hard=time.monotonic() - care.asked_at >= settings.kill_wait_s)
        spec = attempt.spec()
        guarded = bool(spec) and any(sight.guarded for sight in attempt.see(spec))
        if left or guarded or care.guards:
            self._soon()
            return
        assert entry.live is not None
        self._release(entry.id, entry.live)

    def _release(self, job: int, live: int) -> None:
        with writing(self._folder) as book:
            entry = book.entry(job)
            if entry.live == live:
                book.change(job, live=None, **({"nodes": ()} if entry.state is JobState.PENDING else {}))
        del self._cares[job, live]
        self._soon()

    # What waits

    def _start_pending(self) -> None:
        """Look first, so that a job that only waits costs no write; decide again inside the transaction that acts."""
        with reading(self._folder) as book:
            changes = decide(book, time.time())
        if changes:
            with writing(self._folder) as book:
                for entry, placement in decide(book, time.time()):
                    begin(book, entry, placement)
            self._soon()
        with reading(self._folder) as book:
            waits = [e.begins_at - time.time() for e in book.active() if e.state is JobState.PENDING and e.begins_at]
        self._wait = max(0.0, min([self._wait, *(w for w in waits if w > 0)]))

    def _soon(self) -> None:
        self._wait = min(self._wait, SOON_S)


def decide(book: Book, now: float) -> list[tuple[Entry, rules.Placement]]:
    """Pending jobs whose place or reason for waiting changes."""
    entries = book.active()
    busy: dict[str, int] = {}
    for entry in entries:
        for node in entry.nodes if entry.live is not None else ():
            busy[node] = busy.get(node, 0) + entry.ranks_per_node
    pending = {e.id: e for e in entries if e.state is JobState.PENDING}
    placements = rules.place_all(list(pending.values()), book.places(), busy, now)
    return [(pending[p.job], p) for p in placements if p.nodes or p.reason != pending[p.job].reason]


def begin(book: Book, entry: Entry, placement: rules.Placement) -> None:
    """Give the job its nodes, or say why it waits."""
    if not placement.nodes:
        book.change(entry.id, reason=placement.reason)
        return
    book.change(
        entry.id,
        state=JobState.RUNNING,
        reason="",
        live=entry.restarts,
        nodes=placement.nodes,
        started_at=time.time(),
        begins_at=None,
        token=secrets.token_hex(16),
        port=free_port(frozenset(e.port for e in book.active())),
    )


def free_port(taken: frozenset[int]) -> int:
    """A TCP port of this machine that nobody listens on; 0 when none was found."""
    for port in random.sample(range(*PORTS), 200):
        with contextlib.suppress(OSError), socket.socket() as probe:
            if port not in taken:
                probe.bind(("127.0.0.1", port))
                return port
    return 0


def open_log(entry: Entry) -> None:
    """A new attempt begins its log anew unless the owner chose to append, as Slurm does."""
    mode = os.O_APPEND if entry.append else os.O_TRUNC
    os.close(os.open(entry.output, os.O_WRONLY | os.O_CREAT | mode | os.O_CLOEXEC, 0o640))


def say(text: str) -> None:
    """A line in the daemon's own log."""
    sys.stderr.write(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {text}\n")
    sys.stderr.flush()


def main(folder: Path, lock: int) -> None:
    """Live under the inherited lock. When there is nothing to do any more it is given back first and the record read once more,
    so that a job that came in between is never left without a daemon."""
    os.chdir("/")
    while True:
        os.set_inheritable(lock, False)  # a rank that inherited it would keep it after our death
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)
        if Daemon(folder).run():
            return
        os.close(lock)
        with reading(folder) as book:
            if not book.active():
                return
        again = bell.take(folder)
        if again is None:
            return
        lock = again


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
