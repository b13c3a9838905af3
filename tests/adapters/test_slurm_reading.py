"""Slurm's JSON of several releases reads the same, and nothing that isn't a whole answer reads as "no jobs"."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.schedulers.slurm import answers, arrays, fleet, ids, output, reading
from rerail.errors import Misconfigured, NoSuchJob, OutcomeUnknown, Refused, RerailError, Transient, Unreadable
from rerail.records import Job, JobState, NodeState

SAMPLES = Path(__file__).parent / "slurm_samples"
MIN_JOB_AGE_S = 300


def sample(name: str) -> dict[int, Job]:
    return reading.jobs((SAMPLES / name).read_bytes(), "big", MIN_JOB_AGE_S)


def entry(**fields: Any) -> Job:
    """A job from one entry of the list, other fields absent."""
    document = json.dumps({"errors": [], "jobs": [{"job_id": 7, **fields}]}).encode()
    return reading.jobs(document, "big", MIN_JOB_AGE_S)[7]


def test_a_failed_job_of_2205_tells_exit_code_nodes_and_until_when_it_can_be_requeued() -> None:
    job = sample("22.05-squeue.json")[1]
    assert (job.job_id, job.state, job.exit_code, job.exit_signal) == ("1", JobState.FAILED, 7, None)
    assert (job.nodes, job.nodes_needed) == (("node1", "node2"), 2)
    assert job.ended_at == datetime.fromtimestamp(1796097010, UTC)
    assert job.requeue_until == datetime.fromtimestamp(1796097310, UTC)
    assert sample("22.05-squeue.json")[2].exit_signal == 9


def test_a_dead_controller_of_2205_is_unreadable_though_its_list_is_empty() -> None:
    with pytest.raises(Unreadable, match="Failed while looking for jobs"):
        sample("22.05-squeue-controller-dead.json")


def test_no_jobs_without_errors_are_no_jobs() -> None:
    assert reading.jobs(b'{"errors": [], "jobs": []}', "big", None) == {}


@pytest.mark.parametrize(
    "answer", [b"", b"slurm", b"[]", b"{}", b'{"jobs": null}', b'{"jobs": [{}]}', b'{"jobs": [3]}', b"[" * 100_000]
)
def test_what_is_no_whole_answer_is_unreadable(answer: bytes) -> None:
    with pytest.raises(Unreadable):
        reading.jobs(answer, "big", None)


def test_2302_numbers_in_objects_read_as_numbers() -> None:
    job = sample("23.02-squeue.json")[4711]
    assert (job.state, job.exit_code, job.nodes, job.nodes_needed) == (JobState.FAILED, 7, ("gpu-001", "gpu-002"), 2)
    assert (job.time_limit_s, job.excluded_nodes, job.array_job_id) == (3600, ("gpu-017", "gpu-019"), "")


def test_2311_a_requeued_job_waits_by_its_begin_time_and_has_no_nodes() -> None:
    job = sample("23.11-squeue.json")[4711]
    assert (job.state, job.flags, job.nodes, job.held) == (JobState.PENDING, ("requeued",), (), False)
    assert (job.restarts, job.started_at, job.begins_at) == (3, None, datetime.fromtimestamp(1796097126, UTC))
    assert (job.time_limit_s, job.exit_code, job.het_job_id) == (None, None, "")


def test_2511_flags_stand_beside_the_state_and_paths_come_expanded() -> None:
    job = sample("25.11-squeue.json")[4711]
    assert (job.state, job.flags, job.completing) == (JobState.FAILED, ("completing",), True)
    assert (job.exit_code, job.exit_signal, job.failed_node) == (None, 9, "gpu-002")
    assert (job.output, job.error_output, job.nodes) == ("/home/alice/run/llama-04711.log", "", ("gpu-001", "gpu-002"))


@pytest.mark.parametrize(
    "nodes",
    [
        {"nodes": "gpu-[1-2]"},
        {"nodes": "", "job_resources": {"nodes": "gpu-[1-2]"}},
        {"nodes": None, "job_resources": {"allocated_nodes": [{"nodename": "gpu-1"}, {"nodename": "gpu-2"}]}},
        {"job_resources": {"nodes": {"count": 2, "list": "gpu-[1-2]"}}},
        {"job_resources": {"nodes": {"allocation": [{"name": "gpu-1"}, {"name": "gpu-2"}]}}},
        {"nodes": ["gpu-1", "gpu-2"]},
    ],
)
def test_nodes_read_from_every_shape(nodes: dict[str, Any]) -> None:
    assert entry(job_state="RUNNING", **nodes).nodes == ("gpu-1", "gpu-2")


def test_unknown_states_and_flags_are_kept_and_never_an_end() -> None:
    job = entry(job_state=["FUTURISTIC"])
    assert (job.state, job.state.ended, job.flags) == (JobState.UNKNOWN, False, ("futuristic",))


COMPLETING = {"job_state": "COMPLETING", "state_reason": "None", "nodes": "gpu-1", "start_time": 1796101493}


def test_completing_of_2205_is_failed_by_its_reason() -> None:
    assert entry(**COMPLETING | {"state_reason": "NonZeroExitCode"}).state is JobState.FAILED


@pytest.mark.parametrize(("end_time", "time_limit"), [(6091068729, None), (1796101493 + 3600, 60)])
def test_completing_of_2205_is_pending_when_slurm_expects_another_end(end_time: int, time_limit: int | None) -> None:
    """As printed by 22.05.8 half a second after `scontrol requeue`."""
    job = entry(**COMPLETING, end_time=end_time, time_limit=time_limit, restart_cnt=1, eligible_time=1796101489)
    assert (job.state, job.completing, job.nodes, job.started_at, job.begins_at) == (JobState.PENDING, True, (), None, None)


@pytest.mark.parametrize("restarts", [0, 1])
def test_completing_of_2205_is_else_unknown(restarts: int) -> None:
    assert entry(**COMPLETING, end_time=1796101500, time_limit=60, restart_cnt=restarts).state is JobState.UNKNOWN
    assert entry(**COMPLETING, end_time=1796101500, time_limit=None, restart_cnt=restarts).state is JobState.UNKNOWN


def test_a_task_of_an_array_is_named_by_the_array_and_the_rest_by_the_array_alone() -> None:
    task = entry(array_job_id=5, array_task_id=3, array_task_string="")
    rest = entry(array_job_id=5, array_task_id=None, array_task_string="4-9%2")
    assert (task.job_id, task.array_job_id, task.array_task_id) == ("5_3", "5", "3")
    assert (rest.job_id, rest.array_job_id, rest.array_task_id) == ("5", "5", "4-9%2")
    assert entry(array_job_id=5, array_task_id=0).job_id == "5_0"


@pytest.mark.parametrize(
    ("tasks", "inside", "outside"),
    [
        ("4-9%2", (4, 9), (3, 10)),
        ("1,5-7", (1, 6), (2, 8)),
        ("0-8:4", (0, 4, 8), (2,)),
        ("1-3,...", (2, 99), (0,)),
        ("", (), (0,)),
    ],
)
def test_waiting_tasks_of_an_array_are_found_in_its_list(tasks: str, inside: tuple[int, ...], outside: tuple[int, ...]) -> None:
    assert all(arrays.covers(tasks, task) for task in inside)
    assert not any(arrays.covers(tasks, task) for task in outside)


def test_a_component_is_named_by_its_leader() -> None:
    assert entry(het_job_id=7, het_job_offset=0).job_id == "7"
    assert entry(het_job_id=6, het_job_offset=1).job_id == "6+1"


@pytest.mark.parametrize("fields", [{"priority": 0}, {"hold": True}, {"state_reason": "JobHeldAdmin", "priority": 5}])
def test_a_held_job_is_held_only_while_it_waits(fields: dict[str, Any]) -> None:
    assert entry(job_state="PENDING", **fields).held
    assert not entry(job_state="FAILED", **fields).held


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(("set", "number", "id", "list", "current")), inner)
    ),
    max_leaves=6,
)
FIELDS = tuple(json.loads((SAMPLES / "25.11-squeue.json").read_text())["jobs"][0])


@given(st.dictionaries(st.sampled_from(FIELDS), ANYTHING))
def test_whatever_stands_in_a_field_the_job_is_read(fields: dict[str, Any]) -> None:
    fields.pop("job_id", None)
    assert entry(**fields).cluster == "big"


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("", "/w/slurm-12.out"),
        ("%x-%j.log", "/w/train-12.log"),
        ("/logs/%u/%5j-%N.%%", "/logs/alice/00012-gpu1.%"),
        ("%a", "/w/4294967294"),
        ("a\\%j", "/w/a%j"),
        ("%b %Z", "/w/%b %Z"),
    ],
)
def test_output_patterns(pattern: str, path: str) -> None:
    names = output.Names(number=12, name="train", user="alice", first_node="gpu1.site", folder="/w")
    assert output.log_path(pattern, names) == path


def test_output_of_an_array_task_has_the_arrays_number() -> None:
    assert output.log_path("", output.Names(number=12, array=9, task=3, folder="/w")) == "/w/slurm-9_3.out"


@pytest.mark.parametrize("text", ["12", "12_0", "12_34", "12+1", "4294967295"])
def test_job_ids_pass(text: str) -> None:
    assert ids.job_id(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "-1",
        "--help",
        "12 ",
        "12\n",
        "1;id",
        "1,2",
        "12_",
        "12_[1-3]",
        "$(id)",
        "١٢",
        "12_4+1",
        "\x00",
        "a",
        "12345678901",
    ],
)
def test_what_is_no_job_id_is_refused_before_any_command(text: str) -> None:
    with pytest.raises(Refused):
        ids.job_id(text)


@pytest.mark.parametrize("name", ["", "-v", "a b", "a,b", "n[1-2]", "a\n", "$(id)", "a;b", "é", "x" * 254, "ALL=1", "a."])
def test_what_is_no_node_name_is_refused(name: str) -> None:
    with pytest.raises(Refused):
        ids.node_names(["node1", name])


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("Invalid job id specified for job 9", NoSuchJob),
        ("Requested operation is presently disabled for job 9", Refused),
        ("slurm_update error: Access/permission denied", Misconfigured),
        ("slurm_load_jobs error: Unable to contact slurm controller (connect failure)", Transient),
        ("Socket timed out on send/recv operation", OutcomeUnknown),
        ("something new\x1b[31m\n" + "x" * 5000, Refused),
    ],
)
def test_slurms_words_become_one_bounded_sentence_of_ours(said: str, error: type[RerailError]) -> None:
    problem = answers.error_of("scontrol", 1, said)
    assert type(problem) is error
    assert len(str(problem)) < 500
    assert str(problem).isprintable()


def test_nodes_are_read_whatever_stands_in_a_reason() -> None:
    reason = "a|b IDLE\nn3|idle|main*|none"
    rows = (
        "n1|idle|main*|none",
        "n1|idle|debug|none",
        f"n2|mixed*|main*|{reason}",
        "n3|drained|main*|x\x1b[0m",
        "n4|reserved|main*|none",
    )
    found = {node.name: node for node in fleet.nodes("".join(f"{row}|xend\n" for row in rows), "xend")}
    assert {name: node.state for name, node in found.items()} == {
        "n1": NodeState.UP,
        "n2": NodeState.DOWN,
        "n3": NodeState.DRAINED,
        "n4": NodeState.UNKNOWN,
    }
    assert (found["n1"].partitions, found["n1"].reason) == (("main", "debug"), "")
    assert (found["n2"].reason, found["n2"].busy) == ("a|b IDLE n3|idle|main*|none", True)
    assert found["n3"].reason == "x [0m"
