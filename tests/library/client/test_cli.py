"""The command `rerail` as a process: what it prints, how it ends, on a real server with the real workflows."""

import asyncio
import json
import os
import resource
import signal
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from temporalio.testing import WorkflowEnvironment
from typer.testing import CliRunner

import rerail as library
from rerail.cli.app import app
from rerail.cli.exits import Exit
from rerail.client import Rerail
from rerail.records import Stage
from tests.library.client.conftest import Scene, until

VERBS = ["pending", "explain", "approve", "reject", "wait", "incidents", "watch", "remediate", "pause", "resume", "guard"]
VERBS += ["clusters", "diagnose", "readmit"]
NOWHERE = "127.0.0.1:1"


@dataclass
class Ran:
    """A finished process."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TEMPORAL_", "RERAIL_"))}
    return kept | {"PYTHONPATH": str(Path(library.__file__).parents[1]), "HOME": "/nonexistent"} | more


async def start(*argv: str, **env: str) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "rerail.cli",
        *argv,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=pipe,
        stderr=pipe,
        env=environment(**env),
    )


async def command(*argv: str, **env: str) -> Ran:
    process = await start(*argv, **env)
    out, err = await asyncio.wait_for(process.communicate(), 120)
    assert process.returncode is not None
    ran = Ran(process.returncode, out.decode(), err.decode())
    assert "Traceback" not in ran.err
    return ran


Cli = Callable[..., Awaitable[Ran]]


@pytest.fixture
def cli(server: WorkflowEnvironment) -> Cli:
    """`rerail` connected to the test's server, by environment."""

    async def run(*argv: str, **env: str) -> Ran:
        return await command(*argv, TEMPORAL_ADDRESS=server.client.service_client.config.target_host, **env)

    return run


# The story by hand


async def test_a_person_walks_the_whole_story_in_a_shell(cli: Cli, scene: Scene, rerail: Rerail) -> None:
    asked = await cli("remediate", scene.cluster, "41001", "--reason", "it hangs")
    incident = asked.out.strip()
    assert (asked.code, incident) == (Exit.OK, f"remediate-job/{scene.attempt()}")
    await until(lambda: waits(rerail, incident))
    pending = await cli("pending", "--cluster", scene.cluster)
    assert f"plan {scene.plan}: exclude n2, then restart" in pending.out
    assert f"rerail approve {incident} --plan {scene.plan} --reason WHY" in pending.out
    approved = await cli("approve", incident, "--reason", "the GPU is gone", "--by", "anna")
    assert (approved.code, approved.out) == (Exit.OK, f"approve by anna is taken (plan {scene.plan})\n")
    waited = await cli("wait", incident, "--timeout", "20")
    assert waited.code == Exit.OK
    assert "training is past step 70" in waited.out
    explained = await cli("explain", incident)
    assert "approve by anna at" in explained.out
    assert "identity recorded by Temporal: anna@" in explained.out
    assert scene.done == ["requeue", "exclude", "start"]


async def waits(rerail: Rerail, incident: str) -> bool | None:
    return (await rerail.incident(incident)).stage is Stage.AWAITING_APPROVAL or None


async def test_every_read_has_json_with_all_its_keys(cli: Cli, scene: Scene, rerail: Rerail) -> None:
    incident = await scene.waiting(rerail)
    watcher = await rerail.watch(scene.cluster, "41001")
    pending = await cli("pending", "-c", scene.cluster, "--json")
    assert [one["id"] for one in pending.json] == [incident.id]
    assert set(pending.json[0]) == set(type(incident).model_fields)
    assert (await cli("incidents", "-c", scene.cluster, "--json")).json == pending.json
    assert (await cli("explain", watcher, "--json")).json["job"]["incident"] == incident.id
    assert (await cli("explain", scene.cluster, "--json")).json["cluster"]["cluster"] == scene.cluster
    assert (await cli("guard", scene.cluster, "--json")).json["paused"] is False
    assert scene.cluster in [one["cluster"] for one in (await cli("clusters", "--json")).json]
    rejected = await cli("reject", incident.id, "-r", "no", "--json")
    assert (rejected.json["verdict"], rejected.json["way"]) == ("reject", "update")
    assert (await cli("wait", incident.id, "--json")).json["result"] == "rejected"


