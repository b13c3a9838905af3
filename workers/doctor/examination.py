"""The whole examination, in the order in which things depend on each other, and how it is told."""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from rerail.errors import Misconfigured, RerailError
from workers.doctor import machine
from workers.doctor.cluster import cluster
from workers.doctor.finding import Finding, Level, fail, ok, warn
from workers.doctor.temporal import temporal
from workers.settings import Settings
from workers.way import Way

PARTS: tuple[tuple[str, Callable[[Settings], Iterator[Finding]]], ...] = (
    ("Python", machine.python),
    ("state folder", machine.state_folder),
    ("audit", machine.audit),
    ("channels", machine.channels),
    ("signatures", machine.signatures),
    ("Temporal", temporal),
)


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds `doctor`; `run` does it."""
    parser = subparsers.add_parser("doctor", help="say what is missing", description="Exit code 1 when a line says fail.")
    parser.add_argument("--json", action="store_true", help="one JSON object: ok, findings")


def run(
    settings: Settings | Misconfigured,
    ways: Mapping[str, Way] | None = None,
    *,
    as_json: bool = False,
) -> int:
    """Prints the findings; 1 when one of them is `fail`, else 0.

    Settings that could not be loaded are given as the error, and then are the only finding. `ways` tells how
    each cluster is reached.
    """
    findings = []
    for finding in examine(settings, ways or {}):
        findings.append(finding)
        if not as_json:
            print(finding, flush=True)
    healthy = all(finding.level is not Level.FAIL for finding in findings)
    if as_json:
        told = [{"level": one.level.value, "what": one.what, "step": one.step} for one in findings]
        json.dump({"ok": healthy, "findings": told}, sys.stdout, indent=2)
        print()
    return 0 if healthy else 1


def examine(settings: Settings | Misconfigured, ways: Mapping[str, Way]) -> Iterator[Finding]:
    """All findings, as they come."""
    if isinstance(settings, Misconfigured):
        yield fail("settings cannot be read", str(settings))
        return
    yield ok(f"settings can be read; clusters: {', '.join(settings.clusters)}")
    for name, part in PARTS:
        yield from _guarded(name, part, settings)
    for name in settings.clusters:
        way = ways.get(name)
        if way is None:
            yield warn(f"cluster {name}: not looked at", "no way to it was given")
        else:
            yield from _guarded(f"cluster {name}", partial(cluster, name=name, way=way), settings)


def _guarded(name: str, part: Callable[[Settings], Iterator[Finding]], settings: Settings) -> Iterator[Finding]:
    """A part that fails is a finding like any other; the rest is still examined."""
    try:
        yield from part(settings)
    except RerailError as error:
        yield fail(name, str(error))
    except Exception as error:  # the doctor must not fall ill himself
        yield fail(f"{name}: the examination itself failed ({type(error).__name__}: {str(error)[:200]})", "tell the maintainers")
