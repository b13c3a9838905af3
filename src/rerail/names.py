"""Names that several processes must agree on: workflow types and ids, task queues, messages, search attributes."""

from rerail.records.attempt import Attempt, JobKey

WATCH_CLUSTER = "WatchCluster"
WATCH_JOB = "WatchJob"
REMEDIATE_JOB = "RemediateJob"
GUARD_CLUSTER = "GuardCluster"

CONTROL_QUEUE = "rerail-control"
"""Workflows, judgement, audit, telling."""


def detect_queue(cluster: str) -> str:
    """Activities that only read the cluster."""
    return f"rerail-detect-{cluster}"


def act_queue(cluster: str) -> str:
    """Activities that change something in the cluster."""
    return f"rerail-act-{cluster}"


def watch_cluster_id(cluster: str) -> str:
    """One for ever."""
    return f"watch-cluster/{cluster}"


def guard_cluster_id(cluster: str) -> str:
    """One for ever."""
    return f"guard-cluster/{cluster}"


def watch_job_id(job: JobKey) -> str:
    """One a job, over its attempts."""
    return f"watch-job/{job}"


def remediate_job_id(attempt: Attempt) -> str:
    """One an attempt: a second sighting of the same failure finds the living incident."""
    return f"remediate-job/{attempt}"


# Messages
DECIDE = "decide"  # update of RemediateJob: Decision as JSON
APPROVE = "approve"  # signal of RemediateJob, the fallback while no worker answers
REJECT = "reject"  # signal of RemediateJob
REPORT_ANOMALY = "report_anomaly"  # update of RemediateJob, with start
INCIDENT = "incident"  # query of RemediateJob: Incident
GRANT = "grant"  # update of GuardCluster: GrantAsk -> Grant
AWAIT_RESUME = "await_resume"  # signal to GuardCluster: incident id
MOVED_ON = "moved_on"  # signal of RemediateJob, from WatchJob: the job's next attempt is there
RESUMED = "resumed"  # signal of RemediateJob, from GuardCluster
CLOSED = "incident_closed"  # signal of WatchJob: Recovery
PAUSE = "pause"  # update of GuardCluster: {"by", "reason"}
RESUME = "resume"  # update of GuardCluster: {"by", "reason"}
READMIT = "readmit"  # update of GuardCluster: {"node", "by", "reason"}
ISOLATED = "isolated"  # signal to GuardCluster: Isolated, what an incident has done
GUARD_STATE = "state"  # query of GuardCluster
CLUSTER_STATE = "state"  # query of WatchCluster
WATCH = "watch"  # update of WatchCluster: {"job_id"} -> workflow id of WatchJob
REMEDIATE = "remediate"  # update of WatchCluster: {"job_id", "by", "reason"} -> workflow id of RemediateJob
JOB_STATE = "state"  # query of WatchJob

# Search attributes, all created by the control role where they are missing
SA_CLUSTER = "RerailCluster"  # Keyword
SA_JOB = "RerailJob"  # Keyword
SA_NODES = "RerailNodes"  # KeywordList
SA_CLASS = "RerailClass"  # Keyword
SA_STAGE = "RerailStage"  # Keyword
