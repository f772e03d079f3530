"""Read the signature of a component from its MLIR text, with positions.

The reader looks at the header and at the lines of `@forward`'s signature. MLIR gives
names and types, the comments give dims. The compiler and the check judge the body.
"""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from ingot.errors import ManifestError, Position, did_you_mean
from ingot.model.component_header import Header, Source, read_header
from ingot.model.library import find, names
from ingot.model.renamed import error_text
from ingot.model.shapes import (
    DIM,
    ELEMENTS,
    SHAPE,
    Limit,
    SymbolicType,
    parse_dim,
    parse_shape,
)
from ingot.model.size_rules import SizeRule
from ingot.model.text_files import read_file, why
from ingot.model.yaml_nodes import raise_all

_MODULE = re.compile(r"module @(\w+) \{")
_FORWARD = re.compile(r"  util\.func public @forward\(")
_ARGUMENT = re.compile(r" *%(\w+): ([^ ,]+),? *(?:// *(.*))?")
_END = re.compile(r" *\) -> (?:\(|([^ ,{]+) \{ *(?:// *(.*))?)")
_RESULT = re.compile(r" *([^ ,{%)]+),? *(?:// *(.*))?")
_WEIGHT = re.compile(r"!weight = ([a-z]+[0-9]+)")
_TENSOR = re.compile(r"tensor<((?:(?:\?|[0-9]+)x)*)([a-z]+[0-9]+|!weight)>")
_SHAPE = re.compile(rf"\[({SHAPE})\](?: .*)?")
# A text in quotes is no comment, whatever it has in it.
_COMMENT = re.compile(r'("(?:[^"\\\n]|\\.)*")|//[^\n]*')
_INDEX = re.compile(r"([a-z][a-z0-9_]*)(?: .*)?")
_DEFAULT = re.compile(r".*, or (none|[1-9][0-9]*)")
_FUNCTION = re.compile(r"^def ([A-Za-z_]\w*)\(", re.MULTILINE)
_LIMIT = re.compile(rf".* in \[0, ({DIM})(?: - ({DIM}))?([)\]])")


@dataclass(frozen=True, slots=True)
class TensorFormal:
    """A tensor argument or result."""

    name: str
    type: SymbolicType  # over the component's own dims
    position: Position
    limit: Limit | None = None
    is_weight: bool = False  # its element type is the alias `!weight`
    is_optional: bool = False  # a node may leave it out: `[n_head] sinks, or none`


@dataclass(frozen=True, slots=True)
class ScalarFormal:
    """A number that is passed at each call."""

    name: str
    type: str  # "f32"
    position: Position


@dataclass(frozen=True, slots=True)
class IndexFormal:
    """A dim that no shape gives, bound by specialize."""

    name: str
    dim: str
    position: Position
    default: int = 0  # where a node does not give it: `block_size, or 64`; 0: it must


Formal = TensorFormal | ScalarFormal | IndexFormal


