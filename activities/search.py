"""Search attributes: what filters the list of workflows in the Temporal UI."""

from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes

from rerail import names
from rerail.records import Attempt, Stage

CLUSTER = SearchAttributeKey.for_keyword(names.SA_CLUSTER)
JOB = SearchAttributeKey.for_keyword(names.SA_JOB)
NODES = SearchAttributeKey.for_keyword_list(names.SA_NODES)
CLASS = SearchAttributeKey.for_keyword(names.SA_CLASS)
STAGE = SearchAttributeKey.for_keyword(names.SA_STAGE)

ALL = (CLUSTER, JOB, NODES, CLASS, STAGE)


def cluster_attributes(cluster: str) -> TypedSearchAttributes:
    """Of a workflow that belongs to a whole cluster."""
    return TypedSearchAttributes([SearchAttributePair(CLUSTER, cluster)])


def job_attributes(attempt: Attempt) -> TypedSearchAttributes:
    """Of a workflow that belongs to a job."""
    job = attempt.job
    return TypedSearchAttributes([SearchAttributePair(CLUSTER, job.cluster), SearchAttributePair(JOB, job.job_id)])


def incident_attributes(attempt: Attempt) -> TypedSearchAttributes:
    """Of an incident at its start."""
    return job_attributes(attempt).updated(SearchAttributePair(STAGE, Stage.DIAGNOSING.value))
