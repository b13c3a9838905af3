"""WHAT IS ALLOWED: a verdict and its circumstances in, a plan out. Pure: no clock, no log, no I/O.

Who may live here: rules, limits, guards. Who may not: anything that knows Temporal or a scheduler's dialect.
"""
