"""`python -m workers VERB`: what touches the database, the cluster or the settings, where the service is installed."""

import argparse
import asyncio
import logging
import sys
from pathlib import Path

from rerail.cli import leave
from rerail.errors import Misconfigured, RerailError
from workers import audit, doctor
from workers.roles import run
from workers.settings import Settings, load
from workers.way import way

ROLES = {
    "up": (("control", "detect"), "all roles in one process: right for one cluster and up to some hundred jobs"),
    "control": (("control",), "workflows, audit, notices, and acting on the schedulers"),
    "detect": (("detect",), "watch jobs and judge evidence: all that only reads the clusters"),
}


def parser() -> argparse.ArgumentParser:
    """All verbs."""
    made = argparse.ArgumentParser(
        prog="python -m workers",
        description="rerail's service. What people type anywhere is `rerail`; this is for where the service is installed.",
        epilog="Exit codes: 0 done, 1 a check failed or something could not be read, 2 wrong use or wrong settings.",
    )
    made.add_argument(
        "--settings", type=Path, metavar="FILE", help="rerail.yaml; default: $RERAIL_SETTINGS, else ./rerail.yaml", default=None
    )
    made.add_argument("--verbose", action="store_true", help="log every step")
    verbs = made.add_subparsers(dest="verb", required=True, metavar="VERB")
    for verb, (_, text) in ROLES.items():
        verbs.add_parser(verb, help=text, description=text)
    doctor.add_parser(verbs)
    audit.add_parser(verbs)
    return made


def main() -> int:
    """The exit code."""
    args = parser().parse_args()
    logging.basicConfig(
        level=logging.DEBUG if args.verbose else logging.INFO, format="%(asctime)s %(levelname)-7s %(name)s: %(message)s"
    )
    quiet(args.verbose)
    try:
        settings = load(args.settings)
    except Misconfigured as error:
        if args.verb == "doctor":
            return doctor.run(error, as_json=args.json)
        print(error, file=sys.stderr)
        return 2
    try:
        return do(args, settings)
    except RerailError as error:
        print(error, file=sys.stderr)
        return 2 if isinstance(error, Misconfigured) else 1


def do(args: argparse.Namespace, settings: Settings) -> int:
    if args.verb == "audit":
        return audit.run(args, settings)
    if args.verb == "doctor":
        ways = {name: way(name, cluster) for name, cluster in settings.clusters.items()}
        return doctor.run(settings, ways, as_json=args.json)
    roles, _ = ROLES[args.verb]
    return asyncio.run(run(settings, roles))


def quiet(verbose: bool) -> None:
    """Libraries speak up only when something is wrong; paramiko never, for it logs tracebacks of what we tell in a sentence."""
    logging.getLogger("paramiko").setLevel(logging.CRITICAL)
    if not verbose:
        for name in ("httpx", "temporalio.activity", "temporalio.workflow"):
            logging.getLogger(name).setLevel(logging.WARNING)


if __name__ == "__main__":
    leave(main())
