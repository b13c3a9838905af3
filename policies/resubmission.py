"""The command by which a person submits a job again, once its scheduler can no longer requeue it."""

import math
import shlex
from collections.abc import Iterable

from rerail import hostlist
from rerail.records import Job

LONGEST = 4096
"""Characters of the whole command; a longer one is told without the options that the script may say itself."""


def command(job: Job, script: str = "", excluded: Iterable[str] = ()) -> str:
    """One command for a shell, an option a line, each quoted. `script`: where the batch script was kept; else its own path.

    Options that were given on sbatch's command line are in no script, so those that the job's record shows are said again.
    Empty where the record tells of no batch script.
    """
    words = split(job.command)
    if not job.batch or not (words or script):
        return ""
    avoid = sorted({*job.excluded_nodes, *excluded})
    options = {
        "job-name": job.name,
        "account": job.account,
        "partition": job.partition,
        "qos": job.qos,
        "nodes": str(job.nodes_needed),
        "time": str(math.ceil(job.time_limit_s / 60)) if job.time_limit_s else "",
        "chdir": job.folder,
        "output": job.output,
        "error": job.error_output,
        "exclude": hostlist.compress(avoid) if avoid else "",
        "comment": job.comment,
    }
    said = [f"--{name}={value}" for name, value in options.items() if value and value.isprintable()]
    end = [script or words[0], *words[1:]]
    lines = ["sbatch", *(shlex.quote(option) for option in said), shlex.join(end)]
    text = " \\\n  ".join(lines)
    return text if len(text) <= LONGEST else shlex.join(["sbatch", *end])[:LONGEST]


def split(words: str) -> list[str]:
    """As a shell would; as they stand where it could not."""
    if not words.isprintable():
        return []
    try:
        return shlex.split(words)
    except ValueError:
        return words.split()
