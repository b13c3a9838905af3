"""Tasks of a job array that have no record of their own yet: Slurm keeps them in one, as `3-6,9-15:2%4`."""

import re

from rerail.records import Job

_SPAN = re.compile(r"([0-9]+)(?:-([0-9]+))?(?::([0-9]+))?")
CUT = "..."
"""How Slurm ends a list that is too long for it; the tasks after it can't be told apart, so they count as waiting."""


def waiting_task(array: Job, task: int) -> Job | None:
    """The record of one waiting task, from the record of the rest of its array; None when it isn't among them."""
    if not covers(array.array_task_id, task):
        return None
    return array.model_copy(update={"job_id": f"{array.array_job_id}_{task}", "array_task_id": str(task)})


def covers(tasks: str, task: int) -> bool:
    """True when the list names the task."""
    highest = -1
    for piece in tasks.partition("%")[0].split(","):
        span = _SPAN.fullmatch(piece)
        if not span:
            continue
        first, last, step = int(span[1]), int(span[2] or span[1]), int(span[3] or 1)
        if first <= task <= last and (task - first) % max(step, 1) == 0:
            return True
        highest = max(highest, last)
    return CUT in tasks and task > highest
