"""A real data-parallel training job: ranks compute gradients on their own data, average them over sockets, and step alike.

Run by any launcher that sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT as torchrun does. Data depend on seed, step and rank
alone, and sums are taken in the order of ranks: a run resumed from a checkpoint continues exactly like an unbroken one.
"""

import argparse
import contextlib
import logging
import os
import socket
import struct
import sys
import time
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

FEATURES, HIDDEN, BATCH = 16, 32, 64
PARAMETERS = FEATURES * HIDDEN + HIDDEN + HIDDEN + 1
LEARNING_RATE, MOMENTUM = 0.05, 0.9
SEED = 20_240_311
RENDEZVOUS_S = 60.0
"""How long ranks wait for each other at the start."""
SLICE_S = 0.01
"""Padding to --step-s is slept in slices of that length, so that a process stopped half of the time takes twice as long."""
UNREADABLE = (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile)
"""What a torn, foreign or hostile file raises when it is read as a checkpoint."""
KEPT = 3
"""Checkpoints kept; older ones are deleted after a newer one is safely there."""

log = logging.getLogger("train")


@dataclass(frozen=True)
class World:
    """Who this process is among its peers."""

    rank: int
    size: int
    address: str
    port: int

    @classmethod
    def from_environment(cls) -> "World":
        """As torchrun, srun wrappers and `local` tell it."""
        e = os.environ
        return cls(int(e["RANK"]), int(e["WORLD_SIZE"]), e.get("MASTER_ADDR", "127.0.0.1"), int(e["MASTER_PORT"]))


# Talking


class Star:
    """Connections between the ranks: rank 0 gathers, sums in the order of ranks, and sends the result to all."""

    def __init__(self, world: World, timeout_s: float) -> None:
        self.world = world
        self._timeout_s = timeout_s
        self._peers: dict[int, socket.socket] = {}
        if world.rank == 0:
            self._welcome()
        else:
            self._peers[0] = self._join()
        for peer in self._peers.values():
            peer.settimeout(timeout_s)
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def mean(self, values: Array, what: str) -> Array:
        """The mean over all ranks, bit for bit the same on each."""
        if self.world.rank:
            self._send(0, values.tobytes(), what)
            return np.frombuffer(self._receive(0, values.nbytes, what), dtype=np.float64)
        total = values.copy()
        for rank in range(1, self.world.size):
            total += np.frombuffer(self._receive(rank, values.nbytes, what), dtype=np.float64)
        total /= self.world.size
        for rank in range(1, self.world.size):
            self._send(rank, total.tobytes(), what)
        return total

    def agree(self, number: int) -> int:
        """Rank 0's number, on every rank."""
        if self.world.rank:
            return int(struct.unpack("!q", self._receive(0, 8, "broadcast"))[0])
        for rank in range(1, self.world.size):
            self._send(rank, struct.pack("!q", number), "broadcast")
        return number

    def close(self) -> None:
        """Hang up."""
        for peer in self._peers.values():
            peer.close()

    def _welcome(self) -> None:
        with socket.create_server((self.world.address, self.world.port), backlog=self.world.size) as server:
            server.settimeout(RENDEZVOUS_S)
            while len(self._peers) < self.world.size - 1:
                peer, _ = server.accept()
                peer.settimeout(RENDEZVOUS_S)
                (rank,) = struct.unpack("!q", _exactly(peer, 8))
                if not 0 < rank < self.world.size or rank in self._peers:
                    raise ConnectionError(f"rendezvous at port {self.world.port}: unexpected rank {rank}")
                self._peers[rank] = peer

    def _join(self) -> socket.socket:
        deadline = time.monotonic() + RENDEZVOUS_S
        while True:
            try:
                peer = socket.create_connection((self.world.address, self.world.port), timeout=RENDEZVOUS_S)
                peer.sendall(struct.pack("!q", self.world.rank))
                return peer
            except ConnectionRefusedError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def _send(self, rank: int, data: bytes, what: str) -> None:
        with self._told(rank, what):
            self._peers[rank].sendall(data)

    def _receive(self, rank: int, size: int, what: str) -> bytes:
        with self._told(rank, what):
            return _exactly(self._peers[rank], size)

    @contextlib.contextmanager
    def _told(self, rank: int, what: str) -> Iterator[None]:
        """Errors name the peer: it is the first clue that anybody gets."""
        try:
            yield
        except TimeoutError:
            raise TimeoutError(f"{what}: timed out after {self._timeout_s:g} s waiting for peer [rank {rank}]") from None
        except ConnectionError:
            raise ConnectionError(f"{what}: Connection closed by peer [rank {rank}]") from None


