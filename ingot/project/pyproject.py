"""pyproject.toml in, what it says of the checkout out; a defect is an IngotError.

Python's reader keeps no places: those of keys are looked for in the text.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ingot.errors import IngotError, ManifestError, Position, did_you_mean
from ingot.model.text_files import read_text

FILE = "pyproject.toml"

# In `[tool.ingot]`: what is there where the file does not say it; None: it has to.
SETTINGS = {
    "default-model": None,
    "default-target": None,
    "store-limit": "none",
    "shared-cache": "",
    "shared-cache-mode": "read-write",
}

_OWN = ("tool", "ingot")
_TABLE = re.compile(r"\s*\[\s*([^][]+?)\s*\]")
_KEY = re.compile(r"""\s*([\w."'-]+)\s*=\s*""")
_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


@dataclass(frozen=True, slots=True)
class Project:
    """What a checkout's pyproject.toml says, as far as ingot reads it."""

    name: str
    pins: tuple[str, ...]  # the packages that it needs: "numpy==2.4.6"
    weights: tuple[str, ...]  # packages that bring weights, pinned alike
    settings: Mapping[str, str]  # by the names of SETTINGS, each there


def read_project(root: Path) -> Project:
    """Return what the checkout's pyproject.toml says.

    Raises: IngotError, every defect.
    """
    text = read_text(root / FILE, FILE)
    try:
        reader = _Reader(text, tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise _syntax_error(error, text) from None
    project = Project(
        name=reader.text(("project", "name"), ""),
        pins=reader.texts(("project", "dependencies")),
        weights=reader.texts((*_OWN, "bootstrap", "weights")),
        settings={
            name: reader.text((*_OWN, name), default)
            for name, default in SETTINGS.items()
        },
    )
    reader.refuse_unknown()
    if reader.errors:
        raise IngotError("\n".join(map(str, reader.errors)))
    return project


class _Reader:
    """The file's text, what it says, and the errors found so far."""

    def __init__(self, text: str, top: dict[str, Any]) -> None:
        self.errors: list[ManifestError] = []
        self._text = text
        self._top = top

    def text(self, key: tuple[str, ...], default: str | None) -> str:
        """Return the text under a key; without a default it has to be there."""
        value = self._value(key)
        if value is None and default is not None:
            return default
        if isinstance(value, str):
            return value
        self._error(key, f"expected a text, found {_kind(value)}", f'{key[-1]} = "..."')
        return ""

    def texts(self, key: tuple[str, ...]) -> tuple[str, ...]:
        """Return the texts under a key; none where it is not there."""
        value = self._value(key)
        if value is None:
            return ()
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return tuple(value)
        hint = f'{key[-1]} = ["...", "..."]'
        self._error(key, f"expected an array of texts, found {_kind(value)}", hint)
        return ()

    def refuse_unknown(self) -> None:
        """Keep an error for each setting that nothing reads."""
        known = [*SETTINGS, "bootstrap"]
        for name in self._value(_OWN) or ():
            if name not in known:
                hint = did_you_mean(name, known, "settings")
                self._error((*_OWN, name), "unknown key", hint)

    def _value(self, key: tuple[str, ...]) -> Any:
        """Return what is under a key; None for nothing, a wrong table is told once."""
        value: Any = self._top
        for depth, name in enumerate(key):
            if not isinstance(value, dict):
                above = key[:depth]
                if ".".join(above) not in [error.key for error in self.errors]:
                    self._error(above, f"expected a table, found {_kind(value)}")
                return None
            value = value.get(name)
            if value is None:
                return None
        return value

    def _error(self, key: tuple[str, ...], message: str, hint: str = "") -> None:
        place = _position(self._text, key)
        self.errors.append(ManifestError(place, ".".join(key), message, hint))


def _position(text: str, key: tuple[str, ...]) -> Position:
    """Return where a key stands, or the table that it is missing in."""
    table: tuple[str, ...] = ()
    found, best = Position(FILE, 1, 1), 0
    for number, line in enumerate(text.splitlines(), 1):
        if match := _TABLE.match(line):
            names = table = _names(match[1])
        elif match := _KEY.match(line):
            names = (*table, *_names(match[1]))
        else:
            continue
        if len(names) > best and names == key[: len(names)]:
            column = len(line) - len(line.lstrip()) + 1
            found, best = Position(FILE, number, column), len(names)
    return found


def _names(written: str) -> tuple[str, ...]:
    return tuple(name.strip(" \t\"'") for name in written.split("."))


def _kind(value: Any) -> str:
    """Return what stands there, in the user's words."""
    match value:
        case None:
            return "nothing"
        case dict():
            return "a table"
        case list():
            return "an array"
        case bool():
            return f"boolean {str(value).lower()}"
        case str():
            return f"text '{value}'"
        case _:
            return f"'{value}'"


def _syntax_error(error: tomllib.TOMLDecodeError, text: str) -> ManifestError:
    """Return the parser's complaint in the house's shape."""
    words = str(error)
    match = _PLACE.search(words)
    message = _PLACE.sub("", words)
    lines = text.splitlines() or [""]
    place = Position(FILE, len(lines), len(lines[-1]) + 1)
    if match and match[1]:
        place = Position(FILE, int(match[1]), int(match[2]))
    hint = "git diff pyproject.toml shows what was changed"
    return ManifestError(place, "", message[:1].lower() + message[1:], hint)
