"""One cluster: does its scheduler answer, do the clocks agree, can the logs of its jobs and nodes be read?"""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from rerail.errors import RerailError
from rerail.records import Job, JobState, NodeState, Reading
from workers.doctor import slurm
from workers.doctor.finding import Finding, fail, ok, warn
from workers.settings import Settings
from workers.way import Way

CLOCK_WARN = timedelta(seconds=2)
"""Detection aims at two seconds; clocks further apart blur what came first."""
CLOCK_FAIL = timedelta(seconds=60)
MOST_LOOKED_AT = 200
"""Logs and nodes tried, a cluster: enough to find a wrong mount."""
MOST_NAMED = 3


def cluster(settings: Settings, name: str, way: Way) -> Iterator[Finding]:
    """All about one cluster. A scheduler that does not answer ends it: nothing else can be known then."""
    began = time.monotonic()
    try:
        reading = way.scheduler.read()
    except RerailError as error:
        yield fail(f"cluster {name}: its scheduler does not answer", str(error))
        return
    took_s = time.monotonic() - began
    yield _answered(name, reading, took_s, settings.cluster(name).interval_s)
    yield _clocks(name, reading, datetime.now(UTC))
    yield _job_logs(name, reading, way)
    yield from _nodes(settings, name, way)
    if way.runner:
        yield from slurm.examine(name, way.runner, settings.cluster(name).interval_s)


def _answered(name: str, reading: Reading, took_s: float, interval_s: float) -> Finding:
    what = f"cluster {name}: its scheduler answers in {took_s:.2f} s and knows {len(reading.jobs)} jobs"
    return ok(what) if took_s <= interval_s else warn(what, f"raise interval_s, now {interval_s:g}: each read takes longer")


def _clocks(name: str, reading: Reading, now: datetime) -> Finding:
    """The scheduler's times against ours: none of what it tells can lie in our future."""
    ended = [at for job in reading.jobs if job.state.ended and (at := job.ended_at)]
    running = [at for job in reading.jobs if job.state is JobState.RUNNING and (at := job.started_at)]
    apart = max([abs(reading.read_at - now), *(at - now for at in (*ended, *running))])
    if apart <= CLOCK_WARN:
        return ok(f"cluster {name}: clocks agree")
    make = fail if apart > CLOCK_FAIL else warn
    return make(f"cluster {name}: its clock and ours are {apart.total_seconds():.0f} s apart", "let both follow one NTP server")


def _job_logs(name: str, reading: Reading, way: Way) -> Finding:
    running = [job for job in reading.jobs if job.state is JobState.RUNNING][:MOST_LOOKED_AT]
    bad = [trouble for job in running if (trouble := _log_trouble(job, way))]
    if not bad:
        return ok(f"cluster {name}: logs of its {len(running)} running jobs can be read")
    return warn(
        f"cluster {name}: {len(bad)} of {len(running)} running jobs have no log here: {'; '.join(bad[:MOST_NAMED])}",
        "let the user that reads them read them, or mount their folder where they are looked for",
    )


def _log_trouble(job: Job, way: Way) -> str:
    if not job.output:
        return f"job {job.job_id} tells no path"
    try:
        with way.opener(job.output) as file:
            return "" if file else f"job {job.job_id}: {job.output[:200]!r} is not there"
    except RerailError as error:
        return f"job {job.job_id}: {error}"


def _nodes(settings: Settings, name: str, way: Way) -> Iterator[Finding]:
    try:
        nodes = way.scheduler.nodes()
    except RerailError as error:
        yield fail(f"cluster {name}: its nodes cannot be listed", str(error))
        return
    up = sum(node.state is NodeState.UP for node in nodes)
    what = f"cluster {name}: {up} of {len(nodes)} nodes are up"
    yield ok(what) if up else warn(what, "no job can be restarted before a node is up")
    yield _kernel_logs(settings, name, way, [node.name for node in nodes][:MOST_LOOKED_AT])


def _kernel_logs(settings: Settings, name: str, way: Way, nodes: list[str]) -> Finding:
    template = settings.kernel_log_template(name)
    if template is None:
        return warn(f"cluster {name}: no kernel logs", "set kernel_log: without it a broken node is hardly ever recognised")
    hosts = way.hosts(template)
    try:
        found = sum(hosts.kernel_log(node, datetime.now(UTC), 1) is not None for node in nodes)
    except RerailError as error:
        return warn(f"cluster {name}: kernel logs", str(error))
    what = f"cluster {name}: kernel logs of {found} of {len(nodes)} nodes at {template}"
    return ok(what) if found else warn(what, "check kernel_log, unless no node has written one yet")
