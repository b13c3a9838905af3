"""A real Slurm of several nodes on one machine, for tests and benchmarks.

Needs root and Debian's packages; by hand: `python -m tests.testbed up`.
"""