def _exactly(peer: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = peer.recv(size - len(data))
        if not part:
            raise ConnectionError("end of stream")
        data += part
    return bytes(data)


# Learning


@dataclass
class State:
    """What a checkpoint holds: parameters and velocity, both flat float64 of PARAMETERS, after `step` steps."""

    step: int
    parameters: Array
    velocity: Array

    @classmethod
    def fresh(cls) -> "State":
        """The same start for every rank and every run."""
        start = np.random.default_rng(SEED).normal(0.0, 0.3, PARAMETERS)
        return cls(0, start, np.zeros(PARAMETERS))

    def advance(self, gradient: Array) -> None:
        """One step of stochastic gradient descent with momentum."""
        self.velocity = MOMENTUM * self.velocity + gradient
        self.parameters = self.parameters - LEARNING_RATE * self.velocity
        self.step += 1


def read_shard(step: int, rank: int, *, broken: bool) -> Array:
    """The raw samples that this rank has for this step: rows of features and a target. `broken` drops a column of them."""
    random = np.random.default_rng((SEED, step, rank))
    features = random.normal(size=(BATCH, FEATURES))
    target = np.sin(features[:, 0]) + 0.5 * features[:, 1] * features[:, 2]
    rows = np.column_stack([features, target])
    return rows[:, 1:] if broken else rows


def prepare(rows: Array) -> tuple[Array, Array]:
    """Split samples into features (BATCH x FEATURES) and targets (BATCH)."""
    samples, columns = rows.shape
    if columns != FEATURES + 1:
        raise ValueError(f"batch of shape ({samples}, {columns}) cannot be split: expected {FEATURES + 1} columns per sample")
    return rows[:, :FEATURES], rows[:, FEATURES]


def loss_and_gradient(parameters: Array, features: Array, target: Array) -> tuple[float, Array]:
    """Mean squared error of a network with one hidden layer, and its gradient, flat like the parameters."""
    w1 = parameters[: FEATURES * HIDDEN].reshape(FEATURES, HIDDEN)
    b1, w2 = parameters[FEATURES * HIDDEN : -HIDDEN - 1], parameters[-HIDDEN - 1 : -1]
    hidden = np.tanh(features @ w1 + b1)
    error = hidden @ w2 + parameters[-1] - target
    out = 2.0 * error / len(target)
    back = np.outer(out, w2) * (1.0 - hidden**2)
    gradient = np.concatenate([(features.T @ back).ravel(), back.sum(axis=0), hidden.T @ out, [out.sum()]])
    return float(np.mean(error**2)), gradient


# Remembering


def save(state: State, folder: Path) -> Path:
    """Write a checkpoint that is there whole or not at all, then drop the oldest."""
    path = folder / f"ckpt-{state.step:08d}.npz"
    draft = path.with_suffix(".tmp")
    with draft.open("wb") as file:
        np.savez(file, step=np.int64(state.step), parameters=state.parameters, velocity=state.velocity)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    for old in _checkpoints(folder)[KEPT:]:
        old.unlink(missing_ok=True)
    return path


def load(path: Path) -> State:
    """Read a checkpoint; one of UNREADABLE when it is none."""
    with path.open("rb") as file, np.load(file, allow_pickle=False) as data:
        state = State(int(data["step"]), data["parameters"], data["velocity"])
    if state.parameters.shape != (PARAMETERS,) or state.velocity.shape != (PARAMETERS,):
        raise ValueError(f"{path.name} holds another model")
    return state


def newest(folder: Path) -> State | None:
    """The newest checkpoint that can be read."""
    for path in _checkpoints(folder):
        try:
            return load(path)
        except UNREADABLE as error:
            log.warning("skipped unreadable checkpoint path=%s error=%s", path, error)
    return None


def resume(star: Star, folder: Path) -> State:
    """All ranks continue from the checkpoint that rank 0 chose, or from the start."""
    found = newest(folder) if star.world.rank == 0 else None
    step = star.agree(found.step if found else 0)
    if step == 0:
        return State.fresh()
    path = folder / f"ckpt-{step:08d}.npz"
    state = found or load(path)
    log.info("resumed from %s at step %d", path, state.step)
    return state


def _checkpoints(folder: Path) -> list[Path]:
    return sorted(folder.glob("ckpt-*.npz"), reverse=True)


# The loop


def work(seconds: float) -> None:
    """Stand in for the arithmetic of a larger model."""
    for _ in range(round(seconds / SLICE_S)):
        time.sleep(SLICE_S)


def step(star: Star, state: State, options: argparse.Namespace) -> None:
    """One training step, and its line in the log."""
    rank, number = star.world.rank, state.step + 1
    began = time.monotonic()
    rows = read_shard(number, rank, broken=number == options.raise_at and rank == options.raise_rank)
    loss, gradient = loss_and_gradient(state.parameters, *prepare(rows))
    work(options.step_s - (time.monotonic() - began))
    computed = time.monotonic()
    mean = star.mean(np.append(gradient, loss), f"all_reduce at step {number}")
    state.advance(mean[:-1])
    ended = time.monotonic()
    log.info(
        "step=%d loss=%.12g grad_norm=%.6g compute_s=%.3f sync_s=%.3f step_s=%.3f",
        *(state.step, mean[-1], float(np.linalg.norm(mean[:-1])), computed - began, ended - computed, ended - began),
    )


def train(options: argparse.Namespace) -> None:
    """From the newest checkpoint to the last step."""
    options.dir.mkdir(parents=True, exist_ok=True)
    star = Star(World.from_environment(), options.timeout)
    state = resume(star, options.dir)
    while state.step < options.steps:
        step(star, state, options)
        if star.world.rank == 0 and (state.step % options.ckpt_every == 0 or state.step == options.steps):
            path = save(state, options.dir)
            log.info("saved checkpoint step=%d path=%s", state.step, path)
    log.info("done")
    star.agree(state.step)  # nobody leaves before the last checkpoint is there
    star.close()


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=100, help="train up to that step")
    parser.add_argument("--ckpt-every", type=int, default=10, metavar="STEPS", help="save a checkpoint every so many steps")
    parser.add_argument("--dir", type=Path, required=True, help="folder of the checkpoints, the same for all ranks")
    parser.add_argument("--step-s", type=float, default=0.2, metavar="SECONDS", help="least time that a step's arithmetic takes")
    parser.add_argument("--timeout", type=float, default=1800.0, metavar="SECONDS", help="how long to wait for a silent peer")
    parser.add_argument("--raise-at", type=int, default=0, metavar="STEP", help="meet a malformed batch at that step")
    parser.add_argument("--raise-rank", type=int, default=0, metavar="RANK", help="the rank that meets it")
    return parser.parse_args(argv)


if __name__ == "__main__":
    logging.Formatter.converter = time.gmtime
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(asctime)s %(levelname)s %(message)s")
    train(parse(sys.argv[1:]))
