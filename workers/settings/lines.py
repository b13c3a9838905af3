"""A small YAML text as plain data, and the line on which each key and value stands. Nothing but data is ever built from it."""

from dataclasses import dataclass
from typing import Any

import yaml

from rerail.errors import Misconfigured

Place = tuple[str | int, ...]
"""The way to a value: keys of mappings and positions in lists."""


@dataclass(frozen=True)
class Document:
    """Data, and the lines (from 1) of every value and, under `keys`, of every key."""

    data: Any
    values: dict[Place, int]
    keys: dict[Place, int]

    def line(self, place: Place) -> int:
        """The line of the key that `place` leads to, else of the nearest thing around it."""
        while place and place not in self.keys and place not in self.values:
            place = place[:-1]
        return self.keys.get(place) or self.values.get(place, 1)


def parse(text: str, name: str) -> Document:
    """Reads `text`; Misconfigured, with `name` and line, for what is no plain YAML: tags, aliases, a key twice, keys not text."""
    try:
        return _document(text, name)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise Misconfigured(f"{name}, line {mark.line + 1 if mark else 1}: no valid YAML: {error.problem}.") from error
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1
        raise Misconfigured(f"{name}, line {line}: a control character; expected printable text.") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:  # nested without end; a date that is none
        raise Misconfigured(f"{name}: too deeply nested, or a value of no kind: {str(error)[:100]}.") from error


def _document(text: str, name: str) -> Document:
    loader = yaml.SafeLoader(text)
    walk = _Walk(name)
    try:
        node = loader.get_single_node()
        if node is None:
            return Document({}, {}, {})
        walk.see(node, ())
        return Document(loader.construct_document(node), walk.values, walk.keys)
    finally:
        loader.dispose()


class _Walk:
    """Notes lines and refuses what a settings file has no use for."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.values: dict[Place, int] = {}
        self.keys: dict[Place, int] = {}
        self._seen: set[int] = set()

    def see(self, node: yaml.Node, place: Place) -> None:
        if id(node) in self._seen:  # an alias may stand for billions of values
            self._refuse(node, "an alias (*name) is used", "the value itself")
        self._seen.add(id(node))
        self.values[place] = node.start_mark.line + 1
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                self.see(value, (*place, self._key(key, place)))
        elif isinstance(node, yaml.SequenceNode):
            for position, item in enumerate(node.value):
                self.see(item, (*place, position))

    def _key(self, key: yaml.Node, place: Place) -> str:
        if not isinstance(key, yaml.ScalarNode) or key.tag != "tag:yaml.org,2002:str":
            self._refuse(key, f"the key {str(key.value)[:60]!r} is not text", "text; put it in quotes")
        inner = (*place, str(key.value))
        if inner in self.keys:
            self._refuse(key, f"the key {str(key.value)[:60]!r} stands twice, first on line {self.keys[inner]}", "each key once")
        self.keys[inner] = key.start_mark.line + 1
        return str(key.value)

    def _refuse(self, node: yaml.Node, problem: str, expected: str) -> None:
        raise Misconfigured(f"{self.name}, line {node.start_mark.line + 1}: {problem}; expected {expected}.")
