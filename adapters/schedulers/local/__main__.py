"""The command line of a local cluster: `python -m adapters.schedulers.local --folder FOLDER VERB`."""

import argparse
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from adapters.schedulers.local import rules
from adapters.schedulers.local.scheduler import LocalScheduler
from adapters.schedulers.local.settings import Settings
from rerail.errors import Permanent, Refused, RerailError
from rerail.records import Job

PROGRAM = "python -m adapters.schedulers.local"
EXIT_CODES = "exit codes: 0 done, 1 refused or wrong (trying again will not help), 2 wrong usage, 3 not now (try again)"
JOB_LINE = "{:>6}  {:<9} {:>8}  {:<20} {:<8} {}"

Verb = Callable[[argparse.Namespace], None]


def create(options: argparse.Namespace) -> None:
    """Set up a cluster in the folder, or add nodes to it."""
    chosen = {name: getattr(options, name) for name in Settings.__dataclass_fields__ if getattr(options, name) is not None}
    try:
        settings = Settings(**chosen) if chosen else None
    except ValueError as error:
        raise Refused(str(error)) from error
    LocalScheduler.create(options.folder, options.cluster, options.nodes.split(","), slots=options.slots, settings=settings)


def submit(options: argparse.Namespace) -> None:
    """Queue a command line; print the job id."""
    job = LocalScheduler.at(options.folder).submit(
        options.command,
        nodes=options.nodes,
        ranks_per_node=options.ranks_per_node,
        name=options.name,
        folder=options.chdir,
        output=options.output,
        requeue=not options.no_requeue,
        append=options.append,
        exclude=_names(options.exclude),
        env=dict(_assignment(text) for text in options.env),
        comment=options.comment,
    )
    print(job)


def jobs(options: argparse.Namespace) -> None:
    """Jobs that are not over, and those that ended recently."""
    reading = LocalScheduler.at(options.folder).read()
    if options.json:
        print(reading.model_dump_json())
        return
    print(JOB_LINE.format("JOB", "STATE", "RESTARTS", "NAME", "REASON", "NODES"))
    for job in reading.jobs:
        print(_clean(JOB_LINE.format(job.job_id, _state(job), job.restarts, job.name[:20], job.reason[:40], ",".join(job.nodes))))


def job(options: argparse.Namespace) -> None:
    """One job and its ranks."""
    scheduler = LocalScheduler.at(options.folder)
    found = scheduler.job(options.job)
    if options.json:
        print(found.model_dump_json())
        return
    for name, value in found:
        if value not in (None, "", ()):
            print(_clean(f"{name:<15} {_word(value)}"))
    for rank in scheduler.ranks(found):
        how = "" if rank.ended_at is None else f"ended: exit code {rank.exit_code}, signal {rank.exit_signal}"
        print(_clean(f"rank {rank.rank:<10} node {rank.node} pid {rank.pid} {rank.state} {how}".rstrip()))


def nodes(options: argparse.Namespace) -> None:
    """All nodes."""
    for node in LocalScheduler.at(options.folder).nodes():
        line = (
            node.model_dump_json()
            if options.json
            else f"{node.name:<20} {node.state:<8} {'busy' if node.busy else '':<5}{node.reason}"
        )
        print(_clean(line).rstrip())


def drain(options: argparse.Namespace) -> None:
    """Let no new work land on a node; what runs there runs on."""
    LocalScheduler.at(options.folder).drain(options.node, options.reason)


def resume(options: argparse.Namespace) -> None:
    """Let work land on a node again."""
    LocalScheduler.at(options.folder).resume(options.node)


def requeue(options: argparse.Namespace) -> None:
    """Send a job back to the queue, with the same id; a running one is ended first."""
    scheduler = LocalScheduler.at(options.folder)
    scheduler.requeue(options.job, running=not scheduler.job(options.job).state.ended)


def exclude(options: argparse.Namespace) -> None:
    """Replace the nodes that a pending job must not get; an empty list clears them."""
    LocalScheduler.at(options.folder).exclude(options.job, _names(options.nodes))


def start_now(options: argparse.Namespace) -> None:
    """Take away the begin time of a pending job."""
    LocalScheduler.at(options.folder).start_now(options.job)


def cancel(options: argparse.Namespace) -> None:
    """End a job for good."""
    LocalScheduler.at(options.folder).cancel(options.job)


