"""Progress that training loops print: steps, losses, step times, checkpoints, phases."""

import re
from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import Any, NamedTuple

import re2

from rerail.errors import Misconfigured
from rerail.readers import lines, prefixes
from rerail.records import Record


class Phase(StrEnum):
    """What a training job is doing."""

    STARTUP = "startup"
    COMPILE = "compile"
    STEP = "step"
    CHECKPOINT = "checkpoint"
    EVALUATION = "evaluation"
    SHUTDOWN = "shutdown"


class Mark(NamedTuple):
    """One line that tells of progress. `step` counts over epochs where the line tells how many steps an epoch has."""

    reader: str
    """Which row read it; lower rows of READERS are trusted less."""
    step: int | None
    epoch: float | None
    loss: float | None
    pace: float | None
    """Seconds a step, as the loop itself says."""
    rank: int | None
    at: datetime | None
    elapsed: float | None = None
    """Seconds since its bar or its epoch began, as a bar says."""
    work: float | None = None
    """Seconds of the rank's own computing in this step, where a loop prints that apart from waiting."""


class Reader(NamedTuple):
    """How one kind of loop writes a step. Groups: step, and where there are any epoch, total. RE2 syntax, over bytes."""

    name: str
    pattern: str
    example: str


_OF = r"(?:\s{0,9}/\s{0,9}(?P<total>\d{1,12}))?"
_BEFORE = r"(?:^|[^\w.-])"
_AFTER = r"(?:$|[^\d.]|\.(?:\D|$))"

READERS: tuple[Reader, ...] = (
    Reader(
        "global_step",
        r"(?i)(?:global[_ ]step|trainer/step)[\"']?\s{0,9}[=:]?\s{0,9}(?P<step>\d{1,12}(?:\.\d+e\+?\d+)?)",
        "global_step=420",
    ),
    Reader(
        "iteration",
        r"(?i)\biteration[\"']?\s{0,9}[=:#]?\s{0,9}\[?\s{0,9}(?P<step>\d{1,12})(?:\s{0,9}/\s{0,9}(?P<total>\d{1,12})|"
        + _AFTER
        + ")",
        "iteration 12/ 500 |",
    ),
    Reader(
        "step",
        r"(?i)"
        + _BEFORE
        + r"step[\"']?\s{0,3}[=:#\[(]{0,2}\s{0,9}(?P<step>\d{1,12})(?:\s{0,9}/\s{0,9}(?P<total>\d{1,12})|"
        + _AFTER
        + ")",
        "step=12 loss=2.1",
    ),
    Reader(
        "iter",
        r"(?i)"
        + _BEFORE
        + r"iter[\"']?\s{0,9}[=:#]?\s{0,9}\[?\s{0,9}(?P<step>\d{1,12})(?:\s{0,9}/\s{0,9}(?P<total>\d{1,12})|"
        + _AFTER
        + ")",
        "iter 12: loss 3.1",
    ),
    Reader(
        "epoch_of",
        r"(?i)\bepoch:?\s{0,9}\[?(?P<epoch>\d{1,9})\]?:?[ :]{0,4}(?:\d+%\|[^|]*\|)?\s{0,9}"
        r"\[?\s{0,9}(?P<step>\d{1,12})\s{0,9}/\s{0,9}(?P<total>\d{1,12})",
        "Epoch: [12]  [ 120/5004]",
    ),
    Reader(
        "batch",
        r"(?i)\bepoch:?\s{0,9}\[?(?P<epoch>\d{1,9})\]?[ ,:|]{1,3}batch:?\s{0,9}\[?(?P<step>\d{1,12})" + _OF,
        "epoch 0 batch 4 loss 2.3",
    ),
    Reader(
        "bar",
        r"(?:^|\btrain\w*:?)\s{0,9}\d{1,3}%\|[^|]*\|\s{0,9}(?P<step>\d{1,12})/(?P<total>\d{1,12})\s{0,9}\[",
        " 20%|##  | 12/60 [00:10<00:40]",
    ),
    Reader("fraction", r"[\"']epoch[\"']\s{0,9}:\s{0,9}(?P<epoch>\d{1,9}\.\d+)", "{'loss': 1.9, 'epoch': 0.14}"),
    Reader("epoch", r"(?i)\bepoch[\"']?:?\s{0,9}\[?(?P<epoch>\d{1,9})\b(?:$|[^.\d]|\.\D)", "Epoch 5/30"),
)
"""In order of trust: a count of the whole run before one of an epoch, a line of a log before a bar."""

