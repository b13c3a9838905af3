"""The training job resumes exactly where it was, and fails as real ones do."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from demo import train

PROGRAM = Path(train.__file__)
DEADLINE_S = 60.0
RANKS = 3


@pytest.fixture
def launch() -> Iterator[Callable[..., list["subprocess.Popen[str]"]]]:
    """Start all ranks of a training run; whatever still runs at the end of a test is killed."""
    started: list[subprocess.Popen[str]] = []

    def start(folder: Path, *options: str) -> list["subprocess.Popen[str]"]:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        ranks = [_rank(rank, port, ["--dir", str(folder), *options]) for rank in range(RANKS)]
        started.extend(ranks)
        return ranks

    yield start
    for process in started:
        process.kill()
        process.communicate()


def _rank(rank: int, port: int, options: Sequence[str]) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, str(PROGRAM), *options],
        env={**os.environ, "RANK": str(rank), "WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(ranks: Sequence["subprocess.Popen[str]"]) -> list[str]:
    return [process.communicate(timeout=DEADLINE_S)[0] for process in ranks]


def losses(text: str) -> dict[int, str]:
    return {int(step): loss for step, loss in re.findall(r"step=(\d+) loss=(\S+)", text)}


def wait_for_checkpoint(folder: Path, step: int) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not (folder / f"ckpt-{step:08d}.npz").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


Launch = Callable[..., list["subprocess.Popen[str]"]]


def test_a_run_that_was_killed_and_resumed_equals_an_unbroken_one_bit_for_bit(launch: Launch, tmp_path: Path) -> None:
    whole = finish(launch(tmp_path / "whole", "--steps", "24", "--ckpt-every", "4", "--step-s", "0"))
    first = launch(tmp_path / "broken", "--steps", "24", "--ckpt-every", "4", "--step-s", "0.05")
    wait_for_checkpoint(tmp_path / "broken", 8)
    first[1].send_signal(signal.SIGKILL)
    before = finish(first)
    saved = train.newest(tmp_path / "broken")
    assert saved
    assert 8 <= saved.step < 24
    after = finish(launch(tmp_path / "broken", "--steps", "24", "--ckpt-every", "4", "--step-s", "0"))
    for rank in range(RANKS):
        path = tmp_path / "broken" / f"ckpt-{saved.step:08d}.npz"
        assert f"resumed from {path} at step {saved.step}\n" in after[rank]
        assert min(losses(after[rank])) == saved.step + 1
        assert {**losses(before[rank]), **losses(after[rank])} == losses(whole[rank])
    assert len(losses(whole[0])) == 24
    one, two = (np.load(tmp_path / name / "ckpt-00000024.npz", allow_pickle=False) for name in ("whole", "broken"))
    with one, two:
        assert all(np.array_equal(one[key], two[key]) for key in one.files)


def test_training_learns(launch: Launch, tmp_path: Path) -> None:
    values = [float(v) for v in losses(finish(launch(tmp_path, "--steps", "150", "--step-s", "0"))[0]).values()]
    assert np.mean(values[-20:]) < 0.6 * np.mean(values[:5])


def test_every_rank_reports_the_same_loss_and_says_done(launch: Launch, tmp_path: Path) -> None:
    ranks = launch(tmp_path, "--steps", "5", "--step-s", "0")
    texts = finish(ranks)
    assert losses(texts[0]) == losses(texts[1]) == losses(texts[2])
    assert all("INFO done\n" in text for text in texts)
    assert [process.returncode for process in ranks] == [0] * RANKS
    assert "saved checkpoint step=5" in texts[0]
    assert "saved checkpoint" not in texts[1]


def test_peers_of_a_killed_rank_end_with_a_traceback_that_says_the_connection_was_closed(launch: Launch, tmp_path: Path) -> None:
    ranks = launch(tmp_path, "--steps", "1000", "--ckpt-every", "2", "--step-s", "0.02")
    wait_for_checkpoint(tmp_path, 2)
    ranks[2].send_signal(signal.SIGKILL)
    texts = finish(ranks)
    assert [process.returncode for process in ranks] == [1, 1, -9]
    assert re.search(r"Traceback [\s\S]*ConnectionError: all_reduce at step \d+: Connection closed by peer \[rank 2\]", texts[0])
    assert "Connection closed by peer [rank 0]" in texts[1]
    assert "Traceback" not in texts[2]


def test_peers_of_a_stopped_rank_wait_in_silence(launch: Launch, tmp_path: Path) -> None:
    ranks = launch(tmp_path, "--steps", "1000", "--ckpt-every", "2", "--step-s", "0.02", "--timeout", "2")
    wait_for_checkpoint(tmp_path, 2)
    ranks[1].send_signal(signal.SIGSTOP)
    text = ranks[0].communicate(timeout=DEADLINE_S)[0]
    assert ranks[0].returncode == 1
    assert re.search(r"TimeoutError: all_reduce at step \d+: timed out after 2 s waiting for peer \[rank 1\]", text)
    assert "Connection closed" not in text


def test_a_bug_is_met_at_the_same_step_of_every_attempt(launch: Launch, tmp_path: Path) -> None:
    for _ in range(2):
        ranks = launch(tmp_path, "--steps", "20", "--ckpt-every", "3", "--step-s", "0", "--raise-at", "8", "--raise-rank", "1")
        texts = finish(ranks)
        assert [process.returncode for process in ranks] == [1] * RANKS
        assert "ValueError: batch of shape" in texts[1]
        assert max(losses(texts[1])) == 7
        assert "ValueError" not in texts[0] + texts[2]


def test_a_torn_checkpoint_is_skipped_for_the_one_before(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    state = train.State.fresh()
    for step in (2, 4):
        state.step = step
        train.save(state, tmp_path)
    newest = tmp_path / "ckpt-00000004.npz"
    newest.write_bytes(newest.read_bytes()[:300])
    found = train.newest(tmp_path)
    assert found
    assert found.step == 2
    assert "skipped unreadable checkpoint" in caplog.text


def test_a_checkpoint_with_a_pickle_inside_is_not_loaded(tmp_path: Path) -> None:
    np.savez(tmp_path / "ckpt-00000003.npz", step=np.array([object()], dtype=object))
    assert train.newest(tmp_path) is None


def test_only_the_newest_checkpoints_are_kept_and_no_draft_is_left(tmp_path: Path) -> None:
    state = train.State.fresh()
    for step in range(1, 7):
        state.step = step
        train.save(state, tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"ckpt-{n:08d}.npz" for n in (4, 5, 6)]


def test_the_gradient_is_that_of_the_loss() -> None:
    parameters = train.State.fresh().parameters
    features, target = train.prepare(train.read_shard(1, 0, broken=False))
    _, gradient = train.loss_and_gradient(parameters, features, target)
    for index in (0, 17, train.FEATURES * train.HIDDEN, train.PARAMETERS - 2, train.PARAMETERS - 1):
        nudge = np.zeros_like(parameters)
        nudge[index] = 1e-6
        up, down = (train.loss_and_gradient(parameters + sign * nudge, features, target)[0] for sign in (1, -1))
        assert gradient[index] == pytest.approx((up - down) / 2e-6, rel=1e-4, abs=1e-7)
