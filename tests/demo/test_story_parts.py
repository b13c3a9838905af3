"""Parts of the story that need no processes: its judgement, its timeline, what is shown, and the choice of ports."""

import io
import os
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from demo import links, listening
from demo.faults import SCENES, Fault, Hit, chosen
from demo.news import news
from demo.places import Places
from demo.service import settings
from demo.teller import INDENT, Teller
from demo.timeline import by_pace, differences, timeline
from rerail.records import (
    Anomaly,
    Attempt,
    Decision,
    Excerpt,
    FaultClass,
    Incident,
    Job,
    JobKey,
    JobState,
    Kind,
    Outcome,
    Plan,
    Recorded,
    Result,
    Stage,
    Step,
    StepKind,
    Verb,
    Verdict,
)

AT = datetime(2026, 12, 1, 5, 0, tzinfo=UTC)
HIT = Hit(Fault.CRASH, AT, "1", 2, "gpu-03", 4711)
ELSEWHERE = ("gpu-01", "gpu-02", "gpu-04", "gpu-05")


def after(seconds: float) -> datetime:
    return AT + timedelta(seconds=seconds)


def good(**outcome: Any) -> Incident:
    """The incident of a `crash` that ended well; `outcome` changes how it ended."""
    attempt = Attempt(job=JobKey(cluster="w", job_id="1", submitted_at=AT), number=1)
    marks = {"past": after(9), "detected": after(1), "verdict": after(2), "decided": after(5), "accepted": after(6)}
    ended = {
        "result": Result.RECOVERED,
        "why": "past",
        "marks": marks,
        "failed_step": 27,
        "resumed_step": 20,
        "checkpoint_step": 20,
    }
    return Incident(
        id="i",
        stage=Stage.CLOSED,
        anomaly=Anomaly(id="a", attempt=attempt, kind=Kind.CRASH, detector="exited", seen_at=after(1), why="it died"),
        verdict=Verdict(kind=Kind.CRASH, fault=FaultClass.HARDWARE, cause="gone", culprit_nodes=("gpu-03",), why="off the bus"),
        plan=Plan(id="p", rule="r", steps=(Step(kind=StepKind.EXCLUDE, nodes=("gpu-03",)), Step(kind=StepKind.RESTART))),
        decided=Recorded(decision=Decision(verdict=Verb.APPROVE, reason="yes", by="anna"), way="update", at=after(5)),
        outcome=Outcome(**{**ended, "passed_step": 28, "nodes": ELSEWHERE, **outcome}),
    )


def job(**fields: Any) -> Job:
    return Job(**{"cluster": "w", "job_id": "1", "state": JobState.RUNNING, "restarts": 1, "nodes": ELSEWHERE, **fields})


def wrong(incident: Incident, record: Job | None = None, fault: Fault = Fault.CRASH) -> list[str]:
    return differences(SCENES[fault], HIT, [incident], record or job())


def test_a_story_that_ends_as_it_has_to_differs_in_nothing() -> None:
    assert wrong(good()) == []


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        ({"result": Result.EXPIRED}, "the outcome is expired, not recovered"),
        ({"passed_step": 27}, "not past the failed step 27"),
        ({"passed_step": None}, "not past the failed step 27"),
        ({"resumed_step": 0}, "training resumed at step 0, but the checkpoint was of step 20"),
    ],
)
def test_another_end_is_told(outcome: dict[str, Any], told: str) -> None:
    assert told in " ".join(wrong(good(**outcome)))


@pytest.mark.parametrize(
    ("record", "told"),
    [
        ({"nodes": ("gpu-03", *ELSEWHERE[:3])}, "the job runs on gpu-03 again"),
        ({"restarts": 0}, "counts 0 restarts"),
        ({"restarts": 2}, "counts 2 restarts"),
        ({"state": JobState.FAILED}, "the job is failed"),
    ],
)
def test_the_schedulers_own_record_is_asked_too(record: dict[str, Any], told: str) -> None:
    assert told in " ".join(wrong(good(), job(**record)))


def test_a_straggler_goes_on_while_a_person_thinks() -> None:
    assert wrong(good(resumed_step=30), fault=Fault.THROTTLED) == ["the kind is crash, not straggler"]
    assert "training resumed at step 10" in " ".join(wrong(good(resumed_step=10), fault=Fault.THROTTLED))


def test_a_job_that_was_only_told_of_has_to_run_on() -> None:
    idle = good(result=Result.NO_ACTION)
    assert "the job is failed; it has to go on" in " ".join(wrong(idle, job(state=JobState.FAILED), Fault.STRAGGLER))
    assert "counts 1 restarts" in " ".join(wrong(idle, job(restarts=1), Fault.STRAGGLER))


@pytest.mark.parametrize(
    ("fault", "now_s", "well"),
    [(Fault.THROTTLED, 0.21, True), (Fault.THROTTLED, 0.4, False), (Fault.STRAGGLER, 0.4, True), (Fault.CRASH, 0.4, True)],
)
def test_the_job_is_back_at_full_speed_once_the_slow_node_is_excluded(fault: Fault, now_s: float, well: bool) -> None:
    assert (by_pace(SCENES[fault].expected, 0.2, now_s) == []) is well


@pytest.mark.parametrize(
    ("verdict", "told"),
    [
        ({"kind": Kind.HANG}, "the kind is hang, not crash"),
        ({"fault": FaultClass.UNKNOWN}, "the class is unknown, not hardware"),
        ({"culprit_nodes": ()}, "the nodes blamed are none, not gpu-03"),
        ({"culprit_nodes": ("gpu-03", "gpu-04")}, "the nodes blamed are gpu-03, gpu-04, not gpu-03"),
        ({"culprit_ranks": (1,)}, "ranks [1] are named, but the fault met rank 2"),
    ],
)
def test_another_verdict_is_told(verdict: dict[str, Any], told: str) -> None:
    incident = good()
    assert incident.verdict
    assert told in " ".join(wrong(incident.model_copy(update={"verdict": incident.verdict.model_copy(update=verdict)})))


