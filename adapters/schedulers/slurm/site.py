"""What a site has set up, from `scontrol show config`: how Slurm restarts jobs by itself."""

import re

from rerail.records import Habits

EXIT_CODES = 256


def habits(config: str) -> Habits:
    """RequeueExit and RequeueExitHold; anything that can't be understood is left out."""
    return Habits(requeue_exits=_codes(config, "RequeueExit"), hold_exits=_codes(config, "RequeueExitHold"))


def _codes(config: str, key: str) -> tuple[int, ...]:
    """Exit codes of a list such as `1,10-12`; none of `(null)`."""
    found = re.search(rf"^{key}[ \t]*=[ \t]*([0-9,\- ]*)$", config, re.MULTILINE | re.IGNORECASE)
    codes: set[int] = set()
    for piece in (found[1] if found else "").split(","):
        span = re.fullmatch(r"\s*([0-9]{1,3})(?:-([0-9]{1,3}))?\s*", piece)
        if span:
            codes.update(range(int(span[1]), min(int(span[2] or span[1]), EXIT_CODES - 1) + 1))
    return tuple(sorted(codes))
