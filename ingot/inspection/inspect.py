"""Show a model at one level of its compilation, for `doit inspect`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from ingot.errors import IngotError, did_you_mean
from ingot.inspection.graph_picture import picture
from ingot.inspection.ir_dumps import read
from ingot.inspection.module_content import Content, filtered
from ingot.inspection.outline import Outline, outline
from ingot.inspection.symbolic_sizes import Shapes
from ingot.inspection.text_report import content_lines, graph_lines
from ingot.model.graph import Graph

PHASES = {"graph": "", "linalg": "input", "tensor": "stream", "program": "vm"}
"""The phase of the compiler whose output shows a level; the graph is the plan's."""


@dataclass(frozen=True, slots=True)
class Request:
    """What `doit inspect` is to show."""

    graph: Graph
    target: str
    level: str
    pattern: str  # "" shows everything

    @property
    def task(self) -> str:
        """Return the task that produces the file to read; none for the graph."""
        phase = PHASES[self.level]
        return f"ir-{phase}:{self.graph.model}@{self.target}" if phase else ""

    @property
    def folder(self) -> str:
        """Return the folder with the model's files for the target."""
        return f"build/{self.graph.model}/{self.target}"

    def wanted(self, *names: str) -> bool:
        """Return whether the filter matches one of these names, or is absent."""
        return not self.pattern or any(
            fnmatchcase(name, self.pattern) for name in names
        )


def run(root: Path, request: Request) -> int:
    """Print the model at its level; return the exit code.

    Raises: IngotError if the filter matches nothing, or a file cannot be written.
    """
    for line in _lines(root, request):
        print(line)
    return 0


def _lines(root: Path, request: Request) -> Iterator[str]:
    phase, named = PHASES[request.level], f"{request.graph.model}@{request.target}"
    suffix = f", filter {request.pattern}" if request.pattern else ""
    if not phase:
        found = filtered_graph(request)
        place = f"{request.folder}/graph.svg"
        _write(root / place, picture(found))
        yield f"{named}, graph, layout {request.graph.layout}{suffix}"
        yield from graph_lines(found, whole=not request.pattern)
        yield from ("", place)
        return
    place = f"{request.folder}/{phase}.mlir"
    content = _content(root / place, request)
    yield f"{named}, {request.level}{suffix}"
    yield from content_lines(content, _sized(request.graph))
    yield from ("", place)


def filtered_graph(request: Request) -> Outline:
    """Return the parts of the graph whose names the filter matches.

    Raises: IngotError if it matches none.
    """
    found = outline(request.graph, request.wanted)
    if not found.entries:
        _no_match(
            request,
            [
                name
                for piece in outline(request.graph, lambda *_: True).pieces
                for use in piece.uses
                for name in (piece.kind, use.call.name, use.instance.component)
            ],
        )
    return found


def _content(path: Path, request: Request) -> Content:
    everything = read(path, PHASES[request.level], _shapes(request.graph))
    found = filtered(everything, request.wanted)
    if not found.functions and not any(part.sizes for part in found.sections):
        known = [
            name
            for item in everything.functions
            for name in (
                item.name,
                *(name for name, _ in (*item.operations, *item.dispatches)),
            )
        ]
        _no_match(request, known)
    return found


def _no_match(request: Request, known: list[str]) -> None:
    """Reject a filter that matches nothing in the model at this level."""
    pattern = request.pattern
    names = list(dict.fromkeys(known))
    hint = did_you_mean(pattern.strip("*"), names, "names")
    raise IngotError(
        f"filter={pattern}: no name of {request.graph.model} at level "
        f"'{request.level}' matches",
        hint,
    )


def _measured(graph: Graph) -> dict[str, int]:
    """Return a size for each dynamic dim: one sequence of the maximum length."""
    return {dim.name: 1 if dim.name == "batch" else dim.max for dim in graph.dynamic}


def _sized(graph: Graph) -> str:
    return ", ".join(f"{name} = {size}" for name, size in _measured(graph).items())


def _shapes(graph: Graph) -> dict[str, Shapes]:
    """Return the shapes of each entry point's inputs, with sizes for dynamic dims."""
    sizes = _measured(graph)
    return {
        entry.name: tuple(
            tuple(
                sizes[dim] if isinstance(dim, str) else dim for dim in port.type.shape
            )
            for port in entry.inputs
        )
        for entry in graph.entry_points
    }


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise IngotError(f"{path}: cannot be written: {error.strerror}") from error
