"""A component's MLIR text in, its signature with places out.

Only the header and the lines of `@forward`'s signature are read: names and types are
MLIR's, dims are the comments'. Whether the body is right is for the compiler and the check.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ingot.errors import ManifestError, Position
from ingot.readers.shapes import SymbolicType, parse_shape
from ingot.readers.yaml import raise_all

HEADER = ("Source", "Exports", "Imports", "Dims", "Types", "Oracle", "Try")
# No i64 and no f64: portable Vulkan has neither.
ELEMENTS = ("f32", "f16", "bf16", "i32", "i16", "i8", "i1")

_LABEL = re.compile(r"// ([A-Z][a-z]+): +(.*)")
_DIMS = re.compile(r"([a-z0-9_, ]+) \((dynamic|fixed by specialize)\)(?:, )?")
_ORACLE = re.compile(r"(oracles/[a-z0-9_/]+\.py) ([a-z][a-z0-9_]*)")
_MODULE = re.compile(r"module @(\w+) \{")
_FORWARD = re.compile(r" *util\.func public @forward\(")
_ARGUMENT = re.compile(r" *%(\w+): ([^ ,]+),? *(?:// *(.*))?")
_RESULTS = re.compile(r" *\) -> (?:(\()|([^ ,{]+) \{ *(?:// *(.*))?)")
_RESULT = re.compile(r" *([^ ,{%)]+),? *(?:// *(.*))?")
_TENSOR = re.compile(r"tensor<((?:(?:\?|[0-9]+)x)*)([a-z]+[0-9]+)>")
_SHAPE = re.compile(r"\[([a-z0-9_*, ]*)\](?: .*)?")


@dataclass(frozen=True, slots=True)
class TensorFormal:
    """A tensor argument or result."""

    name: str
    type: SymbolicType  # over the component's own dims
    position: Position


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


Formal = TensorFormal | ScalarFormal | IndexFormal


@dataclass(frozen=True, slots=True)
class ComponentSignature:
    """What a graph has to know about a component."""

    component: str  # "linear/linear_bias"
    dynamic: frozenset[str]  # dims that may stay dynamic; the others are fixed
    oracle: tuple[str, str]  # ("oracles/linear.py", "linear_bias")
    arguments: tuple[Formal, ...]  # in order
    results: tuple[TensorFormal, ...]


def read_component(component: str, root: Path) -> ComponentSignature:
    """Return the signature of `components/<component>.mlir`, which is there.

    Raises:
        ExceptionGroup: of ManifestError, at the component's lines.
    """
    path = root / "components" / f"{component}.mlir"
    return parse_component(path.read_text("utf-8", errors="replace"), component)


# By text: a changed file is another key, so nothing stale is ever returned.
@cache
def parse_component(text: str, component: str) -> ComponentSignature:
    """Return the signature that a component's text has.

    Raises:
        ExceptionGroup: of ManifestError, as `read_component`.
    """
    reader = _Reader(text, component)
    signature = reader.signature()
    raise_all(reader.errors)
    return signature


class _Reader:
    """The lines of one file and the errors found so far."""

    def __init__(self, text: str, component: str) -> None:
        self.component = component
        self.path = f"components/{component}.mlir"
        self.lines = text.splitlines()
        self.errors: list[ManifestError] = []

    def signature(self) -> ComponentSignature:
        """Return the signature; it is of use only where no error was found."""
        header = self.header()
        stem = self.component.rpartition("/")[2]
        self.expect(header, "Exports", f"@{stem}.forward")
        dims = self.dims(*header["Dims"])
        line, oracle = header["Oracle"]
        match = _ORACLE.fullmatch(oracle)
        if not match and oracle:
            self.error(
                line, f"expected 'oracles/<file>.py <function>', found '{oracle}'"
            )
        start = self.find(_MODULE, 0, f"module @{stem} {{")
        module = _MODULE.match(self.lines[start]) if start < len(self.lines) else None
        if module and module.group(1) != stem:
            message = f"expected module @{stem}, as the file is named, found"
            self.error(start, f"{message} @{module.group(1)}")
        first = self.find(_FORWARD, start, "util.func public @forward(") + 1
        arguments, results = self.formals(first)
        self.check_dims(line, dims, arguments, results)
        return ComponentSignature(
            component=self.component,
            dynamic=frozenset(name for name, kind in dims.items() if kind == "dynamic"),
            oracle=(match.group(1), match.group(2)) if match else ("", ""),
            arguments=arguments,
            results=results,
        )

    def header(self) -> dict[str, tuple[int, str]]:
        """Return line number and text of each label; ("", 0) where it is missing."""
        found: dict[str, tuple[int, str]] = {}
        last = ""
        for number, line in enumerate(self.lines):
            if not line.startswith("//"):
                break
            if match := _LABEL.fullmatch(line):
                last = match.group(1)
                found[last] = (number, match.group(2).strip())
            elif last and line.startswith("//  "):
                found[last] = (found[last][0], f"{found[last][1]} {line[2:].strip()}")
        known = [label for label in found if label in HEADER]
        for label in HEADER:
            if label not in found:
                self.error(0, f"the header has no '{label}:'", _header_hint())
        if known != sorted(known, key=HEADER.index):
            self.error(found[known[0]][0], "labels out of order", _header_hint())
        return {label: found.get(label, (0, "")) for label in HEADER}

    def expect(self, header: dict[str, tuple[int, str]], label: str, text: str) -> None:
        """Keep an error where a label says something else."""
        line, found = header[label]
        if found and found != text:
            self.error(line, f"{label}: expected '{text}', found '{found}'")

    def dims(self, line: int, text: str) -> dict[str, str]:
        """Return how each dim of the header is bound: "dynamic", or by specialize."""
        if text and _DIMS.sub("", text):
            hint = "Dims: batch, seq (dynamic), n_embd (fixed by specialize)"
            self.error(line, f"Dims: cannot read '{text}'", hint)
        return {
            name.strip(): kind
            for names, kind in _DIMS.findall(text)
            for name in names.split(",")
        }

    def formals(
        self, first: int
    ) -> tuple[tuple[Formal, ...], tuple[TensorFormal, ...]]:
        """Return arguments and results of the signature whose first line is given."""
        arguments: list[Formal] = []
        number = first
        while number < len(self.lines):
            line = self.lines[number]
            if line.lstrip().startswith(")"):
                return tuple(arguments), self.results(number)
            if match := _ARGUMENT.fullmatch(line):
                arguments.extend(self.formal(number, *match.groups()))
            else:
                hint = "%x: tensor<?x?xf32>,  // [rows, n_embd] words"
                self.error(number, "expected one argument on this line", hint)
            number += 1
        return tuple(arguments), ()

    def results(self, number: int) -> tuple[TensorFormal, ...]:
        """Return the results of the signature that ends at or below the line."""
        match = _RESULTS.fullmatch(self.lines[number])
        if not match:
            hint = ") -> tensor<?x?xf32> {  // [rows, n_embd]"
            self.error(number, "expected the results on this line", hint)
            return ()
        if not match.group(1):
            return tuple(self.tensor(number, "result", match.group(2), match.group(3)))
        results: list[TensorFormal] = []
        for below in range(number + 1, len(self.lines)):
            line = self.lines[below]
            if line.lstrip().startswith(")"):
                break
            if found := _RESULT.fullmatch(line):
                name = f"result_{len(results)}"
                results.extend(self.tensor(below, name, *found.groups()))
            else:
                self.error(below, "expected one result on this line")
        return tuple(results)

    def formal(
        self, number: int, name: str, kind: str, comment: str | None
    ) -> Iterable[Formal]:
        """Yield the argument of a line; nothing where the line is wrong."""
        position = self.position(number)
        if kind == "index":
            dim = (comment or "").split(" ")[0]
            if re.fullmatch("[a-z][a-z0-9_]*", dim):
                return (IndexFormal(name, dim, position),)
            self.error(number, f"%{name}: expected its dim in the comment", "// n_head")
            return ()
        if kind in ELEMENTS:
            return (ScalarFormal(name, kind, position),)
        return self.tensor(number, name, kind, comment)

    def tensor(
        self, number: int, name: str, kind: str, comment: str | None
    ) -> Iterable[TensorFormal]:
        """Yield a tensor; nothing where its type and its comment are wrong."""
        match = _TENSOR.fullmatch(kind)
        if not match or match.group(2) not in ELEMENTS:
            message = f"{name}: expected a tensor of {', '.join(ELEMENTS)}"
            self.error(number, f"{message}, found '{kind}'")
            return ()
        shape = _SHAPE.fullmatch(comment or "")
        if not shape:
            message = (
                f"{name}: expected its dims in the comment, found '{comment or ''}'"
            )
            self.error(number, message, "// [batch, seq, n_embd]")
            return ()
        dims = parse_shape(shape.group(1))
        sizes = match.group(1).split("x")[:-1]
        written = [str(dim.size) if not dim.names else "?" for dim in dims]
        if written != sizes:
            message = f"{name}: '{kind}' and '[{shape.group(1)}]' disagree"
            self.error(number, message)
            return ()
        formal = SymbolicType(dims, match.group(2))
        return (TensorFormal(name, formal, self.position(number)),)

    def check_dims(
        self,
        line: int,
        dims: dict[str, str],
        arguments: tuple[Formal, ...],
        results: tuple[TensorFormal, ...],
    ) -> None:
        """Keep an error for each dim that header and signature do not share."""
        if self.errors:
            return
        given: dict[str, Position] = {}
        for formal in (*arguments, *results):
            names: tuple[str, ...] = ()
            if isinstance(formal, TensorFormal):
                names = formal.type.names
            elif isinstance(formal, IndexFormal):
                names = (formal.dim,)
            for name in names:
                if name not in dims:
                    number = formal.position.line - 1
                    self.error(number, f"dim '{name}' is not in the header's Dims")
                if formal in results and name not in given:
                    number = formal.position.line - 1
                    self.error(number, f"dim '{name}' is in no argument")
                given[name] = formal.position
        for name in dims.keys() - given.keys():
            self.error(line, f"Dims: '{name}' is in no argument")

    def find(self, pattern: re.Pattern[str], start: int, what: str) -> int:
        """Return the first line from `start` that begins so, or the number of lines."""
        for number in range(start, len(self.lines)):
            if pattern.match(self.lines[number]):
                return number
        if not any(error.message.startswith("expected 'm") for error in self.errors):
            self.error(start, f"expected '{what}' at the start of a line")
        return len(self.lines)

    def position(self, number: int) -> Position:
        """Return where the text of a line starts."""
        line = self.lines[number] if number < len(self.lines) else ""
        return Position(self.path, number + 1, len(line) - len(line.lstrip()) + 1)

    def error(self, number: int, message: str, hint: str = "") -> None:
        """Keep an error at a line."""
        self.errors.append(ManifestError(self.position(number), "", message, hint))


def _header_hint() -> str:
    return f"expected, in this order: {', '.join(HEADER)}"
