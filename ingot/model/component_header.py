"""Read the comment at the top of a component: its names, dims and oracle."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ingot.errors import ManifestError, Position
from ingot.model.size_rules import SizeRule, parse_dim_rule

LABELS = ("Source", "Exports", "Imports", "Dims", "Types", "Oracle", "Try")

_LABEL = re.compile(r"// ([A-Z][a-z]+): +(.*)")
_DIMS = re.compile(r"([a-z0-9_, >=+]+) \((dynamic|fixed by specialize)\)(?:, |$)")
_WEIGHTS = re.compile(r"(?:.*, )?weight in \{([a-z0-9, ]+)\}(?:, .*)?")
_ORACLE = re.compile(r"(oracles/[a-z0-9_/]+\.py) ([a-z][a-z0-9_]*)")

# The pattern of dims takes time that grows with the square of the length.
DIMS_CHARACTERS = 2000


@dataclass(frozen=True, slots=True)
class Source:
    """The lines of one file, and the errors found so far."""

    path: str  # "components/linear/linear_bias.mlir"
    lines: tuple[str, ...]
    errors: list[ManifestError] = field(default_factory=list)

    def position(self, number: int) -> Position:
        """Return where the text of a line starts; lines count from 0 here."""
        line = self.lines[number] if number < len(self.lines) else ""
        return Position(self.path, number + 1, len(line) - len(line.lstrip()) + 1)

    def error(self, number: int, message: str, hint: str = "") -> None:
        """Add an error at a line."""
        self.errors.append(ManifestError(self.position(number), "", message, hint))


@dataclass(frozen=True, slots=True)
class Header:
    """The contents of a header; they are valid only if there was no error."""

    exports: str  # "@linear_bias.forward"
    dims: dict[str, str]  # "dynamic" or "fixed by specialize"
    rules: dict[str, SizeRule]  # which sizes the component supports, by dim
    weights: tuple[str, ...]  # the types that `!weight` may stand for
    oracle: tuple[str, str]  # ("oracles/linear.py", "linear_bias")
    dims_line: int
    summary: str  # the first line, behind the name
    formula: tuple[str, ...]  # the lines between it and the labels, without the marks
    texts: dict[str, str]  # the text behind each label, in one line


def read_header(source: Source, stem: str) -> Header:
    """Return the contents of a header; add mistakes to the source's errors."""
    labels = _labels(source)
    for label in LABELS:
        if label not in labels:
            source.error(0, f"the header has no '{label}:'", _order())
    found = [label for label in labels if label in LABELS]
    if found != sorted(found, key=LABELS.index):
        line = labels[found[0]][0]
        source.error(line, "the header's labels are out of order", _order())
    line, exports = labels.get("Exports", (0, ""))
    if exports and exports != f"@{stem}.forward":
        message = f"Exports: expected '@{stem}.forward', found '{exports}'"
        source.error(line, message)
    line, text = labels.get("Oracle", (0, ""))
    oracle = _ORACLE.fullmatch(text)
    if text and not oracle:
        message = f"Oracle: expected 'oracles/<file>.py <function>', found '{text}'"
        source.error(line, message)
    line, text = labels.get("Dims", (0, ""))
    if len(text) > DIMS_CHARACTERS:
        size = f"{len(text)} characters are more than {DIMS_CHARACTERS}"
        source.error(line, f"Dims: too long: {size}")
        text = ""
    if text and _DIMS.sub("", text):
        hint = "Dims: batch, seq (dynamic), n_embd (fixed by specialize)"
        source.error(line, f"Dims: cannot read '{text}'", hint)
    dims, rules = _dims(text, source, line)
    function = (oracle.group(1), oracle.group(2)) if oracle else ("", "")
    first = min((number for number, _ in labels.values()), default=0)
    summary, *formula = _plain(source.lines[:first]) or [""]
    return Header(
        exports=exports,
        dims=dims,
        rules=rules,
        weights=_weights(labels),
        oracle=function,
        dims_line=line,
        summary=summary.removeprefix(f"{stem}: "),
        formula=tuple(formula),
        texts={label: text for label, (_, text) in labels.items()},
    )


def _dims(
    text: str, source: Source, line: int
) -> tuple[dict[str, str], dict[str, SizeRule]]:
    """Return every dim's kind, and the rules about the sizes of some."""
    dims: dict[str, str] = {}
    rules: dict[str, SizeRule] = {}
    for names, kind in _DIMS.findall(text):
        for word in names.split(","):
            name, rule = parse_dim_rule(word.strip(), source.position(line))
            dims[name] = kind
            if rule:
                rules[name] = rule
    for rule in rules.values():
        for name in rule.dims:
            if name not in dims:
                source.error(line, f"Dims: no dim named '{name}'")
            elif dims[name] == "dynamic":
                message = f"'{rule.text}' needs '{name}' fixed by specialize"
                source.error(line, f"Dims: {message}, found dynamic")
    return dims, rules


def _weights(labels: dict[str, tuple[int, str]]) -> tuple[str, ...]:
    """Return the choices of `weight in {f32, bf16}`, if the types have them."""
    match = _WEIGHTS.fullmatch(labels.get("Types", (0, ""))[1])
    return tuple(item.strip() for item in match.group(1).split(",")) if match else ()


def _plain(lines: tuple[str, ...]) -> list[str]:
    """Return comments without their marks."""
    return [line.removeprefix("//").removeprefix(" ") for line in lines]


def _labels(source: Source) -> dict[str, tuple[int, str]]:
    """Return line and text of each label; an indented line goes on with the text."""
    found: dict[str, tuple[int, str]] = {}
    last = ""
    for number, line in enumerate(source.lines):
        if not line.startswith("//"):
            break
        if match := _LABEL.fullmatch(line):
            last = match.group(1)
            if last in found:
                source.error(number, f"'{last}:' is in the header twice")
            found[last] = (number, match.group(2).strip())
        elif last and line.startswith("//  "):
            start, text = found[last]
            found[last] = (start, f"{text} {line[2:].strip()}")
    return found


def _order() -> str:
    return f"expected, in this order: {', '.join(LABELS)}"
