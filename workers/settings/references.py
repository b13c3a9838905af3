"""References to environment variables, `${NAME}`: the only way by which a secret gets near a setting."""

import re
from collections.abc import Mapping

from rerail.errors import Misconfigured

REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def variables(text: str) -> tuple[str, ...]:
    """The names that `text` refers to, in order."""
    return tuple(REFERENCE.findall(text))


def expanded(text: str, environ: Mapping[str, str], setting: str) -> str:
    """`text` with every reference replaced; Misconfigured, naming `setting` and the variable, when one is not set or empty."""
    for name in variables(text):
        if not environ.get(name):
            raise Misconfigured(
                f"{setting} refers to the environment variable {name}, which is not set: export it and start again."
            )
    return REFERENCE.sub(lambda match: environ[match.group(1)], text)
