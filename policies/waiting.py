"""Why a restarted job does not start: the scheduler's reason, in a sentence, where it is more than a full cluster."""

import re

from rerail.records import Job, JobState, Record


class Wait(Record):
    """A reason as the scheduler words it, and what it means for the one who reads it."""

    pattern: str
    why: str
    example: str
    unfit: bool = False
    """True when no set of nodes is left that the job could ever get."""


ORDINARY = re.compile(r"^(?:|None|Priority|Resources|BeginTime|Cleaning|InvalidBFTime|NoReason)$", re.IGNORECASE)
"""A job in its queue: nothing that a person has to know."""

WAITS: tuple[Wait, ...] = (
    Wait(
        pattern=r"^BadConstraints|^Constraints",
        why="no set of nodes is left that fits what it asks for and what it is kept away from",
        example="BadConstraints",
        unfit=True,
    ),
    Wait(
        pattern=r"Reserved|Reservation|maint",
        why="a reservation or a maintenance window is in the way",
        example="ReqNodeNotAvail, Reserved for maintenance",
    ),
    Wait(
        pattern=r"^ReqNodeNotAvail|^NodeDown|UnavailableNodes",
        why="nodes that it needs are not available",
        example="ReqNodeNotAvail",
    ),
    Wait(
        pattern=r"^(?:QOS|Assoc|MaxJobsPer|MaxCpuPer|MaxNodePer|MaxSubmit)",
        why="a limit of its QOS or account is in the way; it starts once the limit allows it",
        example="QOSMaxJobsPerUserLimit",
    ),
    Wait(pattern=r"^Dependency", why="it depends on another job", example="DependencyNeverSatisfied"),
    Wait(
        pattern=r"^JobHeld|requeued.in.held",
        why="it is held, and not by rerail; its owner or an administrator releases it",
        example="JobHeldUser",
    ),
    Wait(pattern=r"^Partition", why="its partition does not take it now", example="PartitionTimeLimit"),
    Wait(pattern=r"^Licenses", why="a licence is not free", example="Licenses"),
)


def told(job: Job) -> str:
    """A sentence for people when the job waits for something out of the ordinary; else empty."""
    if job.state is not JobState.PENDING or job.completing or ORDINARY.match(job.reason):
        return ""
    found = row(job)
    return f"it waits ({job.reason[:100]}): {found.why}" if found else f"it waits ({job.reason[:100]})"


def unfit(job: Job) -> bool:
    """True when what it is kept away from has to shrink before it can ever start."""
    found = row(job)
    return job.state is JobState.PENDING and found is not None and found.unfit


def row(job: Job) -> Wait | None:
    return next((wait for wait in WAITS if re.search(wait.pattern, job.reason, re.IGNORECASE)), None)
