"""Heterogeneous jobs: the leader stands for all of its components, since Slurm restarts them together or not at all."""

from collections.abc import Mapping

from rerail.records import Job


def led(jobs: Mapping[int, Job]) -> dict[int, Job]:
    """The same jobs; a leader with the nodes of its components, in their order, beside its own."""
    parts: dict[str, list[tuple[int, Job]]] = {}
    for number, job in jobs.items():
        if job.led:
            parts.setdefault(job.het_job_id, []).append((number, job))
    return {number: whole(job, parts.get(job.job_id, [])) if job.het_job_id else job for number, job in jobs.items()}


def whole(job: Job, parts: list[tuple[int, Job]]) -> Job:
    """The leader of these components; a component itself stays as it is."""
    mine = [part for _, part in sorted(parts, key=lambda one: one[0])]
    nodes = dict.fromkeys(node for one in (job, *mine) for node in one.nodes)
    return job.model_copy(update={"nodes": tuple(nodes), "nodes_needed": sum(one.nodes_needed for one in (job, *mine))})
