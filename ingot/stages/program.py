"""Find the command line and the sources of an action that runs one of ingot's programs.

The sources are found by following imports, so nobody maintains a list, and an edit of
the bake reruns bakes and nothing else.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from ingot.codec import to_json
from ingot.engine.actions import InlineText, Source, SourceFile
from ingot.model.graph import Instance
from ingot.model.library import find

# The folder that contains the package `ingot`.
ROOT = Path(__file__).parents[2]


def program_argv(name: str) -> tuple[str, ...]:
    """Return the command line of a program of `ingot.programs`."""
    return ("python", "-m", f"ingot.programs.{name}.main", "spec.json")


def program_inputs(name: str, specification: Any) -> tuple[tuple[str, Source], ...]:
    """Return the inputs of a program: its specification and its sources."""
    return (
        ("spec.json", InlineText(to_json(specification, indent=True) + "\n")),
        *_source_files(name),
    )


def oracle_sources(
    instances: Iterable[Instance], root: Path
) -> tuple[tuple[str, Source], ...]:
    """Return the files of the oracles that the instances of components have."""
    paths = sorted({instance.oracle[0] for instance in instances})
    if not paths:
        return ()
    return tuple(
        (x, SourceFile(find(root, x))) for x in ("oracles/__init__.py", *paths)
    )


@cache
def _source_files(name: str) -> tuple[tuple[str, Source], ...]:
    return tuple((path, _source(path)) for path in sources(name))


def _source(path: str) -> Source:
    """Return a source; of the package's own file, which is its API, the docstring.

    No program uses the API, so an edit of it must run nothing again.
    """
    if path != "ingot/__init__.py":
        return SourceFile(ROOT / path)
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return InlineText(f'"""{ast.get_docstring(tree, clean=False)}"""\n')


@cache
def sources(name: str) -> tuple[str, ...]:
    """Return the files of the package that a program may import, as `ingot/...py`."""
    pending, found = [f"ingot.programs.{name}.main"], dict[str, str]()
    while pending:
        module = pending.pop()
        path = _path(module)
        if module in found or path is None:
            continue
        found[module] = path
        pending += _imports(path)
        # Importing a module also imports the packages that contain it.
        pending.append(module.rpartition(".")[0])
    return tuple(sorted(found.values()))


@cache
def _imports(path: str) -> tuple[str, ...]:
    """Return the modules of the package that a file imports when it runs."""
    text = (ROOT / path).read_text(encoding="utf-8")
    return tuple(_imported(ast.parse(text).body))


def _imported(body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.ImportFrom):
            # A name may be a module: `from ingot.engine import process`.
            yield str(node.module)
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from _imported(node.orelse)
        else:
            for part in ("body", "orelse", "finalbody"):
                yield from _imported(getattr(node, part, []))
            for handler in getattr(node, "handlers", []):
                yield from _imported(handler.body)


@cache
def _path(module: str) -> str | None:
    """Return a module's file; None for a module of another package."""
    if module.partition(".")[0] != "ingot":
        return None
    stem = module.replace(".", "/")
    names = (f"{stem}.py", f"{stem}/__init__.py")
    return next((name for name in names if (ROOT / name).is_file()), None)
