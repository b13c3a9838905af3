"""squeue's table reads as its JSON does, whatever strangers call their jobs, and anything out of place is no answer."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.schedulers.slurm import Ran, SlurmScheduler, reading, table
from adapters.schedulers.slurm.table import COLUMNS
from rerail.errors import Misconfigured, NoSuchJob, Unreadable
from rerail.ports import ALL_RIGHTS, Right
from rerail.records import Job, JobState

WORD = "x0123456789abcdef"
CONFIG = b"Configuration data as of 1796104790\nAccountingStorageType = accounting_storage/none\nMinJobAge = 300 sec\n"

PLAIN = {
    "JobID": "7",
    "ArrayJobID": "7",
    "ArrayTaskID": "N/A",
    "HetJobID": "N/A",
    "HetJobOffset": "N/A",
    "State": "FAILED",
    "Reason": "NonZeroExitCode",
    "RestartCnt": "0",
    "exit_code": "1792",
    "BatchFlag": "1",
    "Requeue": "1",
    "NumNodes": "2",
    "NodeList": "node[1-2]",
    "ReqNodes": "",
    "BatchHost": "node1",
    "SubmitTime": "1796104786",
    "EligibleTime": "1796104786",
    "StartTime": "1796104787",
    "EndTime": "1796104788",
    "TimeLimit": "1-00:30:00",
    "UserID": "1002",
    "UserName": "alice",
    "Account": "(null)",
    "Partition": "main",
    "QOS": "normal",
    "Dependency": "(null)",
    "Name": "train",
    "Command": "/w/job.sh 1",
    "WorkDir": "/w",
    "STDOUT": "/w/%x-%j.log",
    "STDERR": "/w/%x-%j.log",
    "Comment": "(null)",
}
"""As printed by 22.05.8 with SLURM_TIME_FORMAT=%s, with another limit, name and paths."""


def line(word: str = WORD, **fields: str) -> str:
    said = PLAIN | fields
    return "".join(said[column.field] + word for column in COLUMNS) + "\n"


def jobs(*lines: str, word: str = WORD) -> dict[int, Job]:
    rows = table.rows("".join(lines).encode(), word)
    return {number: reading.job(number, table.entry(row), "big", 300) for number, row in rows.items()}


def job(**fields: str) -> Job:
    return jobs(line(**fields))[7]


class Told:
    """A runner that answers as it was told, and keeps what it was asked."""

    def __init__(self, *lines: dict[str, str], more: dict[str, Ran] | None = None) -> None:
        self.lines = lines
        self.more = more or {}
        self.asked: list[Sequence[str]] = []

    def rights(self) -> frozenset[Right]:
        return ALL_RIGHTS

    def run(self, argv: Sequence[str], deadline_s: float) -> Ran:
        self.asked.append(argv)
        if argv[0] == "scontrol":
            return Ran(0, CONFIG)
        asked = argv[-1]
        if asked.startswith("--Format="):
            word = asked.rpartition(":0")[2]
            return Ran(0, "".join(line(word, **fields) for fields in self.lines).encode())
        if asked.startswith("--format=%A"):
            word = asked.rpartition("%x")[2]
            return Ran(0, f"7{word}node[3-4]{word}\n".encode())
        return self.more[argv[0]]


def test_a_row_is_a_job() -> None:
    read = job()
    assert (read.job_id, read.state, read.exit_code, read.reason) == ("7", JobState.FAILED, 7, "NonZeroExitCode")
    assert (read.nodes, read.nodes_needed, read.time_limit_s) == (("node1", "node2"), 2, 88_200)
    assert (read.started_at, read.ended_at) == (datetime.fromtimestamp(1796104787, UTC), datetime.fromtimestamp(1796104788, UTC))
    assert (read.account, read.qos, read.array_job_id, read.het_job_id, read.comment) == ("", "normal", "", "", "")
    assert (read.output, read.error_output) == ("/w/train-7.log", "")


def test_no_lines_are_no_jobs() -> None:
    assert jobs() == {}


STRANGERS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


@given(STRANGERS, STRANGERS, STRANGERS)
def test_strangers_words_shift_nothing(name: str, comment: str, folder: str) -> None:
    found = jobs(line(Name=name, Comment=comment, WorkDir=folder), line(JobID="8", ArrayJobID="8"))
    assert sorted(found) == [7, 8]
    assert (found[7].name, found[7].folder) == ("" if name == "(null)" else name, "" if folder == "(null)" else folder)
    assert found[7].state is found[8].state is JobState.FAILED
    assert found[8].name == "train"


def test_a_row_forged_with_an_old_word_is_a_name() -> None:
    forged = line(word="x1111111111111111", JobID="1", State="FAILED")
    assert job(Name=f"a\n{forged}").name.endswith(forged)


def test_a_row_forged_with_the_very_word_makes_no_answer_when_it_speaks_of_another_job() -> None:
    """Somebody saw the word in the list of processes and was faster than squeue."""
    forged = line(JobID="9", ArrayJobID="9")
    rest = "".join(PLAIN[column.field] + WORD for column in COLUMNS[[c.field for c in COLUMNS].index("Name") + 1 :]) + "\n"
    with pytest.raises(Unreadable):
        jobs(line(Name=f"a{WORD}{rest}{forged.rstrip()}"), line(JobID="9", ArrayJobID="9"))


def test_every_cut_is_noticed() -> None:
    whole = line(Name="a\nb") + line(JobID="8", ArrayJobID="8")
    for end in range(1, len(whole)):
        if whole[:end] != line(Name="a\nb"):
            with pytest.raises(Unreadable):
                table.rows(whole[:end].encode(), WORD)


@pytest.mark.parametrize("lines", [(line(), line()), (line(JobID="x"),), (line(JobID=""),), (line(Name=f"a{WORD}b"),)])
def test_what_is_out_of_place_is_no_answer(lines: tuple[str, ...]) -> None:
    with pytest.raises(Unreadable):
        table.rows("".join(lines).encode(), WORD)


def test_a_time_of_day_is_refused_for_its_zone_is_unknown() -> None:
    with pytest.raises(Misconfigured, match="SLURM_TIME_FORMAT"):
        job(StartTime="2026-12-01T05:59:46")


@pytest.mark.parametrize(
    ("read", "field", "value"),
    [
        (table.number, "7", 7),
        (table.number, "1K", 1024),
        (table.number, "2-4", 2),
        (table.number, "N/A", None),
        (table.minutes, "5:00", 5),
        (table.minutes, "1:00:01", 61),
        (table.minutes, "UNLIMITED", None),
        (table.minutes, "Partition_Limit", None),
        (table.moment, "N/A", 0),
        (table.wait_status, "9", 9),
        (table.wait_status, "7:0", 1792),
        (table.wait_status, "0:9", 9),
        (table.text, "(null)", ""),
        (table.text, "N/A", "N/A"),
        (table.name, "n/a", ""),
    ],
)
def test_fields_read_as_what_they_stand_for(read: Any, field: str, value: object) -> None:
    assert read(field) == value


def test_a_task_of_an_array_writes_where_slurm_says_and_not_where_squeue_says() -> None:
    """squeue 22.05 makes up a default name of the task's own number."""
    made_up = "/w/slurm-7.out"
    assert job(ArrayJobID="5", ArrayTaskID="3", STDOUT=made_up, STDERR=made_up).output == "/w/slurm-5_3.out"
    assert job(ArrayJobID="5", ArrayTaskID="3").job_id == "5_3"
    assert job(ArrayJobID="7", ArrayTaskID="1-5%2", State="PENDING").array_task_id == "1-5%2"
    assert job(STDOUT=made_up, STDERR=made_up).output == made_up


