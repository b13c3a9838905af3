"""What training loops print."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerail.errors import Misconfigured
from rerail.readers import progress
from rerail.readers.progress import Phase


@pytest.mark.parametrize("reader", progress.READERS, ids=lambda reader: reader.name)
def test_each_reader_reads_its_own_example(reader: progress.Reader) -> None:
    mark = progress.mark(reader.example.encode())
    assert mark is not None
    assert mark.reader == reader.name


@pytest.mark.parametrize(
    ("line", "step", "loss", "pace"),
    [
        (b"0: [2026-12-01 03:23:48,292][rank 0][INFO] step=12 loss=2.3054 compute_s=0.250 step_s=0.311", 12, 2.3054, 0.311),
        (b"step 12/60 loss 2.5", 12, 2.5, None),
        (b" iteration       12/  500 | elapsed time per iteration (ms): 5183.1 | lm loss: 3.1E+00", 12, 3.1, 5.1831),
        (b"Epoch 0:  20%|##   | 12/60 [00:10<00:40,  2.00it/s, loss=2.421]", 12, 2.421, 0.5),
        (b"Epoch: [2]  [ 12/60]  eta: 36:37  loss: 3.5143 (3.46)  time: 0.4522", 132, 3.5143, 0.4522),
        (b"[titan] - root - INFO - \x1b[31mstep: 12  \x1b[32mloss:  4.08140", 12, 4.0814, None),
        (b"iter 12: loss 3.2914, time 240.10ms, mfu 12.1%", 12, 3.2914, 0.2401),
        (b"completed step: 12, seconds: 2.5, TFLOP/s/device: 200.1, loss: 5.1", 12, 5.1, 2.5),
        (b"mmseg - INFO - Iter [450/80000]\tlr: 9e-05, time: 1.949, decode.loss_rank: 0.1, loss: 2.1089", 450, 2.1089, 1.949),
        (b"\r 20%|##| 11/60 [00:1<00:4, 2.0s/it]\r 20%|##| 12/60 [00:10<00:40,  2.00s/it]", 12, None, 2.0),
        (b"{'step': 12, 'loss': 2.61, 'tokens_per_sec_per_gpu': 640}", 12, 2.61, None),
        (b"[Rank 0] step=12, skipped=4, lr=[9.7e-06]", 12, None, None),
        (b"Epoch 0: 2%| | 41/150 [12:59:45<4, loss=2.3, global_step=4.1e+3, train_step_timing in s=11.2]", 4100, 2.3, 11.2),
    ],
)  # fmt: skip
def test_a_step_is_read_with_its_loss_and_pace(line: bytes, step: int, loss: float | None, pace: float | None) -> None:
    mark = progress.mark(line)
    assert mark is not None
    assert (mark.step, mark.loss) == (step, loss)
    assert mark.pace == pytest.approx(pace)


@pytest.mark.parametrize(
    "line",
    [
        b"saved checkpoint step=10 path=/scratch/a.pt",
        b"saving checkpoint at iteration 500 to /a",
        b"resumed from /a/checkpoint.pt at step 20",
        b"slurmstepd: error: *** STEP 4.0 ON node1 CANCELLED AT 2026-12-01T03:38:45 ***",
        b"Total optimization steps = 5000",
        b"Loading checkpoint shards: 100%|####| 30/30 [01:58<00:00,  3.95s/it]",
        b"validation loss at iteration 200 | lm loss value: 2.1",
        b"eval step 12/50",
    ],
)
def test_a_line_that_names_a_step_is_not_always_progress(line: bytes) -> None:
    assert progress.mark(line) is None


@pytest.mark.parametrize(
    ("line", "phase"),
    [
        (b"saving checkpoint at iteration 500 to /a", Phase.CHECKPOINT),
        (b"0: saved checkpoint step=10 path=/a", Phase.STEP),
        (b"***** Running Evaluation *****", Phase.EVALUATION),
        (b"AUTOTUNE mm(4096x4096)", Phase.COMPILE),
        (b"Resuming from /a/checkpoint-500", Phase.STARTUP),
        (b"`Trainer.fit` stopped: `max_epochs=100` reached.", Phase.SHUTDOWN),
        (b"step 4 loss 2.1", None),
    ],
)
def test_a_line_announces_a_phase(line: bytes, phase: Phase | None) -> None:
    assert progress.phase(line) is phase


@pytest.mark.parametrize(
    ("line", "step"),
    [
        (b"resumed from /a/checkpoint.pt at step 20", 20),
        (b" loaded checkpoint from /x [ t 1/8, p 1/4 ] at iteration 500", 500),
        (b"Resuming training from checkpoint-500", 500),
        (b"training is great", None),
    ],
)
def test_where_training_resumed_is_read(line: bytes, step: int | None) -> None:
    assert progress.resumed_step(line) == step


def test_a_summary_tells_where_it_resumed_how_far_it_came_and_its_losses() -> None:
    log = b"resumed from /a/c.pt at step 20\n" + b"".join(
        b"[rank %d] step=%d loss=%.1f\n" % (rank, step, 5 - step / 10 + rank) for step in range(20, 31) for rank in (1, 0)
    )
    story = progress.summary(log + b"saved checkpoint step=30 path=/a/c.pt\n[rank 0] step=31 loss=nan\n")
    assert (story.resumed_step, story.highest_step, story.checkpoints) == (20, 31, (30,))
    assert story.losses[20] == 3.0
    assert math.isnan(story.losses[31])


OWN = r"sweep (?P<step>\d+) of (?P<total>\d+)"


def test_a_site_reads_its_own_loop() -> None:
    mark = progress.mark(b"[rank 3] sweep 12 of 60: energy -4.1, loss=2.5", OWN)
    assert mark is not None
    assert (mark.reader, mark.step, mark.loss, mark.rank) == (progress.SITE, 12, 2.5, 3)
    assert progress.summary(b"sweep 12 of 60\nstep=900\nsweep 13 of 60\n", OWN).highest_step == 13


@pytest.mark.parametrize("pattern", ["sweep (", r"sweep (\d+)", r"(?P<step>\d+)" + "x" * 400, r"(?P<step>\d+)(?=x)"])
def test_a_sites_bad_pattern_is_refused_with_a_sentence(pattern: str) -> None:
    with pytest.raises(Misconfigured, match="progress pattern"):
        progress.mark(b"step=1", pattern)


@given(st.binary(max_size=3000))
def test_any_bytes_are_read_without_a_complaint(data: bytes) -> None:
    story = progress.summary(data)
    assert len(story.losses) <= progress.MOST_LOSSES
    json.dumps(story.model_dump(mode="json"))
    for line in data.split(b"\n"):
        progress.phase(line)