async def test_pausing_and_resuming(cli: Cli, scene: Scene) -> None:
    assert "is paused" in (await cli("pause", scene.cluster, "--reason", "maintenance", "--by", "anna")).out
    assert "PAUSED by anna" in (await cli("guard", scene.cluster)).out
    assert "is resumed" in (await cli("resume", scene.cluster, "--reason", "over", RERAIL_BY="bob")).out


async def test_what_rerail_has_not_isolated_cannot_be_given_back(cli: Cli, scene: Scene) -> None:
    ran = await cli("readmit", scene.cluster, "gpu-02", "--reason", "it is well")
    assert (ran.code, "gpu-02 is not isolated by rerail" in ran.err) == (Exit.NO, True)
    assert (await cli("readmit", scene.cluster, "a b", "--reason", "x")).code == Exit.USAGE


async def test_a_drain_that_was_not_proposed_cannot_be_approved(cli: Cli, scene: Scene, rerail: Rerail) -> None:
    incident = await scene.waiting(rerail)
    ran = await cli("approve", incident.id, "--drain", "--reason", "the GPU is gone")
    assert (ran.code, "no drain to be approved" in ran.err) == (Exit.NO, True)


async def test_nothing_pending_is_no_error(cli: Cli, scene: Scene) -> None:
    ran = await cli("pending", "-c", scene.cluster)
    assert (ran.code, ran.out) == (Exit.OK, "nothing waits for a decision\n")
    assert (await cli("pending", "-c", scene.cluster, "--json")).json == []


# Exit codes


async def test_wait_tells_by_its_exit_code_how_it_ended(cli: Cli, scene: Scene, rerail: Rerail) -> None:
    incident = await scene.waiting(rerail)
    late = await cli("wait", incident.id, "--timeout", "0.2")
    assert late.code == Exit.TOO_LATE
    assert "has not ended within 0.2 s" in late.err
    assert f"{incident.id}: awaiting approval until" in late.err
    await rerail.reject(incident.id, reason="no")
    assert (await cli("wait", incident.id)).code == Exit.NOT_RECOVERED
    scene.expires_s, scene.known = 0.3, {"7"}
    expired = await rerail.remediate(scene.cluster, "7", reason="why")
    assert (await cli("wait", expired)).code == Exit.TOO_LATE


async def test_a_refusal_is_exit_code_1_and_one_sentence(cli: Cli, scene: Scene, rerail: Rerail) -> None:
    incident = await scene.waiting(rerail)
    other_plan = await cli("approve", incident.id, "--reason", "yes", "--plan", "deadbeef")
    assert (other_plan.code, other_plan.out) == (Exit.NO, "")
    assert other_plan.err.startswith(f"rerail: the plan is {scene.plan} now, not deadbeef")
    assert other_plan.err.count("\n") == 1


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (["approve"], Exit.USAGE, "Missing argument 'WHAT'"),
        (["approve", "41001"], Exit.USAGE, "Missing option '--reason'"),
        (["approve", "41001; id", "--reason", "why"], Exit.USAGE, "names nothing"),
        (["watch", "NONE", "41001"], Exit.NOT_FOUND, "no cluster 'NONE' is watched; known are"),
        (["watch", "a/b", "41001"], Exit.USAGE, "no name of a cluster"),
        (["explain", "99999"], Exit.NOT_FOUND, "nothing is known of job 99999"),
        (["nonsense"], Exit.USAGE, "No such command"),
        (["pending", "--profile", "nope"], Exit.USAGE, "Profile 'nope' not found"),
        (["pending", "--namespace", "nope"], Exit.USAGE, "there is no namespace nope"),
        (["pending", "--address", NOWHERE], Exit.UNREACHABLE, f"can't be reached at {NOWHERE}: nothing listens there"),
        (["pending", "--config-file", "/nonexistent/t.toml"], Exit.USAGE, "there is no file /nonexistent/t.toml"),
    ],
)
async def test_each_mistake_has_its_sentence_and_exit_code(
    argv: list[str], code: Exit, said: str, cli: Cli, scene: Scene
) -> None:
    ran = await cli(*argv)
    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err


