"""Read YAML nodes into frozen, typed values, and collect every mistake on the way.

A section of a file is a frozen dataclass. Its fields are the keys, each with the form
of its value and its meaning. The reader checks by this one table and builds the value
from it; `ingot.model.json_schema` prints the same table for editors. A section keeps
the `Place` it was read from, so that a rule about values can point at the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from ingot.errors import ManifestError, Position, counted, did_you_mean
from ingot.model.renamed import error_text, new_word
from ingot.model.yaml_nodes import N_ERRORS, Node, join, kind, load, raise_all
from ingot.model.yaml_scalars import Ambiguous


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """Where a section is in its file.

    A part of the section is named by its way from there: "weights.naming", "nodes[2]";
    "" is the section itself.
    """

    _node: Node
    _way: str = ""  # from the node to this place

    def part(self, way: str) -> Place:
        """Return the place of a part; errors look it up when there are any."""
        return Place(self._node, join(self._way, way))

    def error(self, part: str, message: str, hint: str = "") -> ManifestError:
        """Return an error at the value of a part."""
        return self._found(part).error(message, hint)

    def key_error(
        self, part: str, name: str, message: str, hint: str = ""
    ) -> ManifestError:
        """Return an error at a key of the mapping at a part."""
        return self._found(part).key_error(name, message, hint)

    def position(self, part: str = "") -> Position:
        """Return the position of a part's value."""
        return self._found(part).position

    def names(self, key: str) -> tuple[str, ...] | None:
        """Return the keys written under a key, also those of wrong values.

        "" is the section itself. None where there is no mapping.
        """
        node = self._node.get(key) if key else self._node
        return tuple(node.value) if node and isinstance(node.value, dict) else None

    def _found(self, part: str) -> Node:
        return _part(self._node, join(self._way, part) if part else self._way)


def _part(node: Node, part: str) -> Node:
    """Return the node at a part of another one."""
    if not part:
        return node
    if isinstance(node.value, tuple):
        index, _, rest = part.removeprefix("[").partition("]")
        return _part(node.items[int(index)], rest.removeprefix("."))
    # Names have dots in them too: of those that fit, the longest.
    fitting = [
        name
        for name in node.entries
        if part == name or part.startswith((f"{name}.", f"{name}["))
    ]
    name = max(fitting, key=len)
    return _part(node[name], part[len(name) :].removeprefix("."))


NOWHERE = Place(Node(Position("", 0, 0), "", None))
"""The place of a section that is in no file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """The base of all sections: a mapping whose keys are given, as a value."""

    at: Place = field(default=NOWHERE, compare=False, repr=False)


S = TypeVar("S", bound=Section)

# For a key that has neither a default nor an empty value.
_NOTHING: Any = object()


def key(form: Form, doc: str, *, empty: Any = _NOTHING) -> Any:
    """Return a field of a section: the form of the key's value, and its meaning.

    The key is required. Where its value is wrong, the section has the empty one, if
    there is one, so that the rest can be checked.
    """
    return _field(Key("", form, doc, False, empty))


def optional(form: Form, doc: str, *, default: Any = _NOTHING) -> Any:
    """Return a field for a key that may be left out.

    Its value then is the default: a text, list or mapping is empty, if none is given.
    """
    empty = {Boolean: False, Choice: "", ListOf: (), MapOf: {}, Text: ""}
    value = empty[type(form)] if default is _NOTHING else default
    return _field(Key("", form, doc, True, value))


def _field(about: Key) -> Any:
    if about.empty is _NOTHING:
        return field(metadata={"key": about})
    if isinstance(about.empty, dict):
        return field(default_factory=dict, metadata={"key": about})
    return field(default=about.empty, metadata={"key": about})


@dataclass(frozen=True, slots=True)
class Text:
    """A text that is not empty."""

    what: str = "text"  # in the user's words: "a sha256 of 64 lower-case hex digits"
    # Of the whole text, in the syntax that Python and JSON Schema share.
    pattern: str = ""
    has_lines: bool = False  # it may have several lines


@dataclass(frozen=True, slots=True)
class Integer:
    """An integer."""

    min: int | None = None
    max: int | None = None


@dataclass(frozen=True, slots=True)
class Number:
    """An integer or a float, read as a float."""

    keeps_integers: bool = False  # read as it is written: 10000 stays an integer


@dataclass(frozen=True, slots=True)
class Boolean:
    """`true` or `false`."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few words."""

    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ListOf:
    """A sequence whose items have one form."""

    of: Form
    min: int = 0  # items


@dataclass(frozen=True, slots=True)
class MapOf:
    """A mapping whose keys are the user's own names."""

    of: Form
    name: Text | Choice = Text()  # what a key must be
    min: int = 0  # entries


