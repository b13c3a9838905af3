"""Diagnosis offline: a case folder or a bare log in, a verdict out. The same judgement as in a live incident."""

from pathlib import Path

from rerail import signatures
from rerail.attribution import attribute
from rerail.case import read_case
from rerail.records import Kind, Verdict
from rerail.signatures import Signature


def diagnose(path: Path | str, hint: Kind | None = None, extra: tuple[Signature, ...] = (), steps: str = "") -> Verdict:
    """The verdict on what a job left behind at `path`: a folder as docs/diagnosis.md describes, or one log file.

    `hint` is the kind of anomaly that somebody saw, where somebody did. A site's own: `extra` signatures
    (`rerail.signatures.load_site_rows`), and `steps`, a pattern of progress lines with a group named step.
    Raises Misconfigured when there is nothing to read, or the pattern is none.
    """
    return attribute(read_case(path, (*signatures.ALL, *extra), steps), hint)