async def test_an_unreachable_server_never_takes_the_process_down(scene: Scene) -> None:
    runs = await asyncio.gather(*(command("pending", "--address", NOWHERE) for _ in range(6)))
    assert {ran.code for ran in runs} == {Exit.UNREACHABLE}


# The terminal


async def test_text_of_strangers_cannot_move_the_cursor(cli: Cli, scene: Scene, rerail: Rerail) -> None:
    scene.why = "\x1b[2J\x1b]0;owned\x07 gone\r\u202e\u2028 \u009b31m"
    incident = await scene.waiting(rerail)
    for argv in (["explain", incident.id], ["pending", "-c", scene.cluster], ["explain", incident.id, "--json"], ["incidents"]):
        ran = await cli(*argv)
        assert ran.code == Exit.OK
        assert all(c.isprintable() or c == "\n" for c in ran.out), argv
        assert "gone" in ran.out or argv == ["incidents"]
    assert (await cli("explain", incident.id, "--json")).json["incident"]["verdict"]["why"] == scene.why


async def test_colours_go_to_terminals_alone(cli: Cli, scene: Scene) -> None:
    piped = await cli("explain", scene.cluster)
    assert "\x1b" not in piped.out
    on_terminal = await in_terminal("explain", scene.cluster, scene=scene)
    assert "\x1b[1m" in on_terminal
    assert "\x1b" not in await in_terminal("explain", scene.cluster, scene=scene, NO_COLOR="1")


async def in_terminal(*argv: str, scene: Scene, **env: str) -> str:
    """What the command writes to a terminal."""
    ours, theirs = os.openpty()
    env["TEMPORAL_ADDRESS"] = scene.client.service_client.config.target_host
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "rerail.cli", *argv, stdin=theirs, stdout=theirs, stderr=theirs, env=environment(**env)
    )
    os.close(theirs)
    assert await asyncio.wait_for(process.wait(), 30) == 0
    said = os.read(ours, 1 << 16).decode()
    os.close(ours)
    return said


async def test_a_reader_that_goes_away_is_no_error_message(scene: Scene, rerail: Rerail) -> None:
    await scene.waiting(rerail)
    process = await start("incidents", "--json", TEMPORAL_ADDRESS=scene.client.service_client.config.target_host)
    assert process.stdout
    assert process.stderr
    process.stdout._transport.close()  # type: ignore[attr-defined]
    err = (await asyncio.wait_for(process.stderr.read(), 30)).decode()
    assert await process.wait() == Exit.BROKEN_PIPE
    assert err == ""


async def test_ctrl_c_ends_the_waiting_and_nothing_else(scene: Scene, rerail: Rerail) -> None:
    incident = await scene.waiting(rerail)
    process = await start("wait", incident.id, TEMPORAL_ADDRESS=scene.client.service_client.config.target_host)
    assert process.stderr
    first = await asyncio.wait_for(process.stderr.readline(), 30)
    assert b"awaiting approval" in first
    process.send_signal(signal.SIGINT)
    rest = (await asyncio.wait_for(process.stderr.read(), 30)).decode()
    assert (await process.wait(), rest) == (Exit.INTERRUPTED, "rerail: stopped here; what Temporal has taken goes on\n")
    assert [one.id for one in await rerail.pending(scene.cluster)] == [incident.id]


