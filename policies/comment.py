"""Our one line in a job's comment, beside what stands there: no other character of it changes, and an older line of ours goes."""

import json
import re

from policies.wishes import WORD, once, printable

COMMENT_MAX = 1024
"""Characters of a comment: Slurm refuses longer ones."""

WORD_MAX = 300
"""Characters of our line; the rest of the comment is its owner's."""

_STRING = r'"(?:[^"\\]|\\.){0,2000}"'
_OURS = re.compile(rf'(?: ?\{{"{WORD}": {_STRING}\}}|,? "{WORD}": {_STRING})')


def with_word(comment: str, word: str) -> str | None:
    """The comment with our line in it: a key of its own in the object that is there, else an object after the text. None when it
    has no room for it; then the comment stays as it is."""
    rest = without_word(comment)
    said = f'"{WORD}": {json.dumps(printable(word, WORD_MAX))}'
    if is_object(rest):
        body = rest.rstrip()[:-1]
        empty = body.strip() == "{"
        made = body + (" " if empty else ", ") + said + "}" + rest[len(rest.rstrip()) :]
    else:
        made = f"{rest} {{{said}}}" if rest else f"{{{said}}}"
    return made if len(made) <= COMMENT_MAX else None


def without_word(comment: str) -> str:
    """The comment as its owner wrote it."""
    return _OURS.sub("", comment)


def is_object(comment: str) -> bool:
    """True when the comment is one JSON object and nothing else."""
    try:
        return isinstance(json.loads(comment, object_pairs_hook=once), dict)
    except (ValueError, RecursionError):
        return False