def stop_daemon(options: argparse.Namespace) -> None:
    """End the daemon; ranks run on, and any later call that finds work starts a new one."""
    scheduler = LocalScheduler.at(options.folder)
    if options.cancel_jobs:
        scheduler.shut_down()
    else:
        scheduler.stop_daemon()


def parser() -> argparse.ArgumentParser:
    """The whole command line; every verb's help is the docstring of its function."""
    top = argparse.ArgumentParser(
        prog=PROGRAM, description="Runs commands as ranks on named nodes of this machine.", epilog=EXIT_CODES
    )
    top.add_argument("--folder", type=Path, required=True, help="the cluster's folder: its record, its attempts, its kernel logs")
    verbs = top.add_subparsers(required=True, metavar="VERB")
    _create_arguments(_verb(verbs, "create", create))
    _submit_arguments(_verb(verbs, "submit", submit))
    for name, verb in (("jobs", jobs), ("nodes", nodes)):
        _verb(verbs, name, verb).add_argument("--json", action="store_true", help="print JSON")
    one = _verb(verbs, "job", job)
    one.add_argument("job", help="job id")
    one.add_argument("--json", action="store_true", help="print JSON")
    for name, verb in (("requeue", requeue), ("start-now", start_now), ("cancel", cancel)):
        _verb(verbs, name, verb).add_argument("job", help="job id")
    out = _verb(verbs, "exclude", exclude)
    out.add_argument("job", help="job id")
    out.add_argument("nodes", help="node names, separated by commas")
    away = _verb(verbs, "drain", drain)
    away.add_argument("node", help="node name")
    away.add_argument("--reason", required=True, help="why, for whoever wonders")
    _verb(verbs, "resume", resume).add_argument("node", help="node name")
    stop = _verb(verbs, "stop-daemon", stop_daemon)
    stop.add_argument("--cancel-jobs", action="store_true", help="cancel every job first, and wait for its processes to end")
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Do one verb; returns the exit code."""
    options = parser().parse_args(argv)
    try:
        options.verb(options)
    except RerailError as error:
        print(f"error: {_clean(str(error))}", file=sys.stderr)
        return 1 if isinstance(error, Permanent) else 3
    return 0


def _verb(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, verb: Verb) -> argparse.ArgumentParser:
    made = verbs.add_parser(name, help=verb.__doc__, description=verb.__doc__)
    made.set_defaults(verb=verb)
    return made


def _create_arguments(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--cluster", required=True, help="the cluster's name")
    verb.add_argument("--nodes", required=True, help="node names, separated by commas")
    verb.add_argument("--slots", type=int, default=1, help="how many ranks fit on each of these nodes (default 1)")
    for name, settings_field in Settings.__dataclass_fields__.items():
        flag, default = f"--{name.replace('_', '-')}", settings_field.default
        verb.add_argument(flag, type=float, dest=name, metavar="SECONDS", help=f"default {default:g}")


def _submit_arguments(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--nodes", type=int, default=1, help="how many nodes (default 1)")
    verb.add_argument("--ranks-per-node", type=int, default=1, metavar="N", help="how many ranks on each (default 1)")
    verb.add_argument("--name", default="", help="the job's name (default: the command's)")
    verb.add_argument("--chdir", type=Path, default=Path(), metavar="FOLDER", help="where it runs (default: here)")
    verb.add_argument(
        "--output", default="local-%j.log", metavar="PATH", help="its log; %%j is the job id (default local-%%j.log)"
    )
    verb.add_argument("--append", action="store_true", help="keep the log over restarts; else a restart begins it anew")
    verb.add_argument("--no-requeue", action="store_true", help="nobody may restart it")
    verb.add_argument("--exclude", default="", metavar="NODES", help="nodes it must not get, separated by commas")
    verb.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="set in its environment; may be repeated")
    verb.add_argument("--comment", default="", help="free text")
    verb.add_argument("command", nargs="+", metavar="COMMAND", help="the command line, best after --")


def _assignment(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise Refused(f"{rules.quoted(text)} is not of the form NAME=VALUE")
    return name, value


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _state(job: Job) -> str:
    return f"{job.state}*" if job.completing else str(job.state)


def _word(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds")
    return ",".join(value) if isinstance(value, tuple) else str(value)


def _clean(text: str) -> str:
    """No control character of a stranger's path or name reaches the terminal."""
    return rules.CONTROL.sub("?", text)


if __name__ == "__main__":
    sys.exit(main())
