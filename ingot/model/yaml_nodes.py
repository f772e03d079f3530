"""Read YAML into nodes that have exact types and know their positions.

One file is one mapping. The reader rejects anchors, aliases and tags, so that each
value of a manifest is written where it is used. `ingot.model.schema_types` then checks
keys and types.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from ingot.errors import ManifestError, Position, counted
from ingot.model.library import name_of
from ingot.model.text_files import behind, read_text
from ingot.model.yaml_scalars import Ambiguous, scalar

# The base loader leaves all types to `scalar`; its version in C may be missing.
_LOADER: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)

# No manifest is nested deeper; the limit is far below Python's recursion limit.
_MAX_DEPTH = 32

_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ufffe\uffff]")


Value = str | int | float | bool | Ambiguous | tuple["Node", ...] | dict[str, "Node"]


@dataclass(frozen=True, slots=True)
class Node:
    """A position in a YAML file and the value there; `None` where there is none.

    The typed properties are for nodes that `schema_types` has accepted.
    """

    position: Position
    key: str  # the path from the top: "blocks.layer.nodes[2].uses"
    value: Value | None
    named: Position | None = None  # in a mapping, the position of its key

    def error(self, message: str, hint: str = "") -> ManifestError:
        """Return an error at this node."""
        return ManifestError(self.position, self.key, message, hint)

    def key_error(self, name: str, message: str, hint: str = "") -> ManifestError:
        """Return an error at one of this mapping's keys."""
        node = self[name]
        return ManifestError(node.named or node.position, node.key, message, hint)

    @property
    def text(self) -> str:
        """Return the text of a text node."""
        assert isinstance(self.value, str), self
        return self.value

    @property
    def items(self) -> tuple[Node, ...]:
        """Return the nodes of a sequence."""
        assert isinstance(self.value, tuple), self
        return self.value

    @property
    def entries(self) -> dict[str, Node]:
        """Return the nodes of a mapping by key, in the order of the file."""
        assert isinstance(self.value, dict), self
        return self.value

    def __getitem__(self, key: str) -> Node:
        """Return the node under a required key of a mapping."""
        return self.entries[key]

    def get(self, key: str) -> Node | None:
        """Return the node under an optional key of a mapping."""
        return self.entries.get(key)


def kind(node: Node) -> str:
    """Describe the value of a node in a message: `text 'rope'`, `a mapping`."""
    match node.value:
        case None:
            return "nothing"
        case bool():
            return f"boolean {str(node.value).lower()}"
        case int():
            return f"integer {node.value}"
        case float():
            return f"number {node.value}"
        case str():
            return f"text '{node.value}'"
        case Ambiguous():
            return f"'{node.value.text}'"
        case tuple():
            return "a sequence"
        case _:
            return "a mapping"


def join(key: str, name: str) -> str:
    """Return the key path of an entry of a mapping."""
    return f"{key}.{name}" if key else name


# Nobody reads more errors at once.
N_ERRORS = 100


def raise_all(errors: list[ManifestError]) -> None:
    """Raise the errors as one group, in the order of the files, if there are any.

    Raises:
        ExceptionGroup: of ManifestError.
    """
    if errors:
        ordered = sorted(errors, key=lambda e: astuple(e.position))
        left = len(ordered) - N_ERRORS
        if left > 0:
            place, more = ordered[N_ERRORS].position, counted(left, "more error")
            ordered[N_ERRORS:] = [ManifestError(place, "", f"{more} from here on")]
        count = counted(len(ordered), "error")
        raise ExceptionGroup(f"{ordered[0].position.path}: {count}", ordered)


def format_errors(group: ExceptionGroup[Any]) -> str:
    """Return the text of all errors of a group, each with its hint."""
    return "\n".join(str(error) for error in group.exceptions)


@contextmanager
def collected(errors: list[ManifestError]) -> Iterator[None]:
    """Add the errors that are raised in the block to the list, and go on."""
    try:
        yield
    except ManifestError as error:
        errors.append(error)
    except ExceptionGroup as group:
        errors += [e for e in group.exceptions if isinstance(e, ManifestError)]


def load(path: Path, root: Path) -> Node:
    """Return the top mapping of a YAML file; positions have its path from the root.

    Raises:
        ExceptionGroup: of ManifestError.
    """
    shown = name_of(path, root)
    try:
        text = read_text(path, shown)
    except ManifestError as error:
        raise_all([error])
    return parse(text, shown)


