"""What a plan depends on beside the verdict."""

from datetime import datetime

from policies.permits import Permits
from rerail.records import Anomaly, Drain, Facts, Mode, Record, Recovery


class Circumstances(Record):
    """The incident's anomaly, fresh facts, the job's history of recoveries, and the cluster's mode, at one moment."""

    anomaly: Anomaly
    facts: Facts
    history: tuple[Recovery, ...] = ()
    mode: Mode = Mode.MONITOR
    drain: Drain = Drain.NEVER
    now: datetime
    permits: Permits = Permits()
    script: str = ""
    """Where the job's batch script was copied to, where it could be had."""
