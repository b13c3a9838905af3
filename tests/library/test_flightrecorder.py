"""Flight-recorder dumps, also hostile ones."""

import json
import os
import pickle
import pickletools
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerail import flightrecorder
from rerail.flightrecorder import Refused

DATA = os.environ.get("RERAIL_TEST_DATA", "")
"""A folder with flight-recorder/*/_dump_* (NVRx's fault injections, Apache-2.0), where there is one."""

plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=8), inner, max_size=5) | st.tuples(inner, inner),
    max_leaves=30,
)


def dump(rank: int, completed: dict[str, int], *, pending: bool = True, operation: str = "nccl:all_reduce") -> dict[str, Any]:
    """One rank's dump of two data-parallel groups and a pipeline."""
    groups = {"1": "DATA_PARALLEL_GROUP", "2": "TENSOR_PARALLEL_GROUP", "3": "PIPELINE_PARALLEL_GROUP"}
    return {
        "version": "2.9",
        "pg_config": {name: {"name": name, "desc": said, "ranks": "[0, 1, 2, 3]"} for name, said in groups.items()},
        "pg_status": {name: {"last_completed_collective": completed.get(name, 100)} for name in groups},
        "entries": [
            {
                "pg_id": int(name),
                "process_group": (name, said),
                "collective_seq_id": 101,
                "profiling_name": operation,
                "state": "scheduled" if pending else "completed",
                "is_p2p": False,
                "rank": rank,
            }
            for name, said in groups.items()
        ],
    }


@given(plain, st.sampled_from([2, 3, 4, 5]))
def test_plain_values_come_back_as_they_were(value: Any, protocol: int) -> None:
    assert flightrecorder.read(pickle.dumps({"entries": [], "value": value}, protocol))["value"] == value


def test_json_dumps_are_read_too() -> None:
    assert flightrecorder.read(json.dumps(dump(0, {})).encode())["version"] == "2.9"


class Command:
    def __reduce__(self) -> tuple[Any, ...]:
        return subprocess.check_call, (["true"],)


def nested(depth: int) -> tuple[Any, ...]:
    value: tuple[Any, ...] = ()
    for _ in range(depth):
        value = (value, value)
    return value


@pytest.mark.parametrize(
    "data",
    [
        pickle.dumps({"entries": [], "x": Command()}),
        pickle.dumps({"entries": [], "x": {nested(3)}}),
        pickle.dumps({"entries": [], "x": {(1, 2): 3}}),
        pickle.dumps([1, 2]),
        pickle.dumps({"entries": {}}),
        b"\x80\x02" + b"}" * (flightrecorder.MOST_OPCODES + 5) + b".",
        b"\x80\x02\x8d\xff\xff\xff\xff\xff\xff\xff\x7fabc.",
        b"\x80\x02h\x07.",
        b"\x80\x02u.",
        b"{" * 100_000,
        b"",
        b"no pickle at all",
        b"x" * (flightrecorder.MOST_BYTES + 1),
    ],
    ids=lambda data: str(data[:24]),
)
def test_what_is_no_plain_dump_is_refused_with_a_sentence(data: bytes) -> None:
    with pytest.raises(Refused) as refusal:
        flightrecorder.read(data)
    assert 0 < len(str(refusal.value)) < 200


def test_keys_that_take_for_ever_to_hash_are_refused_at_once() -> None:
    """Sixty nested pairs are 2^60 values to a hash; the pickle itself has a few hundred bytes."""
    data = b"\x80\x02)" + b"q\x00h\x00\x86" * 60 + b"q\x01}h\x01K\x01s."
    assert "TUPLE2" in {opcode.name for opcode, _, _ in pickletools.genops(data)}
    with pytest.raises(Refused):
        flightrecorder.read(data)


@given(st.binary(max_size=400))
def test_any_bytes_give_a_dump_or_one_refusal(data: bytes) -> None:
    refused = False
    try:
        read = flightrecorder.read(data)
    except Refused:
        refused, read = True, {}
    assert refused or isinstance(read, dict)


def test_a_rank_that_lags_in_several_groups_is_blamed() -> None:
    dumps = {rank: dump(rank, {"1": 99, "2": 98} if rank == 2 else {}) for rank in range(4)}
    assert flightrecorder.blame(dumps).ranks == (2,)


def test_pipelines_lag_on_innocent_ranks() -> None:
    dumps = {rank: dump(rank, {"3": 100 - 20 * rank}) for rank in range(4)}
    assert flightrecorder.blame(dumps).ranks == ()


def test_a_rank_without_anything_pending_while_all_others_wait_is_blamed() -> None:
    dumps = {rank: dump(rank, {}, pending=rank != 1) for rank in range(4)}
    assert flightrecorder.blame(dumps).ranks == (1,)


def test_ranks_that_call_different_operations_have_the_code_to_blame() -> None:
    dumps = {rank: dump(rank, {}, operation="nccl:broadcast" if rank == 3 else "nccl:all_reduce") for rank in range(4)}
    blamed = flightrecorder.blame(dumps)
    assert (blamed.ranks, blamed.diverged) == ((3,), True)


def test_a_missing_dump_is_unknown_and_not_guilty() -> None:
    blamed = flightrecorder.blame({rank: dump(rank, {}) for rank in range(3)})
    assert (blamed.ranks, blamed.missing) == ((), (3,))


@given(
    st.dictionaries(st.integers(0, 5), st.dictionaries(st.sampled_from(["entries", "pg_config", "pg_status"]), plain), max_size=4)
)
def test_nonsense_in_a_dump_blames_without_a_complaint(dumps: dict[int, dict[str, Any]]) -> None:
    assert set(flightrecorder.blame(dumps).ranks) <= set(dumps)


@pytest.mark.skipif(not DATA, reason="RERAIL_TEST_DATA names no folder with the dumps")
@pytest.mark.parametrize(("injection", "guilty"), [("gpu_error_1st", (12, 14)), ("lock_gil_2nd", (10, 15))])
def test_real_injections_blame_the_ranks_that_were_hit_and_no_other(injection: str, guilty: tuple[int, ...]) -> None:
    files = Path(DATA, "flight-recorder", injection).glob("_dump_*")
    dumps = {int(flightrecorder.rank_of(path.name) or 0): flightrecorder.read(path.read_bytes()) for path in files}
    assert len(dumps) == 16
    assert flightrecorder.blame(dumps).ranks == guilty
