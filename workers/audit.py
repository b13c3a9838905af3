"""The verb `audit`: the trail on the terminal (`list`) or as JSON lines for somebody else's archive (`export`)."""

import argparse
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from adapters.audit.store import AuditStore
from rerail.errors import RerailError
from rerail.records import AuditRow
from workers.settings import Settings

LIST_ROWS = 100
ALL_ROWS = 2**62
WIDTH = 400
"""Characters of a row's sentence on the terminal."""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds `audit list` and `audit export`; `run` does them."""
    audit = subparsers.add_parser("audit", help="read the audit trail", description="Reads the audit trail; it is never changed.")
    verbs = audit.add_subparsers(dest="audit_verb", required=True)
    shown = verbs.add_parser("list", help="the latest rows, oldest first")
    exported = verbs.add_parser("export", help="all rows as JSON lines: {seq, row}, each row in its canonical form")
    for parser in (shown, exported):
        parser.add_argument("--incident", default="", metavar="ID", help="only rows of this incident (its workflow id)")
        parser.add_argument("--cluster", default="", metavar="NAME", help="only rows of this cluster")
    shown.add_argument("--limit", type=_count, default=LIST_ROWS, metavar="N", help=f"at most so many rows (default {LIST_ROWS})")
    shown.add_argument("--json", action="store_true", help="JSON lines, as export writes them")
    exported.add_argument("file", nargs="?", type=Path, metavar="FILE", help="written in one piece; standard output by default")


def run(args: argparse.Namespace, settings: Settings) -> int:
    """0, or 1 with a sentence on standard error when the trail cannot be read or the file cannot be written."""
    try:
        store = AuditStore(settings.audit_url())
        if args.audit_verb == "export":
            _export(store, args)
        else:
            _list(store, args)
        sys.stdout.flush()
    except BrokenPipeError:  # `| head` has seen enough; Python must not complain again at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except RerailError as error:
        print(f"audit: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        where = getattr(args, "file", None) or "the output"
        print(f"audit: {where} cannot be written ({error.strerror}): check the folder and its rights.", file=sys.stderr)
        return 1
    return 0


def _list(store: AuditStore, args: argparse.Namespace) -> None:
    after = store.before_last(args.limit, args.incident, args.cluster)
    if args.json:
        _write(sys.stdout, _lines(store, args, after))
        return
    _write(sys.stdout, (told(seq, row) for seq, row in store.rows(after, args.limit, args.incident, args.cluster)))


def _export(store: AuditStore, args: argparse.Namespace) -> None:
    if args.file is None:
        _write(sys.stdout, _lines(store, args, 0))
        return
    with tempfile.NamedTemporaryFile("w", dir=args.file.parent, prefix=".audit-", encoding="utf-8", delete=False) as stream:
        try:
            count = _write(stream, _lines(store, args, 0))
            stream.flush()
            os.fsync(stream.fileno())
            os.replace(stream.name, args.file)
        except BaseException:
            os.unlink(stream.name)
            raise
    print(f"{count} rows written to {args.file}", file=sys.stderr)


def _lines(store: AuditStore, args: argparse.Namespace, after: int) -> Iterator[str]:
    for seq, text in store.lines(after, ALL_ROWS, args.incident, args.cluster):
        yield f'{{"seq":{seq},"row":{text}}}'


def told(seq: int, row: AuditRow) -> str:
    """One row as one printable line."""
    about = "/".join(part for part in (row.cluster, row.job_id, str(row.attempt or "")) if part)
    line = f"{seq:>6}  {row.at:%Y-%m-%d %H:%M:%S}Z  {about:<24} {row.kind.value:<10} {row.actor:<12} {row.text[:WIDTH]}"
    return "".join(mark if mark.isprintable() else "\N{REPLACEMENT CHARACTER}" for mark in line).rstrip()


def _write(stream: IO[str], lines: Iterable[str]) -> int:
    count = 0
    for line in lines:
        stream.write(line + "\n")
        count += 1
    return count


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of rows; give 1 or more")
    return int(text)
