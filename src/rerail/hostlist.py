"""Slurm's hostlists: `gpu-[001-003,007],login` and the names it stands for, bounded because the text may come from a stranger."""

import re

MOST_HOSTS = 65_536
"""Slurm's own MAX_HOSTLIST size: no real allocation is longer, and a stranger's `n[0-999999999]` must not fill the memory."""

LONGEST_TEXT = 1_000_000
"""Characters; 65,536 names of fifteen characters written one by one."""

_RANGE = re.compile(r"([0-9]{1,12})(?:-([0-9]{1,12}))?")
_NOTHING = ("", "(null)", "None", "N/A", "Unassigned", "None assigned", "null", "n/a")


def expand(text: str, most: int = MOST_HOSTS) -> tuple[str, ...]:
    """The names that a hostlist stands for, in its order, doubles kept out.

    Several brackets in a name multiply (`rack[1-2]n[1-4]`). ValueError, one sentence, when brackets don't match, a range is
    none, or there would be more than `most` names. Slurm's words for "no nodes" give an empty tuple.
    """
    text = text.strip()
    if text in _NOTHING:
        return ()
    if len(text) > LONGEST_TEXT:
        raise ValueError(f"hostlist of {len(text)} characters is longer than {LONGEST_TEXT}")
    names: dict[str, None] = {}
    for part in _parts(text):
        for name in _names(part, most - len(names)):
            names[name] = None
    return tuple(names)


def compress(names: tuple[str, ...] | list[str]) -> str:
    """The shortest plain hostlist of names, in order of first appearance of each prefix: gpu-[001-003,007],login."""
    groups: dict[tuple[str, int], list[int]] = {}
    for name in dict.fromkeys(names):
        prefix, digits = _split(name)
        groups.setdefault((prefix, len(digits)), []).append(int(digits or -1))
    return ",".join(_written(prefix, width, numbers) for (prefix, width), numbers in groups.items())


def _parts(text: str) -> list[str]:
    """Split at the commas outside of brackets."""
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text):
        depth += (char == "[") - (char == "]")
        if depth not in (0, 1):
            raise ValueError("hostlist has brackets that don't match")
        if char == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    if depth:
        raise ValueError("hostlist has brackets that don't match")
    return [part.strip() for part in [*parts, text[start:]] if part.strip()]


def _names(part: str, most: int) -> list[str]:
    """The names of one part: a prefix, then brackets and text in turn."""
    pieces = re.split(r"\[([^\]]*)\]", part)
    names = [pieces[0]]
    for at in range(1, len(pieces), 2):
        numbers = _numbers(pieces[at], most)
        if len(names) * len(numbers) > most:
            raise ValueError(f"hostlist stands for more than {most} names")
        names = [name + number + pieces[at + 1] for name in names for number in numbers]
    if len(names) > most:
        raise ValueError(f"hostlist stands for more than {most} names")
    return names


def _numbers(text: str, most: int) -> list[str]:
    """The numbers of one bracket, their zeros kept."""
    numbers: list[str] = []
    for piece in text.split(","):
        match = _RANGE.fullmatch(piece.strip())
        if not match:
            raise ValueError(f"hostlist has a range that is none: {piece[:40]!r}")
        first, last = match[1], match[2] or match[1]
        count = int(last) - int(first) + 1
        if count < 1 or count + len(numbers) > most:
            raise ValueError(f"hostlist range {piece[:40]!r} is backwards or stands for more than {most} names")
        numbers += [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
    return numbers


def _split(name: str) -> tuple[str, str]:
    match = re.fullmatch(r"(.*?)([0-9]{1,12})", name, re.DOTALL)
    return (match[1], match[2]) if match else (name, "")


def _written(prefix: str, width: int, numbers: list[int]) -> str:
    if width == 0:
        return prefix
    numbers = sorted(numbers)
    if len(numbers) == 1:
        return f"{prefix}{numbers[0]:0{width}d}"
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    spans = (f"{a:0{width}d}" if a == b else f"{a:0{width}d}-{b:0{width}d}" for a, b in runs)
    return f"{prefix}[{','.join(spans)}]"
