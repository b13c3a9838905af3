"""A site's own signatures and step lines reach the watch, the judgement and the proof of a recovery."""

from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pytest
from temporalio.testing import ActivityEnvironment

from activities.asks import ExamineAsk, FollowAsk
from activities.evidence import Sources
from activities.judging import Judging
from activities.view import ClusterView
from activities.watching import Follower
from adapters.hosts.silent import SilentHosts
from adapters.logs.files import FileLogs
from rerail import signatures
from rerail.dialect import Dialect
from rerail.records import Anomaly, Attempt, JobKey, JobState, Kind
from tests.activities.paper import PaperAudit, PaperScheduler, failed_job

AT = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
ATTEMPT = Attempt(job=JobKey(cluster="alpha", job_id="41001", submitted_at=AT), number=1, started_at=AT)
STEPS = r"sweep (?P<step>\d+) of \d+"
ROW = """\
- id: site.licences
  pattern: 'FlexNet: no licence'
  role: root
  fault: system
  scope: service
  cause: licence_server_down
  advice: restart
  kind: crash
  why: The licence server did not answer.
  source: our own
  example: 'FlexNet: no licence'
"""
LOG = "".join(f"sweep {n} of 900\n" for n in range(1, 41)) + "FlexNet: no licence\n"


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    (tmp_path / "train.log").write_text(LOG)
    job = failed_job(output=str(tmp_path / "train.log"), started_at=AT)
    return Sources(PaperScheduler({"41001": job}), FileLogs(), SilentHosts())


def dialect(folder: Path) -> Dialect:
    (folder / "rows.yaml").write_text(ROW)
    return Dialect.load([folder / "rows.yaml"], STEPS)


async def test_an_incident_is_judged_in_the_sites_own_words(sources: Sources, tmp_path: Path) -> None:
    anomaly = Anomaly(id="a", attempt=ATTEMPT, kind=Kind.CRASH, detector="exited", seen_at=AT)
    ask = ExamineAsk(run="run", anomaly=anomaly)
    own = await ActivityEnvironment().run(
        Judging({"alpha": sources}, {}, PaperAudit(), tmp_path / "own", {"alpha": dialect(tmp_path)}).examine, ask
    )
    assert (own.verdict.cause, own.last_step) == ("licence_server_down", 40)
    plain = await ActivityEnvironment().run(Judging({"alpha": sources}, {}, PaperAudit(), tmp_path / "plain").examine, ask)
    assert (plain.verdict.cause != "licence_server_down", plain.last_step) == (True, None)


async def test_the_watch_reads_the_sites_own_steps(sources: Sources) -> None:
    assert isinstance(sources.scheduler, PaperScheduler)
    sources.scheduler.change("41001", state=JobState.RUNNING)
    view = ClusterView(sources.scheduler, clock=count(0.0, 10.0).__next__)
    follower = Follower(view, sources.logs, FollowAsk(attempt=ATTEMPT), steps=STEPS)
    await follower.look()
    assert follower.watched.last_step == 40


def test_a_dialect_of_nothing_is_ours() -> None:
    assert Dialect.load() == Dialect(signatures.ALL, "")