@dataclass(frozen=True, slots=True)
class ComponentSignature:
    """A component as a graph sees it."""

    component: str  # "linear/linear_bias"
    header: Header
    arguments: tuple[Formal, ...]  # in order
    results: tuple[TensorFormal, ...]  # named "result", or "result_0", "result_1", ...
    weight: str = ""  # what `!weight` stands for; "" in a component without the alias
    # The optional arguments of its function that get no numbers, by their places there.
    absent: tuple[int, ...] = ()

    @property
    def dynamic(self) -> frozenset[str]:
        """Return the dims that may stay dynamic; specialize fixes the others."""
        dims = self.header.dims.items()
        return frozenset(name for name, kind in dims if kind == "dynamic")

    @property
    def rules(self) -> tuple[SizeRule, ...]:
        """Return the sizes that it supports."""
        return tuple(self.header.rules.values())

    @property
    def oracle(self) -> tuple[str, str]:
        """Return the oracle's file and function."""
        return self.header.oracle

    @property
    def weights(self) -> tuple[str, ...]:
        """Return the types that `!weight` may stand for."""
        return self.header.weights

    @property
    def stem(self) -> str:
        """Return the start of the names of instances: `linear_packed_bf16`.

        A weight of f32 is not named, as in components that know no other; an optional
        argument is, where it is given.
        """
        stem = self.component.rpartition("/")[2]
        given = [i.name for i in self.arguments if is_optional(i)]
        weight = [] if self.weight in ("", "f32") else [self.weight]
        return "_".join((stem, *weight, *given))

    def leaving_out(self, given: Container[str]) -> ComponentSignature:
        """Return the signature of calls without the optional arguments not `given`."""
        absent = tuple(
            place
            for place, item in enumerate(self.arguments)
            if is_optional(item) and item.name not in given
        )
        kept = (i for place, i in enumerate(self.arguments) if place not in absent)
        return replace(self, arguments=tuple(kept), absent=absent)

    def with_weight(self, element: str) -> ComponentSignature:
        """Return the signature where `!weight` stands for one of its choices."""
        assert element in self.weights, element
        arguments = tuple(
            replace(item, type=replace(item.type, element=element))
            if isinstance(item, TensorFormal) and item.is_weight
            else item
            for item in self.arguments
        )
        return replace(self, arguments=arguments, weight=element)


def is_optional(formal: Formal) -> bool:
    """Return whether it is a tensor that a node may leave out."""
    return isinstance(formal, TensorFormal) and formal.is_optional


class Components:
    """The components of a project; each file is read once, when it is first named."""

    def __init__(self, root: Path) -> None:
        """Look below the project's root, and in the library."""
        self.root = root
        self._found: dict[str, ComponentSignature | ExceptionGroup[ManifestError]] = {}
        self._code: dict[str, str] = {}

    def has(self, component: str) -> bool:
        """Return whether there is a file of that name."""
        return os.path.lexists(find(self.root, f"components/{component}.mlir"))

    def names(self) -> list[str]:
        """Return the names of all components, sorted."""
        return [
            name.removeprefix("components/").removesuffix(".mlir")
            for name in names(self.root, "components/*/*.mlir")
        ]

    def unknown(self, component: str) -> tuple[str, str]:
        """Return message and hint for a name that no component has."""
        message, hint = error_text("*", component)
        if message:
            return message, hint
        hint = did_you_mean(component, self.names(), "components")
        return f"no component named '{component}'", hint

    def read(self, component: str) -> ComponentSignature:
        """Return the signature of `components/<component>.mlir`, which is there.

        Raises:
            ExceptionGroup: of ManifestError, at the component's lines; its oracle's
                function is looked for.
        """
        if component not in self._found:
            try:
                self._found[component] = self._read(component)
            except ExceptionGroup as group:
                self._found[component] = group
        found = self._found[component]
        if isinstance(found, ExceptionGroup):
            raise found
        return found

    def _read(self, component: str) -> ComponentSignature:
        name = f"components/{component}.mlir"
        try:
            text = str(read_file(find(self.root, name)), "utf-8", errors="replace")
        except OSError as error:
            raise_all([ManifestError(Position(name, 1, 1), "", why(error))])
        self._code[component] = code_of(text)
        signature = parse_component(text, component)
        message, hint = self._check_oracle(*signature.oracle)
        if message:
            above = text[: text.index("// Oracle:")]
            place = Position(name, above.count("\n") + 1, 1)
            raise_all([ManifestError(place, "", f"Oracle: {message}", hint)])
        return signature

    def code(self, component: str) -> str:
        """Return the code of a component that has no mistakes, as `code_of` does."""
        self.read(component)
        return self._code[component]

    def _check_oracle(self, file: str, function: str) -> tuple[str, str]:
        """Return what is wrong with an oracle, and a hint; the file is not imported."""
        try:
            text = str(read_file(find(self.root, file)), "utf-8", errors="replace")
        except FileNotFoundError:
            return f"no file '{file}'", ""
        except OSError as error:
            return f"'{file}' {why(error)}", ""
        known = _FUNCTION.findall(text)
        if function in known:
            return "", ""
        public = [name for name in known if not name.startswith("_")]
        hint = did_you_mean(function, public, "functions")
        return f"no function '{function}' in {file}", hint


