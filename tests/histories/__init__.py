"""Committed histories of real stories: what an incident that waits for approval today has to replay on tomorrow's code."""
