"""The live detectors, replayed second by second without waiting."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rerail import detectors
from rerail.detectors import Symptom, Watched
from rerail.records import Job, JobState, Kind

START = datetime(2026, 12, 1, 10, tzinfo=UTC)
RUNNING = Job(cluster="c", job_id="1", state=JobState.RUNNING)
LARGEST = 2048


class Replay:
    """One watched attempt: lines come in at a second, and the scheduler is read each second."""

    def __init__(self) -> None:
        self.now = START
        self.watched = detectors.begin(START)
        self.told: list[tuple[float, Symptom]] = []

    def says(self, lines: str) -> None:
        self.watched, symptoms = detectors.read_lines(self.watched, lines.encode() + b"\n", self.now)
        self.keep(symptoms)

    def sees(self, job: Job = RUNNING) -> None:
        self.watched, symptoms = detectors.see_job(self.watched, job, self.now)
        self.keep(symptoms)

    def waits(self, seconds: float) -> None:
        end = self.now + timedelta(seconds=seconds)
        while self.now < end:
            self.now = min(end, self.now + timedelta(seconds=1))
            self.sees()

    def steps(self, count: int, every: float = 1.0, line: str = "step={} loss=2.0", since: int = 0) -> None:
        for step in range(since, since + count):
            self.waits(every)
            self.says(line.format(step))

    def keep(self, symptoms: tuple[Symptom, ...]) -> None:
        self.told += [((self.now - START).total_seconds(), symptom) for symptom in symptoms]

    @property
    def kinds(self) -> list[Kind]:
        return [symptom.kind for _, symptom in self.told]


@pytest.fixture
def replay() -> Replay:
    return Replay()


@pytest.mark.parametrize(("every", "within"), [(0.3, 45), (1, 45), (5, 45), (10, 80), (30, 240)])
def test_a_hang_is_told_within_eight_steps_or_45_s_whichever_is_longer(replay: Replay, every: float, within: float) -> None:
    replay.steps(30, every)
    stopped = replay.now
    replay.waits(within)
    assert replay.kinds == [Kind.HANG]
    symptom = replay.told[0][1]
    assert (symptom.detector, symptom.last_step, symptom.symptom_at) == ("stalled", 29, stopped)


@pytest.mark.parametrize(
    ("line", "silent"),
    [
        ("saving checkpoint at iteration 30 to /a", 300),
        ("***** Running Evaluation *****", 1200),
        ("AUTOTUNE mm(4096x4096)", 1200),
    ],
)
def test_a_checkpoint_an_evaluation_and_a_compile_are_no_hang(replay: Replay, line: str, silent: float) -> None:
    replay.steps(30)
    replay.says(line)
    replay.waits(silent)
    replay.steps(5, since=30)
    assert replay.kinds == []


def test_a_slow_start_and_a_slow_first_step_are_no_hang(replay: Replay) -> None:
    replay.says("loading the model")
    replay.waits(900)
    replay.says("step=0 loss=11.0")
    replay.waits(240)
    replay.steps(20, since=1)
    assert replay.kinds == []


def test_pauses_that_ended_by_themselves_are_learnt(replay: Replay) -> None:
    replay.steps(20)
    replay.waits(28)
    replay.steps(20, since=20)
    replay.waits(38)
    replay.steps(2, since=40)
    assert replay.kinds == []


def test_time_without_sight_is_no_silence(replay: Replay) -> None:
    replay.steps(20)
    replay.now += timedelta(minutes=20)
    replay.watched = detectors.was_blind(replay.watched, replay.now)
    replay.sees()
    replay.waits(20)
    assert replay.kinds == []
    replay.waits(20)
    assert replay.kinds == [Kind.HANG]


def test_a_new_epoch_that_counts_from_zero_is_progress(replay: Replay) -> None:
    replay.steps(40, line="epoch 0 batch {} loss 2.0")
    replay.steps(60, line="epoch 1 batch {} loss 1.0")
    assert replay.kinds == []
    assert replay.watched.last_step == 59


def test_a_checkpoint_that_is_told_late_is_kept(replay: Replay) -> None:
    replay.steps(13, line="[rank 1] step={} loss=2.0")
    replay.says("[rank 0] saved checkpoint step=10 path=/a/c.pt")
    assert replay.watched.checkpoint_step == 10


def test_ranks_that_print_the_same_step_are_no_progress(replay: Replay) -> None:
    replay.steps(20, line="[rank 0] step={} loss=2.0")
    for rank in range(1, 60):
        replay.waits(1)
        replay.says(f"[rank {rank}] step=19 loss=2.0")
    assert replay.kinds == [Kind.HANG]


@pytest.mark.parametrize(
    "line",
    [
        "2: E1201 03:23:52.724000 15 torch/api.py:1002] failed (exitcode: -9) local_rank: 0 (pid: 18) of binary: python",
        "srun: error: node3: task 2: Exited with exit code 1",
        "local: error: node n2: rank 2: killed by signal 9",
    ],
)
def test_a_line_that_only_a_dead_process_makes_is_told_at_once(replay: Replay, line: str) -> None:
    replay.steps(20)
    replay.says(line)
    assert replay.kinds == [Kind.CRASH]
    assert replay.told[0][1].detector == "exited"


def test_the_rank_that_a_launcher_names_is_told(replay: Replay) -> None:
    replay.steps(20)
    replay.says("local: error: node n2: rank 2: killed by signal 9")
    assert replay.told[0][1].ranks == (2,)


TRACEBACK = 'Traceback (most recent call last):\n  File "a.py", line 3, in f\nValueError: no such sample'


def test_a_traceback_followed_by_nothing_is_told_within_seconds(replay: Replay) -> None:
    replay.steps(20, 0.5)
    replay.says(TRACEBACK)
    assert replay.kinds == []
    replay.waits(3)
    assert replay.kinds == [Kind.CRASH]


def test_a_caught_exception_in_a_run_that_goes_on_is_no_symptom(replay: Replay) -> None:
    replay.steps(20, 3)
    replay.says(TRACEBACK)
    replay.steps(20, 3, since=20)
    assert replay.kinds == []
    assert replay.watched.fatal == ""


@pytest.mark.parametrize(
    "ending",
    [
        "slurmstepd: error: *** STEP 4.0 ON node1 CANCELLED AT 2026-12-01T03:38:45 ***",
        "slurmstepd: error: *** JOB 4 ON node1 CANCELLED AT 2026-12-01T03:38:45 DUE TO PREEMPTION ***",
        "W1201 03:38:45.886000 148 torch/api.py:753] Received 15 death signal, shutting down workers",
    ],
)
def test_what_dies_by_somebodys_will_is_no_crash(replay: Replay, ending: str) -> None:
    replay.steps(20)
    replay.says(f"{ending}\n{TRACEBACK}\nsrun: error: node2: task 1: Exited with exit code 1")
    replay.waits(120)
    assert replay.kinds == []


def test_a_launcher_that_restarts_its_workers_gets_the_time_to_do_it(replay: Replay) -> None:
    replay.steps(20)
    replay.says("[default] Worker group FAILED. 3/3 attempts left; will restart worker group")
    replay.says("E1201 03:23:52.7 15 api.py:1002] failed (exitcode: -9) local_rank: 0 (pid: 18) of binary: python")
    replay.waits(40)
    replay.steps(20, since=10)
    assert replay.kinds == []


@pytest.mark.parametrize("state", [JobState.FAILED, JobState.OUT_OF_MEMORY, JobState.NODE_FAIL, JobState.BOOT_FAIL])
def test_a_failure_in_the_schedulers_record_is_told_with_its_end(replay: Replay, state: JobState) -> None:
    replay.steps(5)
    ended = replay.now - timedelta(seconds=1)
    replay.sees(RUNNING.model_copy(update={"state": state, "ended_at": ended, "exit_code": 1}))
    assert replay.kinds == [Kind.CRASH]
    assert replay.told[0][1].symptom_at == ended


@pytest.mark.parametrize(
    "state", [JobState.COMPLETED, JobState.CANCELLED, JobState.PREEMPTED, JobState.TIMEOUT, JobState.DEADLINE]
)
def test_an_end_by_will_or_by_time_while_moving_is_none(replay: Replay, state: JobState) -> None:
    replay.steps(20)
    replay.sees(RUNNING.model_copy(update={"state": state, "ended_at": replay.now}))
    assert replay.kinds == []


def test_a_time_limit_after_long_silence_is_a_hang(replay: Replay) -> None:
    replay.steps(20)
    replay.now += timedelta(hours=2)
    replay.sees(RUNNING.model_copy(update={"state": JobState.TIMEOUT, "ended_at": replay.now}))
    assert replay.kinds == [Kind.HANG]


def test_each_kind_is_told_once(replay: Replay) -> None:
    replay.steps(20)
    replay.waits(200)
    replay.says("srun: error: node3: task 2: Exited with exit code 1")
    replay.sees(RUNNING.model_copy(update={"state": JobState.FAILED}))
    assert replay.kinds == [Kind.HANG]


def test_a_job_that_became_slow_is_told_with_the_rank_that_works_longest(replay: Replay) -> None:
    def line(step: int, slow: float) -> str:
        return "\n".join(f"[rank {r}] step={step} compute_s={slow if r == 2 else 0.25} step_s={slow + 0.05}" for r in range(4))

    for step in range(30):
        replay.waits(1)
        replay.says(line(step, 0.25))
    for step in range(30, 45):
        replay.waits(1)
        replay.says(line(step, 1.25))
    assert replay.kinds == [Kind.STRAGGLER]
    assert replay.told[0][1].ranks == (2,)
    assert replay.told[0][0] <= 36


def test_swings_and_single_pauses_are_no_slowness(replay: Replay) -> None:
    for step in range(200):
        pace = 1.0 + 0.15 * (step % 5) + (8.0 if step % 20 == 0 else 0.0)
        replay.waits(1)
        replay.says(f"step={step} step_s={pace}")
    assert replay.kinds == []


def test_a_whole_stage_that_works_longer_is_no_bad_rank(replay: Replay) -> None:
    for step in range(40):
        replay.waits(1)
        replay.says("\n".join(f"[rank {r}] step={step} compute_s={1.6 if r < 4 else 1.0} step_s=2.0" for r in range(16)))
    assert replay.kinds == []


def lines() -> Iterator[st.SearchStrategy[str]]:
    yield st.integers(0, 10**6).map(lambda step: f"[rank {step % 64}] step={step} loss=2.0 compute_s=0.25 step_s={step % 7}")
    yield st.text(max_size=400).map(lambda text: text.replace("\n", " "))
    yield st.sampled_from([TRACEBACK, "saving checkpoint at step 5", "***** Running Evaluation *****", "\x1b[31m" * 50])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.lists(st.one_of(*lines()), max_size=40), st.floats(0, 100)), max_size=30))
def test_the_watch_stays_small_whatever_the_job_prints(readings: list[tuple[list[str], float]]) -> None:
    watched, now = detectors.begin(START), START
    for said, later in readings:
        now += timedelta(seconds=later)
        watched, _ = detectors.read_lines(watched, "\n".join(said).encode() + b"\n", now)
        watched, _ = detectors.see_job(watched, RUNNING, now)
    stored = watched.model_dump_json()
    assert len(stored) < LARGEST
    assert Watched.model_validate_json(stored) == watched
