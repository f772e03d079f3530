"""Frozen values are written as JSON text and read back by their types alone.

One codec serves every value that leaves the process: the specification of a program,
the graph of a model, a record, a request to a worker. A type is a dataclass of numbers,
texts, booleans, None, tuples, mappings with text keys, and other such dataclasses; what
a text lacks, has too much of, or has of another type is an error and never a guess.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
Decoder = Callable[[Any], Any]


def to_json(value: Any, indent: int | None = None) -> str:
    """Return the value as text, the same for equal values: keys are sorted."""
    separators = (",", ":") if indent is None else None
    return json.dumps(
        value, default=_fields, sort_keys=True, separators=separators, indent=indent
    )


def from_json(kind: type[T], text: str | bytes) -> T:
    """Return the value of this type that `to_json` wrote.

    Raises: ValueError where the text is no JSON, or stands for no value of the type.
    """
    return from_plain(kind, json.loads(text))


def from_plain(kind: type[T], value: Any) -> T:
    """Return the value of this type that parsed JSON stands for.

    Raises: ValueError where it stands for none.
    """
    of: Any = kind
    made: T = _decoder(of)(value)
    return made


def _fields(value: Any) -> dict[str, Any]:
    """Return a dataclass's fields, one level of them: `asdict` copies all levels."""
    if not is_dataclass(value) or isinstance(value, type):
        raise TypeError(f"{type(value).__name__} cannot be written as JSON")
    return {field.name: getattr(value, field.name) for field in fields(value)}


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
