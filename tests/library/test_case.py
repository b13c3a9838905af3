"""Reading a case, also a hostile one."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rerail import diagnosis, report
from rerail.case import read_case
from rerail.errors import Misconfigured
from rerail.readers import scheduler
from rerail.records import Kind


def test_nothing_at_a_path_is_said_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="does not exist"):
        read_case(tmp_path / "nowhere")


def test_a_pipe_in_place_of_a_log_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "job.log")
    case = read_case(tmp_path)
    assert case.log.lines == 0
    assert any("regular file" in one for one in case.missing)


def test_a_loop_of_links_is_no_log(tmp_path: Path) -> None:
    (tmp_path / "job.log").symlink_to(tmp_path / "job.log")
    assert any("job.log" in one for one in read_case(tmp_path).missing)


def test_an_empty_case_is_unknown_and_isolates_nobody(tmp_path: Path) -> None:
    verdict = diagnosis.diagnose(tmp_path)
    assert verdict.culprit_nodes == ()
    assert verdict.unknowns


def test_a_bare_log_is_a_case(tmp_path: Path) -> None:
    log = tmp_path / "some.log"
    log.write_text(
        "step=1 loss=2.0\nstep=2 loss=2.0\nTraceback (most recent call last):\n  File \"a.py\", line 1\nKeyError: 'lr'\n"
    )
    verdict = diagnosis.diagnose(log)
    assert verdict.kind is Kind.CRASH
    assert any("only a log" in one for one in verdict.unknowns)


def test_a_file_that_is_no_json_is_told_and_passed_over(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text("step=1\n")
    (tmp_path / "scheduler.json").write_text("[" * 100_000)
    (tmp_path / "ranks.json").write_text('{"0": 7, "x": "n1", "1": "n2"}')
    case = read_case(tmp_path)
    assert case.rank_nodes == {1: "n2"}
    assert any("scheduler.json" in one for one in case.missing)


@given(st.recursive(st.none() | st.integers() | st.text(max_size=30), lambda inner: st.lists(inner, max_size=4)))
def test_any_json_is_a_schedulers_record(value: object) -> None:
    said = dict.fromkeys(
        ("job_id", "state", "exit_code", "nodes", "node_states", "started_at", "ended_at", "restart_count"), value
    )
    json.dumps(scheduler.read(said).model_dump(mode="json"))
    scheduler.read(value)


def test_hostlists_in_a_schedulers_record_are_expanded() -> None:
    read = scheduler.read({"nodes": ["gpu-[01-02]", "n[1-"], "node_states": {"gpu-[01-02]": "IDLE"}, "exit_code": "9:15"})
    assert read.nodes == ("gpu-01", "gpu-02", "n[1-")
    assert read.node_states == {"gpu-01": "IDLE", "gpu-02": "IDLE"}
    assert (read.exit_code, read.exit_signal) == (9, 15)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=200),
            st.sampled_from(
                [b"Traceback (most recent call last):", b"[rank3]: ValueError: \x1b[2Jx", b"  rank      : 2 (local_rank: 0)"]
            ),
            st.sampled_from([b"step=5 loss=nan", b"NVRM: Xid (PCI:0000:9b:00): 79, pid=1", b"srun: error: n1: task 0: Killed"]),
        ),
        max_size=40,
    )
)
def test_any_bytes_in_any_file_give_a_verdict_and_a_clean_page(tmp_path: Path, said: list[bytes]) -> None:
    (tmp_path / "dmesg").mkdir(exist_ok=True)
    data = b"\n".join(said)
    for name in ("job.log", "scheduler.json", "ranks.json", "processes.json", "dmesg/n1.log", "_dump_0", "error_0.json"):
        (tmp_path / name).write_bytes(data)
    verdict = diagnosis.diagnose(tmp_path)
    page = report.page(verdict)
    assert not [char for char in page if char != "\n" and (ord(char) < 32 or 127 <= ord(char) < 160)]
    json.dumps(report.as_json(verdict))


def test_a_line_without_end_is_bounded_and_told(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_bytes(b"\0" * (9 << 20))
    case = read_case(tmp_path)
    assert case.log.lines == 1
    assert any("longer than" in one for one in case.missing)


def test_colours_are_for_terminals_only(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text("Traceback (most recent call last):\nKeyError: 'lr'\n")
    verdict = diagnosis.diagnose(tmp_path)
    assert "\x1b" not in report.page(verdict)
    assert "\x1b[31m" in report.page(verdict, colour=True)


def test_error_files_of_torch_elastic_order_the_ranks(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text("step=1\n")
    for rank, at, said in (
        (0, 1700000009, "RuntimeError: Connection closed by peer"),
        (1, 1700000001, "shards.BadShard: ends early"),
    ):
        message = {"message": f"Traceback\n  File x\n{said}\n", "extraInfo": {"timestamp": str(at)}}
        (tmp_path / f"error_{rank}.json").write_text(json.dumps({"message": message}))
    assert diagnosis.diagnose(tmp_path).culprit_ranks == (1,)
