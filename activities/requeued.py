"""Reading who sent an attempt back to the queue, while its nodes and the end of its log still tell."""

from activities.tail import paths
from policies import requeues
from rerail import hostlist
from rerail.errors import RerailError
from rerail.ports import Logs, Scheduler
from rerail.records import Attempt, Job, Requeuer


def who_requeued(scheduler: Scheduler, logs: Logs, job: Job, attempt: Attempt, ran_on: str) -> Requeuer | None:
    """None while nobody has. `ran_on`: the attempt's nodes as a hostlist."""
    if job.restarts <= attempt.restarts:
        return None
    nodes = hostlist.expand(ran_on) if ran_on else job.nodes
    return requeues.requeued_by(job, attempt, nodes, scheduler.nodes(), log_tail(logs, job))


def log_tail(logs: Logs, job: Job) -> str:
    """The last words of the job's logs; empty where they can't be read."""
    said = b""
    for path in paths(job).values():
        try:
            size = logs.read(path, 0, 0).size
            said += logs.read(path, max(0, size - requeues.TAIL), requeues.TAIL).data
        except RerailError:
            continue
    return said.decode("utf-8", "replace")
