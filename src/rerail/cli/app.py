"""The verbs of `rerail`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rerail import __version__
from rerail.cli.screen import bold, clean, complain, hint, say, say_json
from rerail.cli.verb import Verb, finish, online

if TYPE_CHECKING:
    from rerail.cli.exits import Exit
    from rerail.client import Answer, Rerail
    from rerail.errors import RerailError
    from rerail.records import Incident

ABOUT = """Puts failed distributed training jobs back on the rails.

rerail speaks to Temporal, where the incidents live; `diagnose` works offline. Where Temporal is, Temporal's own
profiles and TEMPORAL_* variables say, or the options of each verb.
"""

AFTER = """\b
What waits, and why:            rerail pending
                                rerail explain 41001
Decide:                         rerail approve 41001 --reason "the GPU is gone"
Have a job looked into:         rerail remediate alpha 41001 --reason "it hangs"
Hands off a cluster:            rerail pause alpha --reason "maintenance"
A log on your laptop:           rerail diagnose slurm-41001.out

\b
Exit codes: 0 ok; 1 refused; 2 wrong use or settings; 3 Temporal or its workers not reachable; 4 not found;
5 time ran out or approval expired; 6 `wait`: ended otherwise than recovered; 70 a defect (RERAIL_DEBUG=1 shows the trace).
"""

app = typer.Typer(
    help=ABOUT,
    epilog=AFTER,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)

Cluster = Annotated[str, typer.Argument(help="Name of a cluster, as in `rerail clusters`.", show_default=False)]
JobId = Annotated[str, typer.Argument(metavar="JOB", help="Job id, as the scheduler prints it.", show_default=False)]
What = Annotated[
    str,
    typer.Argument(metavar="WHAT", help="An incident's id, the id of a job's watcher, or a job id.", show_default=False),
]
Any_ = Annotated[str, typer.Argument(metavar="WHAT", help="An id, a job id, or a cluster's name.", show_default=False)]
OnCluster = Annotated[str | None, typer.Option("--cluster", "-c", help="On this cluster only.")]
Reason = Annotated[str, typer.Option("--reason", "-r", help="Why; it is kept in the record.", show_default=False)]
By = Annotated[str | None, typer.Option("--by", envvar="RERAIL_BY", help="Who decides [your login name].")]
Node = Annotated[str, typer.Argument(metavar="NODE", help="A node's name, as the scheduler prints it.", show_default=False)]
WithDrain = Annotated[bool, typer.Option("--drain", help="Approve the plan's drain, too; without this no node is drained.")]
PlanId = Annotated[str | None, typer.Option("--plan", help="The plan that you mean [the one proposed now].")]
Signal = Annotated[bool, typer.Option("--signal", help="When no worker answers, leave it with Temporal as a signal.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON value instead of text.")]


def add(verb: Verb, *examples: str) -> None:
    """Make a verb that speaks to Temporal a command."""
    epilog = "\b\nExamples:\n" + "\n".join(f"  rerail {example}" for example in examples)
    app.command(verb.__name__, epilog=epilog)(online(verb))


def show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rerail {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    pass


# Reading


async def pending(rerail: "Rerail", cluster: OnCluster = None, as_json: Json = False) -> None:
    """What waits for a decision, the longest wait first."""
    from rerail.cli.pages import pending_page

    found = await rerail.pending(cluster, unread=tell_unread)
    say_json(dumped(found)) if as_json else say(pending_page(found))


async def incidents(
    rerail: "Rerail",
    cluster: OnCluster = None,
    job: Annotated[str | None, typer.Option("--job", "-j", help="Of this job only.")] = None,
    most: Annotated[int, typer.Option("--most", "-n", min=1, max=1000, help="How many at most.")] = 20,
    as_json: Json = False,
) -> None:
    """Incidents: open ones first, then the last closed ones."""
    from rerail.cli.pages import incidents_page

    found = await rerail.incidents(cluster, job, most=most, unread=tell_unread)
    say_json(dumped(found)) if as_json else say(incidents_page(found))


async def explain(rerail: "Rerail", what: Any_, cluster: OnCluster = None, as_json: Json = False) -> None:
    """What is known of an incident, a job or a cluster: what happened, why, what is proposed, what to do now.

    With --json the one key of the object says which it is: incident, job, cluster or guard.
    """
    from rerail.cli.pages import page

    explained = await rerail.explain(what, cluster)
    say_json({KEYS[type(explained).__name__]: dump(explained)}) if as_json else say(page(explained))


KEYS = {"Incident": "incident", "JobWatch": "job", "ClusterState": "cluster", "GuardState": "guard"}


async def clusters(rerail: "Rerail", as_json: Json = False) -> None:
    """The clusters that are watched, and whether they can be seen."""
    from rerail.cli.pages import cluster_page

    found = await rerail.clusters()
    if as_json:
        say_json(dumped(found))
        return
    say(line for state in found for line in cluster_page(state))
    if not found:
        say(["no cluster is watched here; on the service's host `python -m workers up` starts it"])


async def guard(rerail: "Rerail", cluster: Cluster, as_json: Json = False) -> None:
    """Whether a cluster is paused, and which nodes are isolated."""
    from rerail.cli.pages import guard_page

    state = await rerail.guard(cluster)
    say_json(dump(state)) if as_json else say(guard_page(state))


async def wait(
    rerail: "Rerail",
    what: What,
    timeout_s: Annotated[float | None, typer.Option("--timeout", min=0, metavar="SECONDS", help="Give up after this.")] = None,
    cluster: OnCluster = None,
    as_json: Json = False,
) -> "Exit":
    """Wait until an incident has ended. Exit code 0 when the job recovered, 6 when it ended otherwise, 5 when time ran out."""
    from rerail.cli.exits import of_outcome
    from rerail.cli.pages import outcome_rows

    outcome = await rerail.wait(what, timeout_s, cluster=cluster, seen=tell_stage)
    say_json(dump(outcome)) if as_json else say([bold(str(outcome.result)), *outcome_rows(outcome)])
    return of_outcome(outcome)


# Asking and deciding


async def watch(rerail: "Rerail", cluster: Cluster, job: JobId, as_json: Json = False) -> None:
    """Have a job watched, in scope or not; prints the id of its watcher."""
    watcher = await rerail.watch(cluster, job)
    say_json({"id": watcher}) if as_json else say([clean(watcher)])


async def remediate(
    rerail: "Rerail", *, cluster: Cluster, job: JobId, reason: Reason, by: By = None, as_json: Json = False
) -> None:
    """Have a job looked into now; prints the incident's id. What it proposes waits for approval like any other plan."""
    incident = await rerail.remediate(cluster, job, reason, by)
    say_json({"id": incident}) if as_json else say([clean(incident)])
    hint(f"next: rerail explain {incident}")