# By text: models share architectures, and a changed file is another key.
@cache
def parse(text: str, path: str) -> Node:
    """Return the top mapping of YAML text; `path` is the one in positions.

    Raises:
        ExceptionGroup: of ManifestError, as `load`.
    """
    if control := _CONTROL.search(text):
        place = behind(path, text[: control.start()])
        message = f"control character U+{ord(control.group()):04X} is not allowed"
        raise_all([ManifestError(place, "", message)])
    composer = _Composer(path, text)
    errors = composer.errors
    try:
        top = composer.document()
    except yaml.YAMLError as error:
        errors.append(_syntax_error(error, path, text))
        raise_all(errors)
    if top.value is None and not errors:
        errors.append(top.error("the file is empty; expected a mapping"))
    elif not isinstance(top.value, dict):
        errors.append(top.error(f"expected a mapping, found {kind(top)}"))
    raise_all(errors)
    return top


class _Composer:
    """Compose the nodes of one document from the parser's events; collect errors."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.errors: list[ManifestError] = []
        self.events: Iterator[Any] = yaml.parse(text, Loader=_LOADER)

    def document(self) -> Node:
        """Return the top node of the document, which is the only one."""
        next(self.events)  # the stream's start
        event = next(self.events)
        if isinstance(event, yaml.StreamEndEvent):
            return Node(Position(self.path, 1, 1), "", None)
        top = self.node(next(self.events), "", 0)
        next(self.events)  # the document's end
        event = next(self.events)
        if not isinstance(event, yaml.StreamEndEvent):
            self.error(
                event, "", "a second document starts here; expected one per file"
            )
        return top

    def node(
        self, event: Any, key: str, depth: int, named: Position | None = None
    ) -> Node:
        """Return the node that the event starts, and everything below it."""
        if depth > _MAX_DEPTH:
            self.error(event, key, f"nested deeper than {_MAX_DEPTH} levels")
            raise_all(self.errors)
        if isinstance(event, yaml.AliasEvent):
            self.error(
                event,
                key,
                f"alias '*{event.anchor}' is not allowed",
                "write the value out",
            )
            return Node(self.place(event), key, None, named)
        if event.anchor is not None:
            self.error(
                event,
                key,
                f"anchor '&{event.anchor}' is not allowed",
                "write the value out",
            )
        if event.tag is not None:
            hint = "remove it; the type follows from the value"
            self.error(event, key, f"tag '{event.tag}' is not allowed", hint)
        if isinstance(event, yaml.ScalarEvent):
            plain = event.style in ("", None)
            value: Value | None = scalar(event.value) if plain else event.value
        elif isinstance(event, yaml.SequenceStartEvent):
            value = self.sequence(key, depth)
        else:
            value = self.mapping(key, depth)
        return Node(self.place(event), key, value, named)

    def sequence(self, key: str, depth: int) -> tuple[Node, ...]:
        """Return the items of the sequence that has started."""
        items: list[Node] = []
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            items.append(self.node(event, f"{key}[{len(items)}]", depth + 1))
        return tuple(items)

    def mapping(self, key: str, depth: int) -> dict[str, Node]:
        """Return the entries of the mapping that has started; report repeated keys."""
        entries: dict[str, Node] = {}
        first: dict[str, Position] = {}
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            place = self.place(event)
            name = self.name(event, key, depth)
            value = self.node(next(self.events), join(key, name), depth + 1, place)
            if name in entries:
                message = f"repeated key; the first is at line {first[name].line}"
                self.errors.append(ManifestError(place, value.key, message))
            else:
                entries[name], first[name] = value, place
        return entries

    def name(self, event: Any, key: str, depth: int) -> str:
        """Return the text of a mapping's key."""
        node = self.node(event, key, depth + 1)
        if isinstance(node.value, str):
            return node.value
        if not isinstance(event, yaml.AliasEvent):
            hint = node.value.hint if isinstance(node.value, Ambiguous) else ""
            message = f"a key must be text, found {kind(node)}"
            self.errors.append(node.error(message, hint))
        return str(getattr(event, "value", "?"))

    def place(self, event: Any) -> Position:
        """Return where the event starts."""
        mark = event.start_mark
        return Position(self.path, mark.line + 1, mark.column + 1)

    def error(self, event: Any, key: str, message: str, hint: str = "") -> None:
        """Add an error at the event."""
        self.errors.append(ManifestError(self.place(event), key, message, hint))


def _syntax_error(error: yaml.YAMLError, path: str, text: str) -> ManifestError:
    """Return the parser's error as a ManifestError."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    line, column = (mark.line, mark.column) if mark else (0, 0)
    lines = text.splitlines()
    source = lines[line] if line < len(lines) else ""
    indent = source[: len(source) - len(source.lstrip())]
    if "\t" in indent:
        place = Position(path, line + 1, indent.index("\t") + 1)
        return ManifestError(place, "", "tab in the indentation", "indent with spaces")
    problem = getattr(error, "problem", None) or "not YAML"
    context = getattr(error, "context", None)
    start = getattr(error, "context_mark", None)
    message = f"{problem}, {context}" if context else problem
    if context and start and start.line != line:
        message += f" that starts at line {start.line + 1}"
    return ManifestError(Position(path, line + 1, column + 1), "", message)
