"""May these nodes be isolated? The limits that GuardCluster keeps."""

from datetime import datetime

from policies.limits import NODES_PER_INCIDENT
from rerail.records import Grant, GrantAsk, GuardState


def judge(ask: GrantAsk, state: GuardState, now: datetime) -> Grant:
    """Granted, or refused with a sentence. While paused nothing is refused for good: acting waits at its own gate."""
    left = ask.nodes_eligible - len(ask.nodes)
    refusals = (
        (len(ask.nodes) > NODES_PER_INCIDENT, f"{len(ask.nodes)} nodes at once; at most {NODES_PER_INCIDENT} an incident"),
        (left < ask.nodes_needed, f"only {left} nodes would remain for a job that needs {ask.nodes_needed}"),
    )
    reason = next((text for refused, text in refusals if refused), "")
    return Grant(incident=ask.incident, granted=not reason, reason=reason, at=now)
