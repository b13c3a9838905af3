"""A real Slurm of several nodes on one machine, for tests and benchmarks: `python -m tests.testbed up`. Needs root and Debian's packages."""