def read_component(component: str, root: Path) -> ComponentSignature:
    """Return the signature of one component, as `Components.read` does."""
    return Components(root).read(component)


def code_of(text: str) -> str:
    """Return a component's text without comments; each line of code keeps its number.

    Actions get this text, so that an edit of a comment runs none of them.
    """
    text = _COMMENT.sub(lambda found: found[1] or "", text)
    lines = [line.rstrip() for line in text.splitlines()]
    return "\n".join(lines).rstrip("\n") + "\n"


# By text: a changed file is another key, so nothing stale is ever returned.
@cache
def parse_component(text: str, component: str) -> ComponentSignature:
    """Return the signature in a component's text.

    Raises:
        ExceptionGroup: of ManifestError, as `read_component`.
    """
    source = Source(f"components/{component}.mlir", tuple(text.splitlines()))
    stem = component.rpartition("/")[2]
    header = read_header(source, stem)
    arguments: tuple[Formal, ...] = ()
    results: tuple[TensorFormal, ...] = ()
    weight = _weight(source, header)
    first = _forward(source, stem)
    if first is not None:
        end = next(
            (
                number
                for number in range(first, len(source.lines))
                if source.lines[number].lstrip().startswith(")")
            ),
            len(source.lines),
        )
        arguments = tuple(_arguments(source, first, end, weight))
        results = tuple(_results(source, end))
    if not source.errors:
        _check_dims(source, header, arguments, results)
    raise_all(source.errors)
    return ComponentSignature(component, header, arguments, results, weight)


def dims_of(formal: Formal) -> tuple[str, ...]:
    """Return the component's dims that an argument or result mentions."""
    match formal:
        case TensorFormal():
            return formal.type.names
        case IndexFormal():
            return (formal.dim,)
        case _:
            return ()


def _weight(source: Source, header: Header) -> str:
    """Return the type that the line `!weight = bf16` names, "" without one."""
    hint = "Types: f32 in, weight in {f32, bf16}, f32 out; and !weight = bf16 below"
    for number, line in enumerate(source.lines):
        if match := _WEIGHT.fullmatch(line):
            weight = match.group(1)
            if weight not in header.weights:
                message = f"!weight: '{weight}' is not among the header's types"
                source.error(number, message, hint)
            return weight
    if header.weights:
        message = "Types: 'weight in' without a line '!weight = ...' below the header"
        source.error(0, message, hint)
    return ""


def _forward(source: Source, stem: str) -> int | None:
    """Return the line below `@forward(`, the first argument's."""
    for number, line in enumerate(source.lines):
        if (match := _MODULE.match(line)) and match.group(1) != stem:
            message = f"expected 'module @{stem}', as the file is named"
            source.error(number, f"{message}, found '@{match.group(1)}'")
        elif match:
            for below in range(number + 1, len(source.lines)):
                if _FORWARD.match(source.lines[below]):
                    return below + 1
            source.error(number, "the module has no 'util.func public @forward('")
        if match:
            return None
    source.error(0, f"expected 'module @{stem} {{' below the header, found none")
    return None


def _arguments(source: Source, first: int, end: int, weight: str) -> Iterator[Formal]:
    """Yield the arguments of the lines from `first` to before `end` that are right."""
    for number in range(first, end):
        match = _ARGUMENT.fullmatch(source.lines[number])
        if not match:
            hint = "%x: tensor<?x?xf32>,  // [rows, n_embd] words"
            source.error(number, "expected one argument on this line", hint)
            continue
        name, kind, comment = match.groups(default="")
        if kind == "index" and (found := _INDEX.fullmatch(comment)):
            default = int(_default(comment) or 0)
            yield IndexFormal(name, found.group(1), source.position(number), default)
        elif kind == "index":
            message = f"%{name}: expected its dim in the comment, found '{comment}'"
            source.error(number, message, f"%{name}: index  // {name}")
        elif kind in ELEMENTS:
            yield ScalarFormal(name, kind, source.position(number))
        else:
            yield from _tensor(source, number, name, kind, comment, weight)