@pytest.mark.parametrize(("end", "limit"), [("NONE", "UNLIMITED"), ("1796105087", "5:00")])
def test_a_completing_job_that_goes_back_is_pending(end: str, limit: str) -> None:
    """As printed by 22.05.8 right after `scontrol requeue`."""
    read = job(State="COMPLETING", Reason="None", RestartCnt="1", EndTime=end, TimeLimit=limit)
    assert (read.state, read.completing, read.ended_at) == (JobState.PENDING, True, None)


def test_an_unchanged_row_is_not_read_again_and_a_changed_one_is() -> None:
    runner = Told({}, {"JobID": "8", "ArrayJobID": "8"})
    scheduler = SlurmScheduler("big", runner)
    first = scheduler.read().jobs
    runner.lines = ({}, {"JobID": "8", "ArrayJobID": "8", "State": "RUNNING"})
    second = scheduler.read().jobs
    assert second[0] is first[0]
    assert (first[1].state, second[1].state) == (JobState.FAILED, JobState.RUNNING)


def test_a_read_is_one_command_whatever_the_number_of_jobs() -> None:
    runner = Told(*({"JobID": str(n), "ArrayJobID": str(n)} for n in range(1, 500)))
    scheduler = SlurmScheduler("big", runner)
    scheduler.read()
    runner.asked.clear()
    scheduler.read()
    assert [argv[0] for argv in runner.asked] == ["squeue"]


def test_a_full_read_has_the_excluded_nodes_and_no_word_is_used_twice() -> None:
    runner = Told({})
    assert SlurmScheduler("big", runner).job("7").excluded_nodes == ("node3", "node4")
    words = {argv[-1][-16:] for argv in runner.asked if argv[0] == "squeue"}
    assert len(words) == 2


def test_a_job_that_is_not_in_the_answer_is_named() -> None:
    with pytest.raises(NoSuchJob, match="77777"):
        SlurmScheduler("big", Told({})).job("77777")


@pytest.mark.parametrize(("off_s", "told_s"), [(0, 0), (1, 0), (-20, -20), (20, 20)])
def test_a_reading_tells_slurmctlds_time_where_the_clocks_differ(off_s: int, told_s: int) -> None:
    clock = datetime.fromtimestamp(1796104790 + off_s, UTC)
    read_at = SlurmScheduler("big", Told({}), clock=lambda: clock).read().read_at
    assert (clock - read_at).total_seconds() == told_s
