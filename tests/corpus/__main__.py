"""`python -m tests.corpus`: accuracy over both sets of cases, also with each case's own rows left out; hits by signature."""

from collections import Counter
from collections.abc import Iterable

from tests.corpus.scoring import CORPUS, FIELDS, REAL_LOGS, Judged, cases, hit_by, judge, without_own_rows


def table(title: str, judged: Iterable[Judged]) -> None:
    """One line of percentages, and what went wrong."""
    seen = list(judged)
    shares = [sum(one.right[name] for one in seen) / len(seen) for name in FIELDS]
    whole = sum(one.all_right for one in seen) / len(seen)
    print(f"{title:<34}{len(seen):>5}" + "".join(f"{share:>10.1%}" for share in (*shares, whole)))
    for one in seen:
        if not one.all_right:
            print(f"    {one.told[:400]}")


def main() -> None:
    """Print all."""
    print(f"{'':<34}{'cases':>5}" + "".join(f"{name:>10}" for name in (*FIELDS, "all four")))
    table("corpus", (judge(case) for case in cases(CORPUS)))
    table("real logs", (judge(case) for case in cases(REAL_LOGS)))
    apart = list(without_own_rows())
    table("corpus, own rows left out", (one for one in apart if one.case.folder.is_relative_to(CORPUS)))
    table("real logs, own rows left out", (one for one in apart if one.case.folder.is_relative_to(REAL_LOGS)))
    counts = Counter(row for case in (*cases(CORPUS), *cases(REAL_LOGS)) for row in hit_by(case.folder))
    print("\nsignatures by the number of cases they hit in:")
    for row, count in counts.most_common():
        print(f"{count:>5}  {row}")


if __name__ == "__main__":
    main()
