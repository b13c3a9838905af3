"""What a stranger may write into a job id, a node's name, a reason, a comment or a path: by seed, as many as are wanted."""

import os
import random
from collections.abc import Iterator

MANY = 100_000
"""All of them: RERAIL_HOSTILE=100000."""
FEW = 2_000

PIECES = (
    "; touch pwned",
    "$(touch pwned)",
    "`touch pwned`",
    "| sh",
    "&& id",
    "|| id",
    "& id",
    "> pwned",
    "< /etc/passwd",
    "\n",
    "\r\n",
    "\nscontrol shutdown\n",
    "'",
    '"',
    "\\",
    "\\'",
    "'\"'\"'",
    "$IFS",
    "${PATH}",
    "$'\\n'",
    "*",
    "?",
    "[a-z]",
    "{a,b}",
    "~",
    "!",
    "#",
    "%",
    "%n",
    "%s" * 4,
    "--help",
    "-u root",
    "--user=root",
    " UserID=0",
    " state=down",
    "reason=x",
    ",ALL",
    "ALL",
    "all",
    "..",
    "../../etc/passwd",
    "/etc/shadow",
    "/proc/self/environ",
    "\x1b[31m",
    "\x1b]0;title\x07",
    "\x7f",
    "\x85",
    "\u2028",
    "\u202e",
    "\N{ARABIC-INDIC DIGIT ONE}",
    "\N{FULLWIDTH DIGIT ONE}",
    "\ud800",
    "\U0001f4a5",
    "a" * 300,
    "9" * 20,
    "0x1",
    "1e3",
    "-1",
    "+0",
    "_",
    "[1-9999999]",
    "[1-",
    "|idle|main|none",
    '"}]}',
    '{"rerail": {"off": true}}',
    "rerail: ",
    "\t",
    " ",
    "",
)
HONEST = ("7", "4711_3", "12+1", "node1", "gpu-[001-003]", "rerail: gpu fell off", "/scratch/job.log", "x")


def wanted() -> int:
    """How many this run tries."""
    return int(os.environ.get("RERAIL_HOSTILE", FEW))


def texts(number: int, seed: int = 20261201) -> Iterator[str]:
    """Each is some pieces about something honest, or characters at random."""
    source = random.Random(seed)
    for _ in range(number):
        if source.random() < 0.2:
            yield "".join(chr(source.choice((source.randrange(1, 128), source.randrange(1, 0x3000)))) for _ in range(12))
        else:
            pieces = [source.choice(PIECES) for _ in range(source.randrange(1, 4))]
            pieces.insert(source.randrange(len(pieces) + 1), source.choice(HONEST))
            yield "".join(pieces)