async def approve(
    rerail: "Rerail",
    *,
    what: What,
    reason: Reason,
    by: By = None,
    plan: PlanId = None,
    cluster: OnCluster = None,
    signal: Signal = False,
    drain: WithDrain = False,
    as_json: Json = False,
) -> None:
    """Let the plan be carried out. It holds for that plan alone, and the facts are read again before anything is done."""
    answer = await rerail.approve(what, reason, by=by, plan=plan, cluster=cluster, fallback=signal, drain=drain)
    show_answer(answer, as_json)


async def reject(
    rerail: "Rerail",
    *,
    what: What,
    reason: Reason,
    by: By = None,
    plan: PlanId = None,
    cluster: OnCluster = None,
    signal: Signal = False,
    as_json: Json = False,
) -> None:
    """Have nothing done."""
    show_answer(await rerail.reject(what, reason, by=by, plan=plan, cluster=cluster, fallback=signal), as_json)


async def pause(rerail: "Rerail", cluster: Cluster, reason: Reason, by: By = None, as_json: Json = False) -> None:
    """Nothing more is done to a cluster, by anyone, until `resume`. Watching and diagnosing go on."""
    said = await rerail.pause(cluster, reason, by)
    say_json({"text": said}) if as_json else say([clean(said)])


async def resume(rerail: "Rerail", cluster: Cluster, reason: Reason, by: By = None, as_json: Json = False) -> None:
    """End a pause: incidents that waited for it go on."""
    said = await rerail.resume(cluster, reason, by)
    say_json({"text": said}) if as_json else say([clean(said)])


