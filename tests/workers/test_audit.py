"""The verb `audit`: the trail for people and for machines."""

import argparse
import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from adapters.audit.store import AuditStore
from rerail.records import AuditRow, RowKind
from workers import audit
from workers.settings import Settings, load

AT = datetime(2026, 12, 1, 9, 30, tzinfo=UTC)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    path = tmp_path / "rerail.yaml"
    path.write_text("clusters:\n  a:\n    scheduler:\n      local: {folder: x}\n")
    return load(path)


@pytest.fixture
def trail(settings: Settings) -> AuditStore:
    """Five rows of two clusters."""
    settings.state.mkdir()
    store = AuditStore(settings.audit_url())
    for n in range(5):
        store.append(row(f"k{n}", at=AT + timedelta(minutes=n), cluster="beta" if n == 2 else "alpha", incident=f"i{n % 2}"))
    return store


def row(key: str, **other: Any) -> AuditRow:
    usual = {
        "key": key,
        "at": AT,
        "kind": RowKind.DECISION,
        "cluster": "alpha",
        "job_id": "7",
        "actor": "ann",
        "text": f"said {key}",
    }
    return AuditRow(**(usual | other))


def do(settings: Settings, *words: str) -> int:
    parser = argparse.ArgumentParser()
    audit.add_parser(parser.add_subparsers(dest="verb"))
    return audit.run(parser.parse_args(["audit", *words]), settings)


def test_the_list_is_one_line_a_row_oldest_first(
    settings: Settings, trail: AuditStore, capsys: pytest.CaptureFixture[str]
) -> None:
    assert do(settings, "list") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5
    assert lines[0].split() == ["1", "2026-12-01", "09:30:00Z", "alpha/7", "decision", "ann", "said", "k0"]


def test_a_limit_gives_the_latest(settings: Settings, trail: AuditStore, capsys: pytest.CaptureFixture[str]) -> None:
    assert do(settings, "list", "--limit", "2") == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["4", "5"]


def test_rows_of_one_incident_or_cluster(settings: Settings, trail: AuditStore, capsys: pytest.CaptureFixture[str]) -> None:
    do(settings, "list", "--incident", "i1", "--json")
    assert [json.loads(line)["row"]["key"] for line in capsys.readouterr().out.splitlines()] == ["k1", "k3"]
    do(settings, "list", "--cluster", "beta", "--json")
    assert [json.loads(line)["seq"] for line in capsys.readouterr().out.splitlines()] == [3]


def test_an_export_keeps_the_canonical_text(settings: Settings, trail: AuditStore, tmp_path: Path) -> None:
    assert do(settings, "export", str(tmp_path / "out.jsonl")) == 0
    lines = (tmp_path / "out.jsonl").read_text().splitlines()
    assert lines == [f'{{"seq":{seq},"row":{text}}}' for seq, text in trail.lines()]
    assert all(json.loads(line) for line in lines)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.jsonl", "rerail.yaml", "state"]


def test_an_export_without_a_file_goes_to_the_output(
    settings: Settings, trail: AuditStore, capsys: pytest.CaptureFixture[str]
) -> None:
    assert do(settings, "export") == 0
    assert len(capsys.readouterr().out.splitlines()) == 5


def test_an_export_that_cannot_be_written_leaves_the_old_one(
    settings: Settings, trail: AuditStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "folder").mkdir()
    assert do(settings, "export", str(tmp_path / "folder")) == 1
    assert do(settings, "export", str(tmp_path / "gone" / "out")) == 1
    assert "cannot be written" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "rerail.yaml", "state"]


def test_without_a_trail_a_sentence_says_so(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    assert do(settings, "list") == 1
    assert capsys.readouterr().err.startswith("audit: there is no audit trail")


def test_no_escape_reaches_the_terminal(settings: Settings, trail: AuditStore, capsys: pytest.CaptureFixture[str]) -> None:
    trail.append(row("x", text="\x1b[2Jgone\r\n\u202egone", actor="a\x07b"))
    do(settings, "list")
    shown = capsys.readouterr().out
    assert len(shown.splitlines()) == 6
    assert all(mark.isprintable() or mark == "\n" for mark in shown)


@pytest.mark.parametrize("words", [["list", "--limit", "0"], ["list", "--limit", "x"], ["drop"], []])
def test_wrong_words_are_refused(settings: Settings, words: list[str]) -> None:
    with pytest.raises(SystemExit):
        do(settings, *words)


def test_a_reader_that_has_seen_enough_gets_no_stack_trace(settings: Settings, trail: AuditStore, tmp_path: Path) -> None:
    for n in range(400):
        trail.append(row(f"more{n}", text="words " * 200))
    program = (
        "import argparse, pathlib, sys\nfrom workers import audit\nfrom workers.settings import load\n"
        "parser = argparse.ArgumentParser()\naudit.add_parser(parser.add_subparsers())\n"
        "sys.exit(audit.run(parser.parse_args(['audit', 'export']), load(pathlib.Path(sys.argv[1]))))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "rerail.yaml")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(60) == 0
    assert process.stderr.read() == b""
    process.stderr.close()