@dataclass(frozen=True, slots=True)
class Tagged:
    """A section whose other keys depend on the word under one of them: `kind: file`.

    The section has the word in a field of that name.
    """

    tag: str
    doc: str
    variants: tuple[tuple[str, type[Section]], ...]


@dataclass(frozen=True, slots=True)
class Either:
    """One of several forms, no two of which share a YAML type."""

    forms: tuple[Form, ...]


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a section, with its meaning in one sentence."""

    name: str
    form: Form
    doc: str
    optional: bool = False
    empty: Any = _NOTHING  # what the section has instead of a wrong value


@dataclass(frozen=True, slots=True)
class Record:
    """A mapping whose keys are given."""

    keys: tuple[Key, ...]


Form = (
    Text
    | Integer
    | Number
    | Boolean
    | Choice
    | ListOf
    | MapOf
    | Tagged
    | Either
    | Record
    | type[Section]
)


_keys: dict[type, tuple[Key, ...]] = {}


def keys_of(section: type[Section]) -> tuple[Key, ...]:
    """Return the keys of a section, in the order of its fields."""
    if section not in _keys:
        _keys[section] = tuple(
            replace(item.metadata["key"], name=item.name)
            for item in fields(section)
            if "key" in item.metadata
        )
    return _keys[section]


def read(path: Path, root: Path, section: type[S]) -> S:
    """Return the section that a YAML file holds.

    Raises:
        ExceptionGroup: of ManifestError, every mistake of form.
    """
    found, errors = build(load(path, root), section)
    raise_all(errors)
    assert found is not None
    return found


def build(node: Node, section: type[S]) -> tuple[S | None, list[ManifestError]]:
    """Return the section that a node holds, and every mistake of form in it.

    The section lacks its wrong parts: entries of mappings, and keys that have a default
    or an empty value. It is None where another part is wrong.
    """
    builder = _Builder()
    found = builder.value(node, section)
    return (None if found is _WRONG else found), builder.errors


def check(node: Node, form: Form) -> list[ManifestError]:
    """Return every mistake of form at or below a node."""
    builder = _Builder()
    builder.value(node, form)
    return builder.errors


def describe(form: Form) -> str:
    """Describe a form in a message: `an integer of at least 1`."""
    match form:
        case Text(what):
            return what
        case Integer(None, None):
            return "an integer"
        case Integer(least, None):
            return f"an integer of at least {least}"
        case Integer(least, most):
            return f"an integer from {least} to {most}"
        case Number():
            return "a number"
        case Boolean():
            return "true or false"
        case Choice(words):
            return "one of " + ", ".join(words) if len(words) > 1 else words[0]
        case ListOf():
            return "a sequence"
        case Either(forms):
            return " or ".join(describe(item) for item in forms)
        case _:
            return "a mapping"


_PYTHON_TYPES: dict[type, type | tuple[type, ...]] = {
    Text: str,
    Integer: int,
    Number: (int, float),
    Boolean: bool,
    Choice: str,
    ListOf: tuple,
}

# The value of a node that has a mistake in it.
_WRONG: Any = object()


class _Builder:
    """Build values from nodes, and collect the mistakes in them."""

    def __init__(self) -> None:
        self.errors: list[ManifestError] = []

    def value(self, node: Node, form: Form) -> Any:
        """Return the value of a node; `_WRONG` where a mistake is in it."""
        if not _has_type(node, form):
            return self._wrong(_wrong_type(node, form))
        match form:
            case ListOf() if len(node.items) < form.min:
                least = counted(form.min, "item")
                message = f"expected at least {least}, found {len(node.items)}"
                return self._wrong(node.error(message))
            case ListOf(of):
                items = tuple(self.value(item, of) for item in node.items)
                wrong = any(item is _WRONG for item in items)
                return _WRONG if wrong else items
            case MapOf():
                return self._mapping(node, form)
            case Tagged():
                return self._tagged(node, form)
            case Either(forms):
                fitting = next(item for item in forms if _has_type(node, item))
                return self.value(node, fitting)
            case Record(keys):
                return self._section(node, dict, keys)
            case type():
                return self._section(node, form, keys_of(form))
            case _:
                return self._scalar(node, form)

    def _scalar(self, node: Node, form: Form) -> Any:
        value: Any = node.value
        if isinstance(form, Text | Choice):
            error = _text_error(node, form)
            return self._wrong(error) if error else value
        if isinstance(form, Integer):
            below = form.min is not None and value < form.min
            if below or (form.max is not None and value > form.max):
                message = f"expected {describe(form)}, found {value}"
                return self._wrong(node.error(message))
        elif isinstance(form, Number) and not form.keeps_integers:
            return float(value)
        return value

    def _wrong(self, error: ManifestError) -> Any:
        self.errors.append(error)
        return _WRONG

    def _mapping(self, node: Node, form: MapOf) -> Any:
        """Return the entries of a mapping that are right."""
        found = {}
        for name, entry in node.entries.items():
            # A key is a text at its own position.
            at_key = Node(entry.named or entry.position, entry.key, name)
            error = _text_error(at_key, form.name)
            self.errors += [error] if error else []
            value = self.value(entry, form.of)
            if error is None and value is not _WRONG:
                found[name] = value
        if len(node.entries) < form.min:
            least = counted(form.min, "entry", "entries")
            message = f"expected at least {least}, found {len(node.entries)}"
            return self._wrong(node.error(message))
        return found

    def _tagged(self, node: Node, form: Tagged) -> Any:
        variants = dict(form.variants)
        words = Choice(tuple(variants))
        tag = Key(form.tag, words, form.doc)
        entry = node.get(form.tag)
        if entry is None:
            return self._wrong(_key_errors(node, (tag,))[-1])
        word = self.value(entry, words)
        if word is _WRONG:
            # Which other keys there are depends on the tag.
            return _WRONG
        section = variants[word]
        return self._section(node, section, (tag, *keys_of(section)))

    def _section(self, node: Node, make: Any, keys: tuple[Key, ...]) -> Any:
        """Return the section without its wrong parts, if it can do without them."""
        errors = _key_errors(node, keys)
        self.errors += errors
        is_right = not errors
        values = {}
        for item in keys:
            entry = node.get(item.name)
            if entry is not None:
                value = self.value(entry, item.form)
                if value is _WRONG:
                    is_right = False
                else:
                    values[item.name] = value
        if not is_right and any(item.empty is _NOTHING for item in keys):
            return _WRONG
        if make is not dict:
            values["at"] = Place(node)
        return make(**values)


def _has_type(node: Node, form: Form) -> bool:
    if isinstance(form, Either):
        return any(_has_type(node, item) for item in form.forms)
    # `bool` is an `int` to Python, and no number to a manifest.
    if isinstance(node.value, bool):
        return isinstance(form, Boolean)
    return isinstance(node.value, _PYTHON_TYPES.get(type(form), dict))


def _wrong_type(node: Node, form: Form) -> ManifestError:
    hint = ""
    if isinstance(node.value, Ambiguous):
        hint = node.value.hint
    elif isinstance(form, Text) and isinstance(node.value, int | float):
        hint = 'write it in quotes: "..."'
    return node.error(f"expected {describe(form)}, found {kind(node)}", hint)


def _text_error(node: Node, form: Text | Choice) -> ManifestError | None:
    """Return what is wrong with a text."""
    text = node.text
    if isinstance(form, Choice):
        if text in form.words:
            return None
        message, hint = error_text(node.key, text)
        if message:
            return node.error(message, hint)
        hint = did_you_mean(text, form.words, "words")
        # The message has all words already.
        near = hint if hint.startswith("did") else ""
        return node.error(f"expected {describe(form)}, found '{text}'", near)
    if not text:
        return node.error(f"expected {form.what}, found an empty text")
    if isinstance(form, Text) and form.has_lines:
        text = text.replace("\n", "").replace("\t", "")
    if not text.isprintable():
        return node.error(f"expected {form.what}, found {text!r}")
    if form.pattern and not re.fullmatch(form.pattern, text):
        return node.error(f"expected {form.what}, found '{text}'")
    return None


def _key_errors(node: Node, keys: tuple[Key, ...]) -> list[ManifestError]:
    """Return which keys of a section are unknown, and which are missing."""
    known = [key.name for key in keys]
    errors: list[ManifestError] = []
    guessed = ""
    for name, value in node.entries.items():
        if name not in known:
            message, hint = error_text(node.key, name, value)
            if not message:
                missing = [word for word in known if word not in node.entries]
                message, hint = "unknown key", ""
                # A suggestion takes half a millisecond.
                if len(errors) < N_ERRORS:
                    hint = did_you_mean(name, missing, "keys")
                    guessed += hint
                    if not missing or hint.startswith("known"):
                        hint = did_you_mean(name, known, "keys")
            errors.append(node.key_error(name, message, hint))
    given = {new_word(node.key, name) or name for name in node.entries}
    for item in keys:
        # The error of an unknown key says which one it may be meant for.
        meant = f"did you mean '{item.name}'?" in guessed
        if not item.optional and item.name not in given and not meant:
            message = f"missing key '{item.name}'"
            errors.append(node.error(message, f"{item.name}: {item.doc}"))
    return errors