async def readmit(
    rerail: "Rerail", *, cluster: Cluster, node: Node, reason: Reason, by: By = None, as_json: Json = False
) -> None:
    """Give an isolated node back: rerail's own drain of it ends, and jobs that wait may use it again.

    What somebody else drained, or a job's owner excluded, stays as it is.
    """
    said = await rerail.readmit(cluster, node, reason, by)
    say_json({"text": said}) if as_json else say([clean(said)])


add(pending, "pending", "pending --cluster alpha --json")
add(explain, "explain 41001", "explain 41001 --cluster alpha", "explain remediate-job/alpha/41001/1796083200/1 --json")
add(approve, 'approve 41001 --reason "the GPU is gone"', "approve 41001 --plan 0a1b2c3d --reason ... --by anna")
add(reject, 'reject 41001 --reason "I look myself"')
add(wait, "wait 41001", 'wait "$(rerail remediate alpha 41001 --reason hangs)" --timeout 3600 && echo recovered')
add(incidents, "incidents", "incidents --cluster alpha --job 41001 --most 50 --json")
add(watch, "watch alpha 41001")
add(remediate, 'remediate alpha 41001 --reason "loss is stuck"')
add(pause, 'pause alpha --reason "maintenance until noon"')
add(resume, 'resume alpha --reason "maintenance is over"')
add(readmit, 'readmit alpha gpu-02 --reason "the GPU was replaced and tested"')
add(guard, "guard alpha", "guard alpha --json")
add(clusters, "clusters", "clusters --json")


@app.command(epilog="\b\nExamples:\n  rerail diagnose slurm-41001.out\n  rerail diagnose ./case-folder --json")
def diagnose(
    path: Annotated[Path, typer.Argument(help="A job's log, or a folder with what it left behind.", show_default=False)],
    rows: Annotated[
        list[Path] | None, typer.Option("--signatures", metavar="FILE", help="A site's own rows, as YAML (docs/diagnosis.md).")
    ] = None,
    steps: Annotated[
        str, typer.Option("--steps", metavar="REGEX", help="How its loop prints a step, with a group (?P<step>\\d+).")
    ] = "",
    as_json: Json = False,
) -> None:
    """Say offline why a job failed, from its log or from an incident's evidence folder."""
    finish(lambda: judge(path, rows or [], steps, as_json))


def judge(path: Path, rows: "list[Path]", steps: str, as_json: bool) -> None:
    from rerail import report
    from rerail.attribution import attribute
    from rerail.case import read_case
    from rerail.dialect import Dialect

    dialect = Dialect.load(rows, steps)
    verdict = attribute(read_case(path, dialect.rows, dialect.steps))
    if as_json:
        say_json(report.as_json(verdict))
    else:
        say([report.page(verdict, colour=sys.stdout.isatty())])


def dump(record: Any) -> Any:
    """A record as JSON values: every key, set or not."""
    return record.model_dump(mode="json")


def dumped(records: list[Any]) -> list[Any]:
    return [dump(record) for record in records]


def show_answer(answer: "Answer", as_json: bool) -> None:
    if as_json:
        say_json(dump(answer))
        return
    plan = f" (plan {answer.plan})" if answer.plan else ""
    say([clean(answer.text + plan)])
    hint(f"next: rerail wait {answer.incident}")


def tell_unread(incident: str, error: "RerailError") -> None:
    complain(f"{incident} can't be shown: {error}")


def tell_stage(incident: "Incident") -> None:
    from rerail.cli.pages import standing

    say([clean(f"{incident.id}: {standing(incident)}")], err=True)
