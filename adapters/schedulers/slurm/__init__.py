"""Slurm, driven by its own commands. Only this folder knows what they print and what their words mean."""

from adapters.schedulers.slurm.in_cluster import InCluster
from adapters.schedulers.slurm.runner import Ran, Runner
from adapters.schedulers.slurm.scheduler import SlurmScheduler

__all__ = ["InCluster", "Ran", "Runner", "SlurmScheduler"]