async def test_an_unforeseen_error_is_a_sentence_and_the_trace_comes_on_request(tmp_path: Path) -> None:
    broken = "import rerail.cli.app as a; a.judge = lambda *_: 1 / 0; from rerail.cli import main; main()"
    for debug, traced in (({}, False), ({"RERAIL_DEBUG": "1"}, True)):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", broken, "diagnose", str(tmp_path)),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment(**debug),
        )
        _, err = await process.communicate()
        assert process.returncode == Exit.DEFECT
        assert b"nobody foresaw: ZeroDivisionError: division by zero; RERAIL_DEBUG=1 shows the trace" in err
        assert (b"Traceback" in err) is traced


# Offline


async def test_a_log_is_diagnosed_without_any_server(tmp_path: Path) -> None:
    log = tmp_path / "slurm-41001.out"
    log.write_text("step 12 loss 3.1\nTraceback (most recent call last):\n  File \"t.py\", line 3, in f\nKeyError: 'lr'\n")
    told = await command("diagnose", str(log))
    assert told.code == Exit.OK
    assert "KeyError" in told.out
    machine = CliRunner().invoke(app, ["diagnose", str(log), "--json"])
    assert (machine.exit_code, json.loads(machine.stdout)["class"]) == (Exit.OK, "application")
    missing = CliRunner().invoke(app, ["diagnose", str(tmp_path / "none")])
    assert (missing.exit_code, missing.stdout) == (Exit.USAGE, "")
    assert "none does not exist" in missing.stderr


def test_a_log_is_diagnosed_in_a_sites_own_words(tmp_path: Path) -> None:
    log, rows = tmp_path / "job.log", tmp_path / "rows.yaml"
    log.write_text("sweep 12 of 60\nFlexNet: no licence\n")
    row = {"id": "site.x", "pattern": "FlexNet: no licence", "role": "root", "fault": "system", "scope": "service"}
    row |= {"cause": "licence_server_down", "advice": "restart", "kind": "crash", "why": "x", "source": "x"}
    rows.write_text(json.dumps([row | {"example": "FlexNet: no licence"}]))
    argv = ["diagnose", str(log), "--signatures", str(rows), "--steps", r"sweep (?P<step>\d+) of", "--json"]
    told = CliRunner().invoke(app, argv)
    assert (told.exit_code, json.loads(told.stdout)["cause"]) == (Exit.OK, "licence_server_down")
    rows.write_text(json.dumps([row]))
    refused = CliRunner().invoke(app, argv)
    assert refused.exit_code == Exit.USAGE
    assert "rows.yaml:1: missing example" in refused.stderr


# Help


async def test_help_is_there_at_once_and_names_every_verb() -> None:
    await command("--help")  # the first run compiles
    began = spent_by_children()
    told = await command("--help")
    took = spent_by_children() - began
    verbs = [
        "pending",
        "explain",
        "approve",
        "reject",
        "wait",
        "incidents",
        "watch",
        "remediate",
        "pause",
        "resume",
        "guard",
        "clusters",
        "diagnose",
    ]
    assert all(f"\n  {verb}" in told.out for verb in verbs)
    assert took < 0.5
    assert (await command("--version")).out == f"rerail {library.__version__}\n"


def spent_by_children() -> float:
    """CPU seconds of all processes that have ended: unlike the clock, it does not tell how busy the machine is."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


async def test_help_loads_neither_temporal_nor_the_records() -> None:
    heavy = "{m.split('.')[0] for m in sys.modules} & {'temporalio', 'pydantic'}"
    program = f"import sys; from rerail.cli.app import app; print(sorted({heavy}))"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE, env=environment()
    )
    out, _ = await process.communicate()
    assert out.decode() == "[]\n"


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_of_a_verb_has_examples_and_names_the_variables(verb: str) -> None:
    told = CliRunner().invoke(app, [verb, "--help"], prog_name="rerail").output
    assert f"rerail {verb}" in told.partition("Examples:")[2]
    assert ("TEMPORAL_ADDRESS" in told) is (verb != "diagnose")