def test_a_killed_rank_has_to_be_named_and_its_node_never_blamed() -> None:
    told = " ".join(wrong(good(), fault=Fault.KILLED))
    assert "the nodes blamed are gpu-03, not none" in told
    assert "the nodes excluded are gpu-03, not none" in told
    assert "rank 2 is not named" in told


def test_a_bug_that_was_restarted_for_ever_is_told() -> None:
    told = " ".join(wrong(good(), job(restarts=2), fault=Fault.BUG))
    assert "the outcome is recovered, not stopped" in told
    assert "counts 2 restarts, not 0 to 1" in told
    assert "the job is running, not stopped" in told


def test_the_timeline_counts_from_the_fault_in_order_of_time() -> None:
    moments = timeline(HIT, "boom", [good()])
    assert [m.after_s for m in moments] == [0, 1, 2, 5, 6, 9]
    assert moments[0].told == "fault: boom"
    assert moments[3].told == "approved by anna"
    assert moments[5].told == "past the failed step 27: training is at step 28"


def test_news_keep_their_key_until_there_is_more() -> None:
    early = good().model_copy(update={"outcome": None, "decided": None, "stage": Stage.DIAGNOSING})
    keys = [piece.key for piece in news(early)]
    assert keys == ["anomaly", "verdict p", "plan p"]
    assert [piece.key for piece in news(good())] == [*keys, "decided", "outcome"]


def test_a_log_line_cannot_steer_the_terminal() -> None:
    hostile = Excerpt(source="job.log", text="\x1b]0;owned\x07\x1b[2J gone\nnext")
    incident = good()
    assert incident.verdict
    incident = incident.model_copy(update={"verdict": incident.verdict.model_copy(update={"evidence": (hostile,)})})
    out = io.StringIO()
    for piece in news(incident):
        Teller(out).say(piece.sentence)
        Teller(out).add(*piece.details)
    assert "gone" in out.getvalue()
    assert all(c.isprintable() or c == "\n" for c in out.getvalue())
    assert "\nnext" not in out.getvalue()


def test_a_long_sentence_goes_on_below_its_beginning_and_a_link_stays_whole() -> None:
    out, link = io.StringIO(), "http://127.0.0.1:8233/" + "x" * 200
    Teller(out).say("word " * 60)
    Teller(out).exact(link)
    first, *more = out.getvalue().splitlines()
    assert first.startswith("[   0.0 s] word")
    assert all(line.startswith(INDENT) for line in more)
    assert more[-1] == INDENT + link


def test_the_fault_is_chosen_by_name_and_crash_by_default() -> None:
    assert chosen({}).fault is Fault.CRASH
    assert chosen({"FAULT": ""}).fault is Fault.CRASH
    assert chosen({"FAULT": "hang"}).fault is Fault.HANG
    with pytest.raises(ValueError, match="has to be one of crash, killed, hang, bug"):
        chosen({"FAULT": "flood"})


def test_the_links_are_encoded_and_the_address_is_told_only_when_it_is_unusual() -> None:
    assert links.waiting("http://u").endswith("/workflows?query=RerailStage%3D%22awaiting_approval%22")
    assert links.incident("http://u", "a/b c", "run").endswith("/workflows/a%2Fb%20c/run/user-metadata")
    assert "--address" not in links.answer("approve", "i", "127.0.0.1:7233")
    assert links.answer("approve", "i", "127.0.0.1:9").endswith("approve i --reason WHY --address 127.0.0.1:9")


def test_a_busy_port_is_avoided(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        taken = busy.getsockname()[1]
        free, other = listening.two_free()
        assert not listening.is_free(taken)
        monkeypatch.setattr(listening, "USUAL", (free, taken))
        assert taken not in listening.ports()
        monkeypatch.setattr(listening, "USUAL", (free, other))
        assert listening.ports() == (free, other)


def test_a_port_that_another_process_listens_at_is_not_ours(tmp_path: Path) -> None:
    with socket.socket() as mine:
        mine.bind(("127.0.0.1", 0))
        mine.listen()
        port = mine.getsockname()[1]
        assert listening.listens(os.getpid(), port)
        assert not listening.listens(os.getppid(), port)
        assert not listening.listens(2**22 + 1, port)


def test_runs_of_the_same_second_get_folders_of_their_own(tmp_path: Path) -> None:
    first, second = Places.make(tmp_path / "home", AT), Places.make(tmp_path / "home", AT)
    assert first.folder != second.folder


def test_the_service_does_not_see_what_would_lead_it_elsewhere(tmp_path: Path) -> None:
    outer = {"PATH": "/bin", "TEMPORAL_ADDRESS": "prod:7233", "RERAIL_SETTINGS": "x", "PYTHONPATH": "/odd", "FAULT": "crash"}
    inner = Places(tmp_path).environment(outer)
    assert inner["PATH"] == "/bin"
    assert not {"TEMPORAL_ADDRESS", "RERAIL_SETTINGS", "FAULT"} & set(inner)
    assert "/odd" not in inner["PYTHONPATH"]


def test_any_folder_can_stand_in_the_settings(tmp_path: Path) -> None:
    odd = tmp_path / 'a: b #c "d"'
    read = yaml.safe_load(settings(Places(odd), "127.0.0.1:1", "http://127.0.0.1:2", 30.0))
    assert read["state"] == str(odd / "state")
    assert read["clusters"]["workstation"]["scheduler"]["local"]["folder"] == str(odd / "cluster")
