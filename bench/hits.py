"""How often each signature hits over a folder of logs, and which hit in one case only.

python bench/hits.py FOLDER        (every *.log below it; a case is the folder's direct child)
"""

import sys
from collections import Counter, defaultdict
from pathlib import Path

from rerail.signatures import ALL, scan_stream


def count(folder: Path) -> tuple[Counter[str], dict[str, set[str]]]:
    """Hits by signature, and the cases of each."""
    hits: Counter[str] = Counter()
    cases: dict[str, set[str]] = defaultdict(set)
    for path in sorted(folder.rglob("*.log")):
        case = path.relative_to(folder).parts[0]
        with path.open("rb") as file:
            for hit in scan_stream(file):
                hits[hit.id] += 1
                cases[hit.id].add(case)
    return hits, cases


def main() -> None:
    """See the module."""
    hits, cases = count(Path(sys.argv[1]))
    for row in ALL:
        print(f"{row.id:34} {row.role:8} {hits[row.id]:7} hits {len(cases[row.id]):4} cases")
    alone = sum(len(found) == 1 for found in cases.values())
    print(f"{len(ALL)} rows: {len(hits)} hit here, {alone} of them in one case only")


if __name__ == "__main__":
    main()