_BYTES = re2.Options()
_BYTES.encoding = re2.Options.Encoding.LATIN1  # a log may hold any bytes


def _compiled(pattern: str) -> Any:
    return re2.compile(pattern.encode(), options=_BYTES)


def _quick(pattern: str) -> re.Pattern[bytes]:
    """For what a live tail asks of each line: Python's own engine answers in a fifth of the time. It goes back and tries again:
    blanks are bounded in such a pattern, as three free repetitions in a row took minutes for one line of blanks."""
    return re.compile(pattern.encode())


_RANKED = {"site": -1, **{reader.name: place for place, reader in enumerate(READERS)}}
_COMPILED: dict[str, re.Pattern[bytes]] = {reader.name: _quick(reader.pattern) for reader in READERS}
_WORTH_A_LOOK = _compiled(r"(?i)(?:step|iter(?:ation)?|epoch|batch)[\"']?[\s=:#\[(]*\d|\d%\|")

# Lines that name a step and are no progress of training.
_NOT_A_STEP = _compiled(
    r"(?i)\b(?:sav(?:ed?|ing)|load(?:ed|ing)?|resum\w+|restor\w+|writ(?:e|ing|ten)|wrote)\b.{0,200}\b(?:checkpoint|ckpt|state|snapshot|step|iteration)"
    r"|\bcheckpoint\w* (?:saved|written|at|to)\b|cancelled at|\berror:|error\b.{0,40}\bstep|exception|exceeded"
    r"|\b(?:valid(?:ation)?|eval(?:uation)?|test(?:ing)?)[ _:/-]{1,3}(?:step|iter|epoch|loss|dataloader)"
    r"|\b(?:validating|evaluating|sanity checking)\b"
    r"|\bskipping\b|\bstepid\b|download|shards|\bmap:|\bwarm-?up steps?\b|possible (?:transient|persistent)"
)
_LOSS = _compiled(
    r"(?i)(?:^|[^\w.])(?:(?:lm|train|training|reduced_train|step|average|avg|total|mean)[_ ])?loss[\"']?\s*[=:]?\s*\(?"
    r"([-+]?(?:\d[\d,_]*\.?\d*(?:e[-+]?\d+)?|nan|inf))"
)

_ELAPSED = _compiled(r"(?:\[|\belapsed )(?:(\d{1,4}):)?(\d{1,2}):(\d{2})(?:<|,|\s|$)")

_WORK = _quick(
    r"(?i)(?:^|[^\w])(?:compute|comp|forward[_-]backward|fwd[_-]bwd|local)(?:_time|_dur(?:ation)?)?(?:_?(s|sec|ms))?[\"']?\s{0,9}[=:]\s{0,9}([\d.]+)\s{0,9}(ms)?"
)

_SPEAKS_OF_WORK = _compiled(r"(?i)(?:comp|fo?r?wa?r?d[_-]b|local)\w{0,20}[\"']?\s{0,9}[=:]")
"""A line without it costs a microsecond; `_WORK` takes five to say no."""

_RANK = _quick(r"(?i)\[rank ?(\d{1,7})\]|^\s{0,9}(\d{1,6}): |\[\d+,(\d{1,7})\]<std|\brank[ =:]{1,2}(\d{1,7})\b")

