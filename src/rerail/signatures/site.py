"""A site's own rows, from a YAML file: judged strictly, with the line of what is wrong."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from rerail.errors import Misconfigured
from rerail.signatures.catalogue import ALL
from rerail.signatures.engine import compiled
from rerail.signatures.signature import Signature

SIZE_CAP = 1 << 20
"""Bytes of a site's file; a thousand rows fit."""
PATTERN_CAP = 1000
"""Characters of a pattern; more is a mistake, or an attack on the automaton."""
KEYS = tuple(Signature.model_fields)
NEEDED = tuple(name for name, field in Signature.model_fields.items() if field.is_required())


def load_site_rows(path: Path, known: Sequence[Signature] = ALL) -> tuple[Signature, ...]:
    """The rows of a YAML list, one mapping a row with the keys of Signature. Raises Misconfigured with the line of a bad row.

    `known` are the rows that they join: an id stands for one row.
    """
    rows: list[Signature] = []
    ids = {row.id for row in known}
    for node in _nodes(path):
        row = _row(path, node)
        if row.id in ids:
            raise _refusal(path, node, f"id {row.id!r} exists already; choose another, such as site.{row.id.rsplit('.', 1)[-1]}")
        ids.add(row.id)
        rows.append(row)
    return tuple(rows)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(SIZE_CAP + 1)
        if len(data) > SIZE_CAP:
            raise Misconfigured(f"{path}: larger than {SIZE_CAP} bytes; split it or shorten it")
        return data.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise Misconfigured(f"{path}: cannot be read as UTF-8 text: {error}") from error


def _nodes(path: Path) -> list[yaml.Node]:
    try:
        root = yaml.compose(_text(path), Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError) as error:
        raise Misconfigured(f"{path}: not YAML: {' '.join(str(error).split())[:300]}") from error
    if root is None:
        return []
    if not isinstance(root, yaml.SequenceNode):
        raise _refusal(path, root, "expected a list of rows, each beginning with '- id: ...'")
    return list(root.value)


def _row(path: Path, node: yaml.Node) -> Signature:
    fields = _fields(path, node)
    try:
        row = Signature.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        raise _refusal(path, node, f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    if len(row.pattern) > PATTERN_CAP:
        raise _refusal(path, node, f"pattern longer than {PATTERN_CAP} characters")
    try:
        expression = compiled(row.pattern)
    except Misconfigured as error:
        raise _refusal(path, node, f"{error} (RE2 syntax: ASCII, no look-around, no back-reference)") from error
    if expression.search(b""):
        raise _refusal(path, node, "pattern matches an empty line, so it would hit every line")
    for line in row.spoken:
        if not expression.search(line.encode()):
            raise _refusal(path, node, f"pattern does not match its own example {line[:80]!r}")
    return row


def _fields(path: Path, node: yaml.Node) -> dict[str, Any]:
    if not isinstance(node, yaml.MappingNode):
        raise _refusal(path, node, "expected a mapping")
    loaded = _construct(path, node)
    strange = [str(key)[:40] for key in loaded if key not in KEYS]
    missing = [key for key in NEEDED if key not in loaded]
    if strange or missing:
        said = [f"unknown {', '.join(map(repr, strange[:5]))}"] if strange else []
        raise _refusal(path, node, "; ".join(said + ([f"missing {', '.join(missing)}"] if missing else [])))
    return loaded


def _construct(path: Path, node: yaml.MappingNode) -> dict[str, Any]:
    loader = yaml.SafeLoader("")
    try:
        made: dict[str, Any] = loader.construct_document(node)
        return made
    except (yaml.YAMLError, TypeError, ValueError, RecursionError) as error:
        raise _refusal(path, node, f"not plain values: {' '.join(str(error).split())[:200]}") from error
    finally:
        loader.dispose()


def _refusal(path: Path, node: yaml.Node, what: str) -> Misconfigured:
    optional = ", ".join(key for key in KEYS if key not in NEEDED)
    return Misconfigured(f"{path}:{node.start_mark.line + 1}: {what}. Keys of a row: {', '.join(NEEDED)}; optional: {optional}")
