"""All rows of the families, in one tuple."""

from functools import cache
from importlib import import_module

from rerail.signatures.signature import Signature

FAMILIES = (
    "xid",
    "gpu_kernel",
    "host",
    "storage",
    "network",
    "cuda",
    "accelerators",
    "nccl",
    "torch",
    "training",
    "checkpoint",
    "data",
    "python",
    "launcher",
    "slurm",
    "container",
    "noise",
)
"""The files in `families/`, roughly from what lies deepest to what lies on top."""

ALL: tuple[Signature, ...] = tuple(row for name in FAMILIES for row in import_module(f"rerail.signatures.families.{name}").ROWS)


@cache
def _index() -> dict[str, Signature]:
    return {row.id: row for row in ALL}


def by_id(signature_id: str) -> Signature:
    """The row of that id. Raises KeyError for an unknown one."""
    return _index()[signature_id]
