"""Write frozen values as JSON text, and read them back by their types alone.

One codec serves every value that leaves the process: the specification of a program,
the graph of a model, a record, a request to a worker. A type is a dataclass of numbers,
texts, booleans, None, tuples, mappings with text keys, and other such dataclasses. A
text with a missing, unknown or wrongly typed part is an error; the codec never guesses.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache, cached_property
from json.encoder import encode_basestring_ascii as _quoted
from math import isfinite
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

DIALECT = "https://json-schema.org/draft/2020-12/schema"
"""The version of JSON Schema in which the project publishes schemas."""

_JSON_NAMES = {str: "string", int: "integer", float: "number", bool: "boolean"}
_JSON_NAMES |= {NoneType: "null"}

T = TypeVar("T")
Decoder = Callable[[Any], Any]


class KeepsJson:
    """The base of frozen values that keep their text: many others contain them."""

    @cached_property
    def json(self) -> str:
        """Return the value as JSON text in one line."""
        return _record_text(self, "")


def to_json(value: Any, indent: bool = False) -> str:
    """Return the value as text, the same for equal values: keys are sorted.

    Raises: TypeError if a part of the value has a type that the codec does not know.
    """
    return _text(value, "\n" if indent else "")


def from_json(kind: type[T], text: str | bytes) -> T:
    """Return the value of this type that `to_json` wrote.

    Raises: ValueError if the text is not JSON, or not a value of the type.
    """
    return from_plain(kind, json.loads(text))


def from_plain(kind: type[T], value: Any) -> T:
    """Return the value of this type that parsed JSON describes.

    Raises: ValueError if it describes none.
    """
    of: Any = kind
    made: T = _decoder(of)(value)
    return made


# Planning writes millions of values, so this replaces `json.dumps`, which calls Python
# code for each one and is slow where it indents.
def _text(value: Any, line: str) -> str:
    """Return a value as text; `line` starts a new line at its depth, "" for none."""
    kind: Any = type(value)
    if kind is str:
        return _quoted(value)
    if kind is int or (kind is float and isfinite(value)):
        return repr(value)
    if value is None:
        return "null"
    if kind is bool:
        return "true" if value else "false"
    below, colon = (f"{line} ", ": ") if line else ("", ":")
    if kind is tuple or kind is list:
        start, end, parts = "[", "]", [_text(item, below) for item in value]
    elif kind is dict:
        start, end = "{", "}"
        parts = [
            f"{_quoted(name)}{colon}{_text(item, below)}"
            for name, item in sorted(value.items())
        ]
    elif _sorted_fields(kind) is not None:
        keeps_text = isinstance(value, KeepsJson) and not line
        return value.json if keeps_text else _record_text(value, line)
    else:
        return json.dumps(value, default=_unknown)
    return _joined(start, parts, end, line)


def _record_text(value: Any, line: str) -> str:
    """Return a dataclass as text."""
    below, colon = (f"{line} ", ": ") if line else ("", ":")
    kind: Any = type(value)
    names = _sorted_fields(kind) or ()
    parts = [f"{key}{colon}{_text(getattr(value, name), below)}" for key, name in names]
    return _joined("{", parts, "}", line)


def _joined(start: str, parts: list[str], end: str, line: str) -> str:
    if not parts:
        return start + end
    below = f"{line} " if line else ""
    return f"{start}{below}{f',{below}'.join(parts)}{line}{end}"


@cache
def _sorted_fields(kind: Any) -> tuple[tuple[str, str], ...] | None:
    """Return the fields of a dataclass, each as JSON and as it is; None of others."""
    if not is_dataclass(kind):
        return None
    names = sorted(field.name for field in fields(kind))
    return tuple((_quoted(name), name) for name in names)


def _unknown(value: Any) -> Any:
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


@cache
def _decoder(kind: Any) -> Decoder:
    """Return the function that makes a value of the type; made once for each type."""
    if kind is Any:
        return lambda value: value
    if is_dataclass(kind) and isinstance(kind, type):
        return _record(kind)
    origin, of = get_origin(kind), get_args(kind)
    if origin is tuple:
        return _sequence(_decoder(of[0])) if of[-1] is ... else _row(of)
    if origin in (Union, UnionType):
        return _union(of)
    if origin in (dict, Mapping):
        return _mapping(_decoder(of[1]))
    if origin is Literal:
        return _literal(of)
    if kind in (str, int, float, bool, NoneType):
        return _scalar(kind)
    raise TypeError(f"no value of type {kind} can be read from JSON")


def _record(kind: type) -> Decoder:
    hints = get_type_hints(kind)
    declared = [field for field in fields(kind) if field.init]
    parts = [(field.name, _decoder(hints[field.name])) for field in declared]
    names = {name for name, _ in parts}
    optional = {
        field.name
        for field in declared
        if field.default is not MISSING or field.default_factory is not MISSING
    }

    def make(value: Any) -> Any:
        if not isinstance(value, dict) or value.keys() != names:
            if not isinstance(value, dict):
                raise _wrong(kind.__name__, value)
            missing, unknown = names - value.keys(), value.keys() - names
            if unknown or missing - optional:
                raise ValueError(
                    f"expected the fields of {kind.__name__};"
                    f" missing {sorted(missing)}, unknown {sorted(unknown)}"
                )
        given = ((name, read) for name, read in parts if name in value)
        return kind(**{name: read(value[name]) for name, read in given})

    return make


def _sequence(inner: Decoder) -> Decoder:
    def make(value: Any) -> Any:
        if not isinstance(value, list):
            raise _wrong("a list", value)
        return tuple(map(inner, value))

    return make


def _row(kinds: tuple[Any, ...]) -> Decoder:
    parts = [_decoder(kind) for kind in kinds]

    def make(value: Any) -> Any:
        if not isinstance(value, list) or len(value) != len(parts):
            raise _wrong(f"a list of {len(parts)}", value)
        return tuple(read(item) for read, item in zip(parts, value, strict=True))

    return make


def _union(kinds: tuple[Any, ...]) -> Decoder:
    """Return a decoder of scalars, and of at most one type that is none."""
    scalars = tuple(kind for kind in kinds if kind in (str, int, float, bool, NoneType))
    others = [_decoder(kind) for kind in kinds if kind not in scalars]
    if len(others) > 1:
        raise TypeError(f"JSON does not tell which of {kinds} a value is")

    def make(value: Any) -> Any:
        if type(value) in scalars:
            return value
        if float in scalars and type(value) is int:
            return float(value)
        if not others:
            raise _wrong(" or ".join(kind.__name__ for kind in scalars), value)
        return others[0](value)

    return make


def _mapping(inner: Decoder) -> Decoder:
    def make(value: Any) -> Any:
        if not isinstance(value, dict):
            raise _wrong("a mapping", value)
        return {name: inner(item) for name, item in value.items()}

    return make


def _scalar(kind: type) -> Decoder:
    def make(value: Any) -> Any:
        # A bool is an int to Python, and none to people.
        if type(value) is kind:
            return value
        if kind is float and type(value) is int:
            return float(value)
        raise _wrong(kind.__name__, value)

    return make


def _literal(values: tuple[Any, ...]) -> Decoder:
    def make(value: Any) -> Any:
        if value in values:
            return value
        raise _wrong(" or ".join(map(repr, values)), value)

    return make


def _wrong(expected: str, found: Any) -> ValueError:
    text = repr(found)
    return ValueError(f"expected {expected}, found {text[:60]}")


def schema_of(kind: Any) -> dict[str, Any]:
    """Return the JSON Schema of a type; further keys are allowed.

    The metadata "doc" of a field is its description.
    """
    if is_dataclass(kind):
        return _record_schema(kind)
    origin, of = get_origin(kind), get_args(kind)
    if origin is tuple:
        return {"type": "array", "items": schema_of(of[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema_of(of[1])}
    if origin in (Union, UnionType):
        return {"anyOf": [schema_of(item) for item in of]}
    return {} if kind is Any else {"type": _JSON_NAMES[kind]}


def _record_schema(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    properties = {
        item.name: schema_of(hints[item.name])
        | ({"description": item.metadata["doc"]} if item.metadata else {})
        for item in fields(kind)
    }
    return {
        "type": "object",
        "properties": properties,
        "required": [
            item.name
            for item in fields(kind)
            if item.default is MISSING and item.default_factory is MISSING
        ],
    }
