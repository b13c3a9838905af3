"""The fault injector: the only place that knows the names of faults. It does to a job on a local cluster what bad days do.

Each fault of the demonstration stands here as a row (`SCENES`): what is done, and how its story has to end.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from threading import Event, Thread

from adapters.schedulers.local import LocalScheduler
from rerail.errors import RerailError
from rerail.records import FaultClass, Kind, Rank, Result

XID_79 = "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
"""As the NVIDIA driver writes it when the GPU no longer answers on the PCIe bus."""
XID_154 = "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"
"""What recent drivers add to it."""
THROTTLED = "mce: CPU12: Package temperature/speed above threshold, cpu clock throttled (total events = 1)"
"""As Linux writes it when a processor is too hot."""
DUTY_S = 0.1
"""Length of one stop and one go of a slowed node: ten times the slices in which the job's arithmetic sleeps."""


class Fault(StrEnum):
    """What can be injected."""

    CRASH = "crash"
    KILLED = "killed"
    HANG = "hang"
    BUG = "bug"
    STRAGGLER = "straggler"
    THROTTLED = "throttled"


@dataclass(frozen=True)
class Hit:
    """What was done to whom, and when (UTC)."""

    fault: Fault
    at: datetime
    job_id: str
    rank: int
    node: str
    pid: int


Strike = Callable[[LocalScheduler, str, int], Hit | None]
"""Does a fault to a rank of a job. None while it has not happened yet: ask again."""


def inject_crash(scheduler: LocalScheduler, job_id: str, rank: int) -> Hit:
    """The rank's GPU falls off the bus: the kernel of its node says so, and the process is killed."""
    target = _target(scheduler, job_id, rank)
    write_kernel_log(scheduler.kernel_log(target.node), XID_79, XID_154)
    return _signal(Fault.CRASH, job_id, target, signal.SIGKILL)


def inject_killed(scheduler: LocalScheduler, job_id: str, rank: int) -> Hit:
    """The rank's process is killed, and nothing tells by whom."""
    return _signal(Fault.KILLED, job_id, _target(scheduler, job_id, rank), signal.SIGKILL)


def inject_hang(scheduler: LocalScheduler, job_id: str, rank: int) -> Hit:
    """The rank's process stands still; its peers wait for it in silence."""
    return _signal(Fault.HANG, job_id, _target(scheduler, job_id, rank), signal.SIGSTOP)


def inject_slow(scheduler: LocalScheduler, job_id: str, rank: int) -> Hit:
    """Chooses the node of the rank, which is then slowed (`slowed`) as long as the story lasts."""
    return _chosen(Fault.STRAGGLER, job_id, _target(scheduler, job_id, rank))


def inject_throttled(scheduler: LocalScheduler, job_id: str, rank: int) -> Hit:
    """The same, and the kernel of the node says that its processor is too hot."""
    target = _target(scheduler, job_id, rank)
    write_kernel_log(scheduler.kernel_log(target.node), THROTTLED)
    return _chosen(Fault.THROTTLED, job_id, target)


INJECT: dict[Fault, Callable[[LocalScheduler, str, int], Hit]] = {
    Fault.CRASH: inject_crash,
    Fault.KILLED: inject_killed,
    Fault.HANG: inject_hang,
}
"""Faults that happen to a running job. A bug is submitted with it (`bug_options`); a straggler lasts (`slowed`)."""


def bug_options(step: int, rank: int) -> list[str]:
    """Options for `train.py` with which the code meets the same malformed batch at the same step of every attempt."""
    return ["--raise-at", str(step), "--raise-rank", str(rank)]


def meet_bug(scheduler: LocalScheduler, job_id: str, rank: int) -> Hit | None:
    """What the bug that came with the job (`bug_options`) did to its rank; None until the rank has died of it."""
    ranks = scheduler.ranks(scheduler.job(job_id))
    dead = next((r for r in ranks if r.rank == rank and r.ended_at), None)
    if dead is None or dead.ended_at is None:
        return None
    return Hit(Fault.BUG, dead.ended_at, job_id, rank, dead.node, dead.pid or 0)


@contextmanager
def slowed(scheduler: LocalScheduler, job_id: str, node: str) -> Iterator[datetime]:
    """While inside, all ranks of the job on that node run half of the time, over restarts too; the moment it began comes back."""
    over, began = Event(), datetime.now(UTC)
    worker = Thread(target=_slow, args=(scheduler, job_id, node, over), name=f"slow-{node}")
    worker.start()
    try:
        yield began
    finally:
        over.set()
        worker.join()


@dataclass(frozen=True)
class Expected:
    """How the story of a fault ends when all goes well."""

    kind: Kind
    fault: FaultClass
    result: Result
    blames_node: bool = False
    """True: exactly the node of the hit is blamed and excluded. False: no node at all."""
    names_rank: bool = False
    """True: the rank of the hit is named. False: it may be; another one never."""
    restarts_least: int = 1
    restarts_most: int = 1


