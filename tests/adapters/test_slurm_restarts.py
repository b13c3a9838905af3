"""What Slurm tells of restarts: exit codes that it requeues by itself, who waits for whom, leaders of heterogeneous jobs."""

import json
from typing import Any

import pytest

from adapters.schedulers.slurm import hetjobs, reading, site
from rerail.records import Habits, Job, JobState

CONFIG = """\
Configuration data as of 2026-12-01T06:00:00
MinJobAge               = 300 sec
RequeueExit             = {requeue}
RequeueExitHold         = {hold}
"""


@pytest.mark.parametrize(
    ("written", "codes"),
    [
        ("(null)", ()),
        ("77", (77,)),
        ("1,10-12", (1, 10, 11, 12)),
        ("250-999", (250, 251, 252, 253, 254, 255)),
        ("", ()),
        ("12-10", ()),
        ("7; scancel 1", ()),
    ],
)
def test_exit_codes_that_slurm_requeues_by_itself(written: str, codes: tuple[int, ...]) -> None:
    assert site.habits(CONFIG.format(requeue=written, hold="(null)")) == Habits(requeue_exits=codes)
    assert site.habits(CONFIG.format(requeue="(null)", hold=written)) == Habits(hold_exits=codes)


def test_a_configuration_without_these_lines_has_no_habits() -> None:
    assert site.habits("MinJobAge = 300 sec\n") == Habits()


def entry(**fields: Any) -> Job:
    document = json.dumps({"errors": [], "jobs": [{"job_id": 7, **fields}]}).encode()
    return reading.jobs(document, "big", None)[7]


def test_dependency_required_nodes_and_command_are_read_from_the_json() -> None:
    job = entry(dependency="afternotok:5(unfulfilled)", required_nodes="node[1-2]", command="/home/alice/run.sh --lr 3")
    assert (job.dependency, job.required_nodes) == ("afternotok:5(unfulfilled)", ("node1", "node2"))
    assert job.command == "/home/alice/run.sh --lr 3"
    nothing = entry(dependency=None, required_nodes="", command=None)
    assert (nothing.dependency, nothing.required_nodes, nothing.command) == ("", (), "")


def part(number: int, nodes: tuple[str, ...], **more: Any) -> Job:
    name = "5" if number == 5 else f"5+{number - 5}"
    said = {"state": JobState.RUNNING, "nodes": nodes, "nodes_needed": len(nodes), "het_job_id": "5"}
    return Job(cluster="big", job_id=name, **(said | more))


def test_a_leader_stands_for_the_nodes_of_all_components_in_their_order() -> None:
    jobs = hetjobs.led({6: part(6, ("b", "c")), 5: part(5, ("a",)), 7: part(7, ("d",)), 9: Job(cluster="big", job_id="9")})
    assert (jobs[5].nodes, jobs[5].nodes_needed) == (("a", "b", "c", "d"), 4)
    assert (jobs[6].nodes, jobs[6].nodes_needed) == (("b", "c"), 2)
    assert [jobs[n].led for n in (5, 6, 7, 9)] == [False, True, True, False]


def test_a_leader_without_its_components_stays_as_it_is() -> None:
    alone = part(5, ("a",))
    assert hetjobs.led({5: alone}) == {5: alone}
