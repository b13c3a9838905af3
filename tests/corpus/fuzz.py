"""`python -m tests.corpus.fuzz SECONDS [SEED]`: cases mangled at random; a verdict and a clean page must come out of each.

What fails is left in a folder whose name is printed, with the seed that made it.
"""

import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

from rerail import diagnosis, report
from tests.corpus.scoring import CORPUS, REAL_LOGS, cases

MOST_BYTES = 200_000


def mangled(data: bytes, chance: random.Random) -> bytes:
    """The bytes with lines lost, doubled, swapped, cut, and bytes changed."""
    lines = data[:MOST_BYTES].split(b"\n")
    for _ in range(chance.randint(1, 40)):
        at, other = chance.randrange(len(lines)), chance.randrange(len(lines))
        match chance.randrange(6):
            case 0:
                lines[at] = lines[other]
            case 1:
                lines[at], lines[other] = lines[other], lines[at]
            case 2:
                lines[at] = lines[at][: chance.randrange(len(lines[at]) + 1)]
            case 3:
                lines[at] += bytes(chance.randrange(256) for _ in range(chance.randrange(30)))
            case 4:
                lines[at] = lines[at][:2000] * chance.randint(2, 30)
            case _:
                lines[at] = lines[at].replace(b" ", bytes([chance.randrange(256)]))
    return b"\n".join(lines)


def once(seed: int, folder: Path) -> None:
    """One mangled case. Raises whatever the diagnosis raised, and AssertionError for a page that is not clean."""
    chance = random.Random(seed)
    shutil.copytree(chance.choice((*cases(CORPUS), *cases(REAL_LOGS))).folder, folder)
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            path.write_bytes(mangled(path.read_bytes(), chance))
    page = report.page(diagnosis.diagnose(folder))
    assert not [char for char in page if char != "\n" and (ord(char) < 32 or 127 <= ord(char) < 160)], "control characters"


def main(seconds: float, seed: int) -> int:
    """Go on until the time is up; 1 at the first failure."""
    end = time.monotonic() + seconds
    first = seed
    while time.monotonic() < end:
        folder = Path(tempfile.mkdtemp(prefix="fuzz-")) / "case"
        try:
            once(seed, folder)
        except Exception as error:
            print(f"seed {seed}: {error!r}; the case is in {folder}")
            return 1
        shutil.rmtree(folder.parent)
        seed += 1
    print(f"{seed - first} mangled cases, no failure; next seed {seed}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0))