@dataclass(frozen=True)
class Scene:
    """A fault of the demonstration."""

    fault: Fault
    told: str
    """What was done, in words; {rank} and {node} are filled in."""
    strike: Strike
    expected: Expected
    options: Callable[[int, int], list[str]] = lambda step, rank: []
    """What the job is submitted with, so that the fault meets that rank at that step."""
    lasts: Callable[[LocalScheduler, str, str], AbstractContextManager[object]] = lambda scheduler, job_id, node: nullcontext()
    """What goes on, from the hit to the end of the story, on the node of the hit."""


SCENES: dict[Fault, Scene] = {
    scene.fault: scene
    for scene in (
        Scene(
            Fault.CRASH,
            "SIGKILL to rank {rank}, and Xid 79 (GPU has fallen off the bus) in the kernel log of {node}",
            inject_crash,
            Expected(Kind.CRASH, FaultClass.HARDWARE, Result.RECOVERED, blames_node=True),
        ),
        Scene(
            Fault.KILLED,
            "SIGKILL to rank {rank} on {node}, and no word of it anywhere",
            inject_killed,
            Expected(Kind.CRASH, FaultClass.UNKNOWN, Result.RECOVERED, names_rank=True),
        ),
        Scene(
            Fault.HANG,
            "SIGSTOP to rank {rank} on {node}: it stands still, its peers wait for it",
            inject_hang,
            Expected(Kind.HANG, FaultClass.UNKNOWN, Result.RECOVERED),
        ),
        Scene(
            Fault.BUG,
            "a Python exception in rank {rank} on {node}, at the same step of every attempt",
            meet_bug,
            Expected(Kind.CRASH, FaultClass.APPLICATION, Result.STOPPED, restarts_least=0),
            bug_options,
        ),
        Scene(
            Fault.STRAGGLER,
            "{node} is slowed: rank {rank} runs half of the time, and nothing tells why",
            inject_slow,
            Expected(Kind.STRAGGLER, FaultClass.UNKNOWN, Result.NO_ACTION, names_rank=True, restarts_least=0, restarts_most=0),
            lasts=slowed,
        ),
        Scene(
            Fault.THROTTLED,
            "{node} is slowed: rank {rank} runs half of the time, and the kernel log says that a processor is too hot",
            inject_throttled,
            Expected(Kind.STRAGGLER, FaultClass.HARDWARE, Result.RECOVERED, blames_node=True),
            lasts=slowed,
        ),
    )
}
"""What the demonstration can show."""

VARIABLE = "FAULT"
"""The environment variable by which a person chooses; nobody else reads it."""


def chosen(environment: Mapping[str, str]) -> Scene:
    """The scene that a person asked for, `crash` by default. ValueError with the names when there is none of that name."""
    name = environment.get(VARIABLE) or Fault.CRASH
    scene = next((scene for scene in SCENES.values() if scene.fault == name), None)
    if scene is None:
        raise ValueError(f"{VARIABLE} has to be one of {', '.join(SCENES)}, not {name[:40]!r}")
    return scene


def write_kernel_log(path: Path, *messages: str) -> None:
    """Append kernel lines with the time in front, as `dmesg --time-format iso` has it, in UTC."""
    path.parent.mkdir(parents=True, exist_ok=True)
    now = datetime.now(UTC).isoformat(timespec="microseconds")
    with path.open("a", encoding="utf-8") as file:
        file.writelines(f"[{now}] {message}\n" for message in messages)


def _target(scheduler: LocalScheduler, job_id: str, rank: int) -> Rank:
    job = scheduler.job(job_id)
    found = next((r for r in scheduler.ranks(job) if r.rank == rank and r.pid and r.state), None)
    if found is None:
        raise LookupError(f"job {job_id} ({job.state}) has no living rank {rank} to inject a fault into")
    return found


def _chosen(fault: Fault, job_id: str, target: Rank) -> Hit:
    return Hit(fault, datetime.now(UTC), job_id, target.rank, target.node, target.pid or 0)


def _signal(fault: Fault, job_id: str, target: Rank, number: signal.Signals) -> Hit:
    assert target.pid is not None
    at = datetime.now(UTC)
    os.kill(target.pid, number)
    return Hit(fault, at, job_id, target.rank, target.node, target.pid)


def _slow(scheduler: LocalScheduler, job_id: str, node: str, over: Event) -> None:
    """Stop and wake by turns. Whatever happens, nobody is left stopped."""
    while not over.is_set():
        pids: list[int] = []
        with suppress(RerailError):  # between two attempts, or at the end
            pids = [r.pid for r in scheduler.ranks(scheduler.job(job_id)) if r.node == node and r.pid and r.state]
        try:
            _send_all(pids, signal.SIGSTOP)
            time.sleep(DUTY_S)
        finally:
            _send_all(pids, signal.SIGCONT)
        over.wait(DUTY_S)


def _send_all(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue
