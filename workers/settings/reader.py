"""Finds and reads `rerail.yaml`. Every refusal is a sentence with file, line, the wrong key or value, and what was expected."""

import os
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from rerail.errors import Misconfigured
from workers.settings.lines import Document, Place, parse
from workers.settings.shape import Settings

DEFAULT_NAME = "rerail.yaml"
ENVIRONMENT_NAME = "RERAIL_SETTINGS"
MAX_BYTES = 262_144
"""A hundred clusters need 50 KB; what is larger is some other file."""


def find(path: Path | None = None, environ: Mapping[str, str] | None = None) -> Path:
    """The settings file: `path`, else RERAIL_SETTINGS, else ./rerail.yaml; Misconfigured when there is none of these."""
    environ = os.environ if environ is None else environ
    if path is not None:
        return _there(path, "--settings")
    if environ.get(ENVIRONMENT_NAME):
        return _there(Path(environ[ENVIRONMENT_NAME]), ENVIRONMENT_NAME)
    if Path(DEFAULT_NAME).is_file():
        return Path(DEFAULT_NAME).absolute()
    raise Misconfigured(
        f"no settings file: there is no {DEFAULT_NAME} in {Path.cwd()}; copy rerail.example.yaml to it, "
        f"give --settings FILE, or set {ENVIRONMENT_NAME}."
    )


def load(path: Path | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """Reads the settings; relative paths in them start from the file's folder. Misconfigured tells file, line and what is due."""
    file = find(path, environ)
    document = parse(_text(file), str(file))
    try:
        return Settings.model_validate(document.data, context={"folder": file.parent})
    except ValidationError as error:
        raise Misconfigured(_sentence(file, document, error.errors(include_url=False))) from error


def _there(path: Path, said_by: str) -> Path:
    if not path.is_file():
        raise Misconfigured(f"the settings file {path}, named by {said_by}, is not there or is no file.")
    return path.absolute()


def _text(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise Misconfigured(f"{file} cannot be read: {error.strerror}; check its owner and mode.") from error
    if len(raw) > MAX_BYTES:
        raise Misconfigured(f"{file} is larger than {MAX_BYTES:,} bytes; it is hardly a settings file.")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise Misconfigured(f"{file}, line {line}: not UTF-8; save the file as UTF-8.") from error


def _sentence(file: Path, document: Document, errors: list[ErrorDetails]) -> str:
    found = sorted((_told(document, error) for error in errors), key=lambda told: told[0])
    line, words = found[0]
    more = f" ({len(found) - 1} more after that.)" if len(found) > 1 else ""
    return f"{file}, line {line}: {words}.{more}"


def _told(document: Document, error: ErrorDetails) -> tuple[int, str]:
    place: Place = tuple(part for part in error["loc"] if part != "[key]")
    context: Mapping[str, Any] = error.get("ctx", {})
    where = _dotted(place) or "the file"
    match error["type"]:
        case "unknown_key":
            return document.line((*place, context["key"])), _unknown_key(where, context["key"], context["keys"])
        case "section":
            one = "one key of" if context.get("choice") else "a section with the keys"
            return document.line(place), f"{where} is {_value(error['input'])}; expected {one} {_list(context['keys'])}"
        case "missing":
            return document.line(place[:-1]), f"{_dotted(place[:-1]) or 'the file'} lacks the key {str(place[-1])!r}"
        case "rerail":
            place = (*place, context["key"]) if context["key"] else place
            return document.line(place), f"{_dotted(place)}: {error['msg']}"
    return document.line(
        place
    ), f"{where} is {_value(error['input'])}; expected {_expected(error['type'], context, error['msg'])}"


def _unknown_key(where: str, key: str, keys: list[str]) -> str:
    near = get_close_matches(key, keys, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return f"unknown key {key[:60]!r} in {where}{hint}; expected {_list(keys)}"


EXPECTED = {
    "enum": "{expected}",
    "float_type": "a number",
    "greater_than": "a number above {gt}",
    "less_than_equal": "a number of at most {le}",
    "finite_number": "a finite number",
    "string_type": "text",
    "string_pattern_mismatch": "text of the form {pattern}",
    "tuple_type": "a list",
    "dict_type": "names with a section each",
    "path_type": "a path",
    "too_short": "{min_length} or more entries",
    "too_long": "{max_length} entries at most",
}


def _expected(kind: str, context: Mapping[str, Any], message: str) -> str:
    return EXPECTED[kind].format(**context) if kind in EXPECTED else message


def _list(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _dotted(place: Place) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).lstrip(".")


def _value(value: object) -> str:
    if value is None:
        return "empty"
    if isinstance(value, (dict, list)):
        return "a mapping" if isinstance(value, dict) else "a list"
    return repr(value)[:80]
