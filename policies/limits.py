"""The numbers that bound what a plan may propose: each with its unit, reason and source."""

from datetime import timedelta

NODES_PER_INCIDENT = 2
"""Nodes that one incident may isolate. In 348 days of 400 servers the worst burst was 14 faults in 10 minutes, from many causes;
a single job's failure with evidence against more than two nodes is a shared cause, not bad nodes."""

RESTARTS_PER_WINDOW = 3
"""Restarts of one job that its history may hold within RESTART_WINDOW: what does not heal by three restarts needs a person."""

RESTART_WINDOW = timedelta(hours=1)

SAME_STEP_FAILURES = 2
"""The same cause at the same step this often convicts the job, not the nodes (one retry tells chance from law)."""
