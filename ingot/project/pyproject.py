"""Read the settings in a checkout's pyproject.toml as one frozen value.

Python's TOML reader reports no positions, so errors look for their keys in the text.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

from ingot.engine.signed_statements import TrustedKey
from ingot.errors import IngotError, ManifestError, Position, did_you_mean
from ingot.model.text_files import read_text

FILE = "pyproject.toml"

# The keys of `[tool.ingot]`.
SETTINGS = (
    "default-model",
    "default-target",
    "store-limit",
    "shared-cache",
    "shared-cache-mode",
    "trust",
    "keys",
    "overrides",
)

# Which results of other machines a build uses: those of all, or those signed with one
# of the keys in `[tool.ingot.keys]`.
TRUST = ("any", "signed")
KEY_SETTINGS = ("public-key", "expires", "signs", "revoked")

GIT_DIFF = "git diff pyproject.toml shows what was changed"

_OWN = ("tool", "ingot")
_TABLE = re.compile(r"\s*\[\s*([^][]+?)\s*\]")
_KEY = re.compile(r"""\s*([\w."'-]+)\s*=\s*""")
_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


@dataclass(frozen=True, slots=True)
class Project:
    """The parts of a checkout's pyproject.toml that ingot reads."""

    name: str
    pins: tuple[str, ...]  # the packages that it needs: "numpy==2.4.6"
    weights: tuple[str, ...]  # packages that contain weights, pinned in the same way
    default_model: str
    default_target: str
    store_limit: str  # "20GB", or "none"
    shared_cache: str  # its address; "" if there is none
    shared_cache_mode: str
    keys: tuple[TrustedKey, ...] | None  # whose results count; None if all results do
    overrides: tuple[str, ...] = ()  # files that it has in place of the library's


def read_project(root: Path) -> Project:
    """Return the settings in the checkout's pyproject.toml.

    Raises: IngotError with every error in the file.
    """
    text = read_text(root / FILE, FILE)
    try:
        reader = _Reader(text, tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise _syntax_error(error, text) from None
    except (RecursionError, ValueError) as error:
        # Tables in tables without end; a number of thousands of digits.
        message = "not TOML that can be read: nested too deeply"
        if isinstance(error, ValueError):
            message = "not TOML that can be read: a number has too many digits"
        raise ManifestError(Position(FILE, 1, 1), "", message, GIT_DIFF) from None
    project = Project(
        name=reader.text(("project", "name"), ""),
        pins=reader.texts(("project", "dependencies")),
        weights=reader.texts((*_OWN, "bootstrap", "weights")),
        default_model=reader.text((*_OWN, "default-model"), None),
        default_target=reader.text((*_OWN, "default-target"), None),
        store_limit=reader.text((*_OWN, "store-limit"), "none"),
        shared_cache=reader.text((*_OWN, "shared-cache"), ""),
        shared_cache_mode=reader.text((*_OWN, "shared-cache-mode"), ""),
        keys=reader.trusted_keys(),
        overrides=reader.texts((*_OWN, "overrides")),
    )
    reader.check_known()
    if reader.errors:
        raise IngotError("\n".join(map(str, reader.errors)))
    return project


class _Reader:
    """The values of one file, and the errors found so far."""

    def __init__(self, text: str, top: dict[str, Any]) -> None:
        self.errors: list[ManifestError] = []
        self._text = text
        self._top = top

    def text(self, key: tuple[str, ...], default: str | None) -> str:
        """Return the text under a key; a key without a default is required."""
        value = self._value(key)
        if value is None and default is not None:
            return default
        if isinstance(value, str):
            return value
        self._error(key, f"expected a text, found {_kind(value)}", f'{key[-1]} = "..."')
        return ""

    def texts(self, key: tuple[str, ...]) -> tuple[str, ...]:
        """Return the texts under a key; none if the key is missing."""
        value = self._value(key)
        if value is None:
            return ()
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return tuple(value)
        hint = f'{key[-1]} = ["...", "..."]'
        self._error(key, f"expected an array of texts, found {_kind(value)}", hint)
        return ()

    def trusted_keys(self) -> tuple[TrustedKey, ...] | None:
        """Return the keys whose signed results count; None if unsigned ones do too."""
        trust = self.text((*_OWN, "trust"), "any")
        if trust not in TRUST:
            expected = f"expected {' or '.join(TRUST)}, found '{trust}'"
            self._error((*_OWN, "trust"), expected)
        named = self._value((*_OWN, "keys")) or {}
        if not isinstance(named, dict):
            self._error((*_OWN, "keys"), f"expected a table, found {_kind(named)}")
            return None
        keys = tuple(self._trusted_key(name) for name in named)
        publics = [key.public for key in keys]
        for key in keys:
            if publics.count(key.public) > 1:
                where = (*_OWN, "keys", key.name, "public-key")
                self._error(where, "two keys are the same; expected one name for it")
        return keys if trust == "signed" else None

    def _trusted_key(self, name: str) -> TrustedKey:
        where = (*_OWN, "keys", name)
        self._check_names(where, KEY_SETTINGS, "settings of a key")
        expires = self._value((*where, "expires"))
        if not isinstance(expires, date) or isinstance(expires, datetime):
            self._error(
                (*where, "expires"),
                f"expected a date, found {_kind(expires)}",
                "expires = 2027-06-30",
            )
        return TrustedKey(
            name=name,
            public=self.text((*where, "public-key"), None),
            expires=str(expires),
            signs=self.texts((*where, "signs")) or ("*",),
            revoked=self.text((*where, "revoked"), ""),
        )

    def check_known(self) -> None:
        """Add an error for each setting that ingot does not know."""
        self._check_names(_OWN, (*SETTINGS, "bootstrap"), "settings")

    def _check_names(
        self, table: tuple[str, ...], known: tuple[str, ...], noun: str
    ) -> None:
        for name in self._value(table) or ():
            if name not in known:
                hint = did_you_mean(name, known, noun)
                self._error((*table, name), "unknown key", hint)

    def _value(self, key: tuple[str, ...]) -> Any:
        """Return the value under a key, or None; report a wrong table once."""
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
    """Return the position of a key, or of the table that lacks it."""
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
    """Return what kind of value this is, in the user's words."""
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
    """Return the parser's error in ingot's form."""
    words = str(error)
    match = _PLACE.search(words)
    message = _PLACE.sub("", words)
    lines = text.splitlines() or [""]
    place = Position(FILE, len(lines), len(lines[-1]) + 1)
    if match and match[1]:
        place = Position(FILE, int(match[1]), int(match[2]))
    return ManifestError(place, "", message[:1].lower() + message[1:], GIT_DIFF)
