"""Accounting is asked rarely, and its silence is never "nobody" or "no node"."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from adapters.schedulers.slurm.accounting import AGAIN_S, UNKNOWN_FIELD, Accounting, Word
from rerail.errors import Unreadable
from rerail.records import Job, JobState

ENDED_S = 1796105000
ENDED = datetime.fromtimestamp(ENDED_S, UTC)


def job(state: JobState, **fields: Any) -> Job:
    said = {"cluster": "big", "job_id": "7", "user": "alice", "state": state, "ended_at": ENDED if state.ended else None}
    return Job(**(said | fields))


class Slurm:
    """Answers of sacct and sinfo, and a clock."""

    def __init__(self, sacct: str = "", sinfo: str = "", *, old: bool = True) -> None:
        self.said = {"sacct": sacct, "sinfo": sinfo}
        self.old = old
        self.asked: list[str] = []
        self.now = 1000.0
        self.accounting = Accounting(self.ask, lambda: self.now)

    def ask(self, argv: Sequence[str]) -> str:
        if self.old and argv[-1].endswith("FailedNode"):
            raise Unreadable(f'sacct: {UNKNOWN_FIELD}: "FailedNode"')
        self.asked.append(argv[0])
        if self.said[argv[0]] == "down":
            raise Unreadable("slurmdbd does not answer")
        return self.said[argv[0]]

    def word(self, about: Job, kept: bool = True) -> Word:
        return self.accounting.word(about, 7, kept=kept)


def row(state: str, *, nodes: str = "n1", end: str = str(ENDED_S), owner: str = "1002", more: str = "") -> str:
    return f"7|{state}|{nodes}|{end}|{owner}{more}\n7.batch|CANCELLED|{nodes}|{end}|\n"


@pytest.mark.parametrize(("by", "name"), [("1002", "alice"), ("0", "root"), ("1003", "1003")])
def test_who_cancelled_is_its_owner_root_or_a_number(by: str, name: str) -> None:
    assert Slurm(row(f"CANCELLED by {by}")).word(job(JobState.CANCELLED)) == Word(cancelled_by=name)


def test_a_release_that_names_the_failed_node_is_believed() -> None:
    slurm = Slurm(row("NODE_FAIL", more="|n2"), old=False)
    assert slurm.word(job(JobState.NODE_FAIL)) == Word(failed_node="n2")
    assert slurm.asked == ["sacct"]


def lost(name: str, word: str = "down*", after_s: int = 3) -> str:
    return f"{name}|{word}|{ENDED_S + after_s}\n"


@pytest.mark.parametrize(
    ("sinfo", "node"),
    [
        (lost("n1") + lost("n2", "idle"), "n1"),
        (lost("n1") + lost("n2"), "n[1-2]"),
        (lost("n1", after_s=-3600), ""),
        (lost("n1", "drained"), ""),
        ("n1|down*|Unknown\n", ""),
    ],
)
@pytest.mark.parametrize("kept", [True, False])
def test_an_older_release_lost_the_node_that_went_down_when_the_run_ended(sinfo: str, node: str, kept: bool) -> None:
    slurm = Slurm(row("NODE_FAIL"), sinfo)
    assert slurm.word(job(JobState.NODE_FAIL, nodes=("n1", "n2")), kept).failed_node == node


def test_of_a_job_that_slurm_requeued_itself_the_last_run_tells_the_node() -> None:
    slurm = Slurm(row("NODE_FAIL") + row("PENDING", nodes="None assigned", end="Unknown"), lost("n1"))
    assert slurm.word(job(JobState.PENDING, restarts=1)).failed_node == "n1"


@pytest.mark.parametrize(
    "about",
    [
        job(JobState.RUNNING),
        job(JobState.PENDING),
        job(JobState.COMPLETED),
        job(JobState.FAILED),
        job(JobState.RUNNING, restarts=1),
    ],
)
def test_of_other_jobs_nobody_is_asked(about: Job) -> None:
    slurm = Slurm()
    assert slurm.word(about) == Word()
    assert slurm.asked == []


def test_a_job_that_is_looked_at_again_and_again_is_asked_for_once() -> None:
    slurm = Slurm(row("CANCELLED by 1002"))
    assert {slurm.word(job(JobState.CANCELLED)).cancelled_by for _ in range(50)} == {"alice"}
    assert slurm.asked == ["sacct"]


@pytest.mark.parametrize("silence", ["down", "", row("RUNNING", end="Unknown"), "nonsense\n7|\n"])
def test_silence_is_unknown_and_asked_for_again_later(silence: str) -> None:
    slurm = Slurm(silence)
    for _ in range(10):
        assert slurm.word(job(JobState.CANCELLED)) == Word()
    assert slurm.asked == ["sacct"]
    slurm.said["sacct"] = row("CANCELLED by 0")
    slurm.now += AGAIN_S
    assert slurm.word(job(JobState.CANCELLED)) == Word(cancelled_by="root")


def test_without_accounting_nobody_is_asked_who_cancelled() -> None:
    slurm = Slurm(row("CANCELLED by 0"))
    assert slurm.word(job(JobState.CANCELLED), kept=False) == Word()
    assert slurm.asked == []