_UNIT = r"(?:step|it|iter|iteration|batch)"
_PACES: tuple[tuple[Any, float, bool], ...] = tuple(
    # pattern, seconds per unit, True when the number is a rate to be turned round
    (_compiled(pattern), unit, is_rate)
    for pattern, unit, is_rate in (
        (r"elapsed time per iteration \(ms\):\s*([\d.]+)", 0.001, False),
        (
            r"(?:^|[^\w.])(?:step_s|step_time_s|step_time|iter_time|train_step_timing in s)[\"']?\s*[=: ]\s*"
            r"([\d.]+)(?:$|[^\d.m]|m[^s])",
            1.0,
            False,
        ),
        (
            r"(?:^|[^\w.])(?:step_ms|step_time_ms|step_time|iter_time|time_per_step)[\"']?\s*[=: ]\s*([\d.]+)\s?(?:ms)",
            0.001,
            False,
        ),
        (r"(?:^|[^\w.])([\d.]+)\s*(?:sec|s)/" + _UNIT + r"\b", 1.0, False),
        (r"(?:^|[^\w.])([\d.]+)\s*ms/" + _UNIT + r"\b", 0.001, False),
        (r"(?:^|[^\w.])([\d.]+)\s*" + _UNIT + r"(?:s|es)?/s(?:ec)?\b", 1.0, True),
        (r"(?:^|[^\w.])(?:time|dt)[=: ]+([\d.]+)\s*ms\b", 0.001, False),
        (r"(?:^|[^\w.])(?:time|seconds|dt)[=: ]+([\d.]+)(?:s|sec)?(?:$|[\s,;|])", 1.0, False),
    )
)

_PHASES: tuple[tuple[Phase, Any], ...] = tuple(
    (phase, _compiled(pattern))
    for phase, pattern in (
        (
            Phase.STEP,
            r"(?i)\bsaved (?:model |final |training )?(?:checkpoint|ckpt|state|snapshot)|checkpoint (?:saved|written)"
            r"|validation loss at",
        ),
        (
            Phase.CHECKPOINT,
            r"(?i)\b(?:sav|writ|flush|upload|consolidat)ing\b.{0,60}(?:checkpoint|ckpt|snapshot|optimizer state|model (?:state"
            r"|weights))",
        ),
        (
            Phase.EVALUATION,
            r"(?i)\*+ ?running (?:evaluation|validation|prediction)"
            r"|\b(?:start(?:ing)?|begin(?:ning)?|running) (?:evaluation|validation)\b"
            r"|\bevaluating\b|\bvalidating\b|\bvalidation dataloader \d+:",
        ),
        (
            Phase.COMPILE,
            r"(?i)\btorch\.compile|\bautotun(?:e|ing)\b|\bcompiling (?:model|graph|step|the )|\bcompilation (?:started|began)"
            r"|\bcapturing cuda graph"
            r"|\bjit[ -]compil|\bxla compil",
        ),
        (
            Phase.STARTUP,
            r"(?i)will restart worker group|\brendezvous'?ing worker group|\bload(?:ing|ed)\b.{0,80}checkpoint"
            r"|\bresum(?:ed|ing) from\b"
            r"|\binitializing (?:torch )?distributed",
        ),
        (
            Phase.SHUTDOWN,
            r"(?i)\btraining (?:completed?|finished|is done|done)\b|trainer\.fit. stopped|\bafter training is done"
            r"|\bfinished training\b",
        ),
    )
)
_SPEAKS_OF_A_PHASE = _compiled("|".join(f"(?:{pattern.pattern.decode()})" for _, pattern in _PHASES))

_AT = r"(?:step|iteration|iter|global_step)s?[_ =:#-]{0,3}"
_SAVED = _compiled(
    r"(?i)\b(?:saved|wrote|written)\b.{0,120}?(?:checkpoint|ckpt|snapshot|state).{0,120}?(?:"
    + _AT
    + r"(\d{1,12})|checkpoint[_-](\d{1,12}))"
    r"|\bcheckpoint (?:saved|written)\b.{0,120}?" + _AT + r"(\d{1,12})"
)
_RESUMED = _compiled(
    r"(?i)\b(?:resum(?:ed|ing)|restor(?:ed|ing)|load(?:ed|ing)|continu(?:ed|ing))\b.{0,200}?\b" + _AT + r"(?:at )?(\d{1,12})"
    r"|\b(?:resum|restor|load)\w*\b.{0,160}?(?:checkpoint|step|iter|global_step)[-_](\d{1,12})"
)
_SPEAKS_OF_A_CHECKPOINT = _compiled(r"(?i)checkpoint|ckpt|snapshot|resum|restor")

