"""rerail: the vocabulary and the judgement. Small frozen records, and functions from records to records.

Installed alone, it lets an engineer trigger remediations from Python and diagnose a log on a laptop.
Who may live here: whatever is pure. Only `client` and `cli` know Temporal.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rerail.diagnosis import diagnose

__all__ = ["__version__", "diagnose"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """`from rerail import diagnose`; loaded then and not before, so that workflows and the SDK stay light."""
    if name != "diagnose":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from rerail.diagnosis import diagnose  # noqa: PLC0415  (when it is wanted)

    return diagnose
