"""A node and the form it should have in, every place where it differs out.

A form is a value, written once: the reader checks nodes against it, and
`ingot.model.json_schema` makes the JSON Schema for editors from it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ingot.errors import ManifestError, did_you_mean
from ingot.model.yaml_nodes import Node, join, kind, load, raise_all
from ingot.model.yaml_scalars import Ambiguous


@dataclass(frozen=True, slots=True)
class Text:
    """A text that is not empty."""

    what: str = "text"  # in the user's words: "a sha256 of 64 lower-case hex digits"
    pattern: str = (
        ""  # of the whole text, in the syntax that Python and JSON Schema share
    )


@dataclass(frozen=True, slots=True)
class Integer:
    """A whole number."""

    min: int | None = None


@dataclass(frozen=True, slots=True)
class Number:
    """An integer or a float."""


@dataclass(frozen=True, slots=True)
class Boolean:
    """`true` or `false`."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few words."""

    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sequence:
    """A sequence whose items have one form."""

    of: Form
    min: int = 0  # items


@dataclass(frozen=True, slots=True)
class Mapping:
    """A mapping whose keys are the user's own names."""

    of: Form
    name: Text | Choice = Text()  # what a key must be
    min: int = 0  # entries


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a record, with its meaning in one sentence."""

    name: str
    form: Form
    doc: str
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Record:
    """A mapping whose keys are given."""

    keys: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class Tagged:
    """A record whose other keys depend on the word under one of them: `kind: file`."""

    tag: str
    doc: str
    variants: tuple[tuple[str, Record], ...]


@dataclass(frozen=True, slots=True)
class Either:
    """One of several forms, no two of which share a YAML type."""

    forms: tuple[Form, ...]


Form = (
    Text
    | Integer
    | Number
    | Boolean
    | Choice
    | Sequence
    | Mapping
    | Record
    | Tagged
    | Either
)


def read(path: Path, root: Path, form: Form) -> Node:
    """Return the top node of a YAML file, which has the form in every part.

    Raises:
        ExceptionGroup: of ManifestError, every difference.
    """
    node = load(path, root)
    raise_all(check(node, form))
    return node


def check(node: Node, form: Form) -> list[ManifestError]:
    """Return every place at or below the node that differs from the form."""
    if not _has_type(node, form):
        return [_wrong_type(node, form)]
    match form:
        case Text():
            return _check_text(node, form)
        case Integer(min=least) if least is not None and node.integer < least:
            return [node.error(f"expected {describe(form)}, found {node.integer}")]
        case Choice(words) if node.text not in words:
            return [
                node.error(
                    f"expected {describe(form)}, found '{node.text}'",
                    _near(node.text, form),
                )
            ]
        case Sequence() if len(node.items) < form.min:
            message = f"expected at least {form.min} items, found {len(node.items)}"
            return [node.error(message)]
        case Sequence(of):
            return [error for item in node.items for error in check(item, of)]
        case Mapping():
            return _check_mapping(node, form)
        case Record(keys):
            return _check_record(node, keys)
        case Tagged():
            return _check_tagged(node, form)
        case Either(forms):
            return check(node, next(item for item in forms if _has_type(node, item)))
    return []


def describe(form: Form) -> str:
    """Return what the form wants, in the user's words: `an integer of at least 1`."""
    match form:
        case Text(what):
            return what
        case Integer(min=least):
            return "an integer" if least is None else f"an integer of at least {least}"
        case Number():
            return "a number"
        case Boolean():
            return "true or false"
        case Choice(words):
            return "one of " + ", ".join(words) if len(words) > 1 else words[0]
        case Sequence():
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
    Sequence: tuple,
    Mapping: dict,
    Record: dict,
    Tagged: dict,
}


def _has_type(node: Node, form: Form) -> bool:
    if isinstance(form, Either):
        return any(_has_type(node, item) for item in form.forms)
    # `bool` is an `int` to Python, and no number to a manifest.
    if isinstance(node.value, bool):
        return isinstance(form, Boolean)
    return isinstance(node.value, _PYTHON_TYPES[type(form)])


def _wrong_type(node: Node, form: Form) -> ManifestError:
    hint = ""
    if isinstance(node.value, Ambiguous):
        hint = node.value.hint
    elif isinstance(form, Text) and isinstance(node.value, int | float):
        hint = 'write it in quotes: "..."'
    return node.error(f"expected {describe(form)}, found {kind(node)}", hint)


def _check_text(node: Node, form: Text) -> list[ManifestError]:
    if not node.text:
        return [node.error(f"expected {form.what}, found an empty text")]
    if not node.text.isprintable():
        return [node.error(f"expected {form.what}, found {node.text!r}")]
    if form.pattern and not re.fullmatch(form.pattern, node.text):
        return [node.error(f"expected {form.what}, found '{node.text}'")]
    return []


def _check_mapping(node: Node, form: Mapping) -> list[ManifestError]:
    errors = []
    if len(node.entries) < form.min:
        message = f"expected at least {form.min} entries, found {len(node.entries)}"
        errors.append(node.error(message))
    for index, (name, entry) in enumerate(node.entries.items()):
        # A key is a text at its own place.
        key = Node(node.keys[index], join(node.key, name), name)
        errors.extend(check(key, form.name))
        errors.extend(check(entry, form.of))
    return errors


def _check_record(node: Node, keys: tuple[Key, ...]) -> list[ManifestError]:
    known = {key.name: key for key in keys}
    errors: list[ManifestError] = []
    guessed = ""
    for name, entry in node.entries.items():
        if name in known:
            errors.extend(check(entry, known[name].form))
        else:
            missing = [word for word in known if word not in node.entries]
            hint = did_you_mean(name, missing, "keys")
            guessed += hint
            if not missing or hint.startswith("known"):
                hint = did_you_mean(name, tuple(known), "keys")
            errors.append(node.key_error(name, "unknown key", hint))
    for key in keys:
        # What an unknown key was meant to be was said there.
        meant = f"did you mean '{key.name}'?" in guessed
        if not key.optional and key.name not in node.entries and not meant:
            message = f"missing key '{key.name}'"
            errors.append(node.error(message, f"{key.name}: {key.doc}"))
    return errors


def _near(word: str, form: Choice) -> str:
    """Return the nearest word as a hint; the message has all of them."""
    hint = did_you_mean(word, form.words, "words")
    return hint if hint.startswith("did") else ""


def _check_tagged(node: Node, form: Tagged) -> list[ManifestError]:
    variants = dict(form.variants)
    words = Choice(tuple(variants))
    tag = Key(form.tag, words, form.doc)
    word = node.get(form.tag)
    if word is None:
        return _check_record(node, (tag,))[-1:]
    # The other keys cannot be judged while the tag is wrong.
    return check(word, words) or _check_record(node, (tag, *variants[word.text].keys))