MOST_LOSSES = 4096
"""Losses kept by `summary`: the newest ones; more is a matter for an experiment tracker."""


class Story(Record):
    """What a piece of log tells of its progress, for reading back whether training moves again."""

    resumed_step: int | None = None
    highest_step: int | None = None
    checkpoints: tuple[int, ...] = ()
    """Steps of which a checkpoint was said to be saved; the last 64."""
    losses: dict[int, float] = {}
    """Loss by step, of the lowest rank that printed it; the newest MOST_LOSSES. NaN and infinity are kept."""


SITE = "site"
"""The name of a site's own reader: it is believed before all others."""

LONGEST_PATTERN = 300


@cache
def _of_site(pattern: str) -> Any:
    """A site's own pattern, in RE2's syntax so that no log can make it slow. Raises Misconfigured with a sentence."""
    try:
        made = _compiled(pattern) if len(pattern) <= LONGEST_PATTERN else None
    except re2.error as error:
        raise Misconfigured(f"progress pattern refused: {str(error)[:120]}") from error
    if made is None or b"step" not in {bytes(name) for name in made.groupindex}:
        raise Misconfigured(
            f"a progress pattern has a group named step, (?P<step>\\d+), and at most {LONGEST_PATTERN} characters"
        )
    return made


def check(site: str) -> None:
    """Refuse a site's pattern of progress lines that is none, with Misconfigured; an empty one is no pattern and fine."""
    if site:
        _of_site(site)


def mark(line: bytes, site: str = "") -> Mark | None:
    """What one line (without its newline) tells of progress; None for most lines. Of an overwritten bar, its last state.

    `site` is a site's own pattern with a group named step, and where there are any epoch and total.
    """
    said = lines.plain(line)
    own = _of_site(site).search(said) if site else None
    if own is not None:
        return _marked(SITE, own, said)
    if not _WORTH_A_LOOK.search(said) or _NOT_A_STEP.search(said):
        return None
    for name, pattern in _COMPILED.items():
        match = pattern.search(said)
        if match:
            return _marked(name, match, said)
    return None


def step_by(reader: str, said: bytes, site: str = "") -> int | None:
    """The step that this reader sees in a plain line; much faster than `mark`, and easier to fool: a hit is worth a `mark`."""
    match = (_of_site(site) if reader == SITE else _COMPILED[reader]).search(said)
    return _counted(match) if match else None


def worked(said: bytes) -> tuple[int, float] | None:
    """Rank and the rank's own computing time in seconds, of a plain line that tells both. Fast: a live tail asks each line."""
    seconds = work(said)
    rank = _RANK.search(said) if seconds is not None else None
    return (int(next(group for group in rank.groups() if group)), seconds) if rank and seconds is not None else None


def _marked(name: str, match: Any, said: bytes) -> Mark:
    front = prefixes.read(said.decode("utf-8", "replace"))
    rank = front.rank if front.rank is not None else front.task
    return Mark(name, _counted(match), _epoch(match), _loss(said), _pace(said), rank, front.at, _elapsed(said), work(said))


def _groups(match: Any) -> dict[str, bytes | None]:
    """Named groups; RE2 gives the names themselves as bytes."""
    return {str(name, "ascii") if isinstance(name, bytes) else name: said for name, said in match.groupdict().items()}


def _epoch(match: Any) -> float | None:
    said = _groups(match).get("epoch")
    return float(said) if said else None


def _counted(match: Any) -> int | None:
    """The step; over epochs where the line tells epoch and total of an epoch."""
    groups = _groups(match)
    said, total, epoch = groups.get("step"), groups.get("total"), groups.get("epoch")
    if said is None:
        return None
    step = int(float(said)) if b"." in said else int(said)
    return int(epoch) * int(total) + step if epoch and total else step