def _results(source: Source, end: int) -> Iterator[TensorFormal]:
    """Yield the results of the signature whose `)` is on the line `end`."""
    line = source.lines[end] if end < len(source.lines) else ""
    match = _END.fullmatch(line)
    if not match:
        hint = ") -> tensor<?x?xf32> {  // [rows, n_embd]"
        source.error(end, "expected the results on this line", hint)
    elif match.group(1):
        comment = match.group(2) or ""
        yield from _tensor(source, end, "result", match.group(1), comment)
    else:
        for index, number in enumerate(range(end + 1, len(source.lines))):
            if source.lines[number].lstrip().startswith(")"):
                break
            found = _RESULT.fullmatch(source.lines[number])
            if not found:
                source.error(number, "expected one result on this line")
                break
            kind, comment = found.groups(default="")
            yield from _tensor(source, number, f"result_{index}", kind, comment)


def _tensor(
    source: Source,
    number: int,
    name: str,
    kind: str,
    comment: str,
    weight: str = "",
) -> Iterator[TensorFormal]:
    """Yield a tensor, if its type and its comment are right and agree."""
    match = _TENSOR.fullmatch(kind)
    is_weight = match is not None and match.group(2) == "!weight"
    element = weight if is_weight else match.group(2) if match else ""
    if not match or element not in ELEMENTS:
        message = f"{name}: expected a tensor or a number of {', '.join(ELEMENTS)}"
        source.error(number, f"{message}, found '{kind}'")
        return
    shape = _SHAPE.fullmatch(comment)
    if not shape:
        message = f"{name}: expected its dims in the comment, found '{comment}'"
        source.error(number, message, "// [batch, seq, n_embd]")
        return
    dims = parse_shape(shape.group(1))
    written = "".join("?x" if dim.names else f"{dim.size}x" for dim in dims)
    if written != match.group(1):
        message = f"{name}: '{kind}' and '[{shape.group(1)}]' disagree"
        source.error(number, message)
        return
    formal = SymbolicType(dims, element)
    place = source.position(number)
    is_optional = _default(comment) == "none"
    yield TensorFormal(name, formal, place, _limit(comment), is_weight, is_optional)


def _default(comment: str) -> str:
    """Return what stands for an argument that is not given: "64", "none", or ""."""
    match = _DEFAULT.fullmatch(comment)
    return match.group(1) if match else ""


def _limit(comment: str) -> Limit | None:
    """Return what a comment says of values: `in [0, n_vocab)`."""
    if not (match := _LIMIT.fullmatch(comment)):
        return None
    most, less, end = match.groups()
    return Limit(
        text=comment[comment.rindex("[0, ") :],
        most=parse_dim(most),
        less=parse_dim(less) if less else None,
        closed=end == "]",
    )


def _check_dims(
    source: Source,
    header: Header,
    arguments: tuple[Formal, ...],
    results: tuple[TensorFormal, ...],
) -> None:
    """Add an error for each dim that header, arguments and results do not share."""
    names = [formal.name for formal in arguments]
    for index, formal in enumerate(arguments):
        if formal.name in names[:index]:
            line = formal.position.line - 1
            source.error(line, f"two arguments are named %{formal.name}")
    given = {name for formal in arguments for name in dims_of(formal)}
    for formal in (*arguments, *results):
        line = formal.position.line - 1
        limit = formal.limit if isinstance(formal, TensorFormal) else None
        for name in (*dims_of(formal), *(limit.names if limit else ())):
            if name not in header.dims:
                source.error(line, f"dim '{name}' is not in the header's Dims")
            elif name not in given:
                source.error(line, f"dim '{name}' is in no argument")
    for name in header.dims:
        if name not in given:
            source.error(header.dims_line, f"Dims: '{name}' is in no argument")