def _loss(said: bytes) -> float | None:
    match = _LOSS.search(said)
    return _number(match[1].replace(b",", b"").replace(b"_", b"")) if match else None


def _pace(said: bytes) -> float | None:
    for pattern, unit, is_rate in _PACES:
        match = pattern.search(said)
        value = _number(match[1]) if match else None
        if value is not None and value > 0:
            return unit / value if is_rate else unit * value
    return None


def work(said: bytes) -> float | None:
    """Seconds of the rank's own computing that a line tells."""
    match = _WORK.search(said) if _SPEAKS_OF_WORK.search(said) else None
    value = _number(match[2]) if match else None
    return value if match is None or value is None else value * (0.001 if b"ms" in (match[1], match[3]) else 1.0)


def _elapsed(said: bytes) -> float | None:
    match = _ELAPSED.search(said)
    return int(match[1] or 0) * 3600.0 + int(match[2]) * 60 + int(match[3]) if match else None


def _number(said: bytes) -> float | None:
    try:
        return float(said)
    except ValueError:
        return None


def trusted_more(reader: str, other: str) -> bool:
    """True when a step read by `reader` is to be believed before one read by `other`."""
    return _RANKED.get(reader, len(READERS)) < _RANKED.get(other, len(READERS))


def phase(line: bytes) -> Phase | None:
    """The phase that a line announces, if any."""
    said = lines.plain(line)
    if not _SPEAKS_OF_A_PHASE.search(said):
        return None
    return next((phase for phase, pattern in _PHASES if pattern.search(said)), None)


def saved_step(line: bytes) -> int | None:
    """The step of a checkpoint that a line says was saved."""
    return _first_number(_SAVED, line) if _SPEAKS_OF_A_CHECKPOINT.search(line) else None


def resumed_step(line: bytes) -> int | None:
    """The step that a line says training was resumed from."""
    return _first_number(_RESUMED, line) if _SPEAKS_OF_A_CHECKPOINT.search(line) else None


def _first_number(pattern: Any, line: bytes) -> int | None:
    match = pattern.search(lines.plain(line))
    return next((int(group) for group in match.groups() if group), None) if match else None


def each(data: bytes, site: str = "") -> Iterator[tuple[bytes, Mark | None]]:
    """All lines of a piece of log, each with what it tells of progress."""
    for line in data.split(b"\n"):
        yield line, mark(line, site)


def summary(data: bytes, site: str = "") -> Story:
    """What a piece of log tells: where training resumed, how far it came, what it saved, its losses. Bounded by MOST_LOSSES."""
    resumed, highest, reader = None, None, ""
    saved: dict[int, None] = {}
    losses: dict[int, tuple[int, float]] = {}
    for line, seen in each(data, site):
        if seen is None:
            checkpoint = saved_step(line)
            if checkpoint is not None:
                saved[checkpoint] = None
            elif resumed is None:
                resumed = resumed_step(line)
        elif seen.step is not None and not (reader and trusted_more(reader, seen.reader)):
            if seen.reader != reader:
                reader, highest = seen.reader, None
            highest = seen.step if highest is None else max(highest, seen.step)
            _keep_loss(losses, seen)
    kept = dict(sorted(losses.items())[-MOST_LOSSES:])
    return Story(
        resumed_step=resumed,
        highest_step=highest,
        checkpoints=tuple(list(saved)[-64:]),
        losses={step: loss for step, (_, loss) in kept.items()},
    )


def _keep_loss(losses: dict[int, tuple[int, float]], seen: Mark) -> None:
    """Keep the loss of the lowest rank for each step."""
    if seen.loss is None or seen.step is None:
        return
    rank = seen.rank or 0
    if seen.step not in losses or rank <= losses[seen.step][0]:
        losses[seen.step] = (rank, seen.loss)
    if len(losses) > 2 * MOST_LOSSES:
        for step in sorted(losses)[:MOST_LOSSES]:
            del losses[step]
