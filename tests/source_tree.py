"""Read the checkout for the convention tests: files, Python imports, tables."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GENERATED = ("ingot/engine/reapi_pb2.py", "ingot/engine/cache/services_pb2.py")


@dataclass(frozen=True)
class Import:
    """One import in a Python file; `nested` when inside a function."""

    path: str
    line: int
    module: str
    nested: bool

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: imports {self.module}"


@cache
def files() -> tuple[str, ...]:
    """Every file that is in the project, or would be with `git add`."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode == 0:
        names = set(listed.stdout.split("\0")) - {""}
        return tuple(sorted(name for name in names if (ROOT / name).is_file()))
    hidden = {".git", ".venv", "build", "__pycache__"}
    return tuple(
        sorted(
            str(path.relative_to(ROOT))
            for path in ROOT.rglob("*")
            if path.is_file() and not hidden & set(path.relative_to(ROOT).parts)
        )
    )


def tracked(pattern: str) -> list[str]:
    """What git has of the files that match, not a user's own; without git, all."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", f":(glob){pattern}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode == 0:
        return sorted(name for name in listed.stdout.split("\0") if name)
    return sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob(pattern))


def python_files(*folders: str) -> tuple[str, ...]:
    """Python files that people write, in these folders or everywhere."""
    return tuple(
        name
        for name in files()
        if name.endswith(".py")
        and name not in GENERATED
        and (not folders or name.split("/")[0] in folders)
    )


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@cache
def imports(name: str) -> tuple[Import, ...]:
    """What a Python file imports; what only the type checker sees is left out."""
    return tuple(_imports(name, ast.parse(text(name)).body, False))


def _imports(name: str, body: list[ast.stmt], nested: bool) -> Iterator[Import]:
    for node in body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from _imports(name, node.orelse, nested)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(name, node.lineno, alias.name, nested)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                # `from ingot.engine import process` is an import of a module.
                inner = f"{node.module}.{alias.name}"
                module = inner if module_path(inner) else str(node.module)
                yield Import(name, node.lineno, module, nested)
        else:
            inside = nested or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            for part in ("body", "orelse", "finalbody"):
                yield from _imports(name, getattr(node, part, []), inside)
            for handler in getattr(node, "handlers", []):
                yield from _imports(name, handler.body, inside)


def module_path(module: str) -> str | None:
    """`ingot.engine.store` -> `ingot/engine/store.py`; none for what is not ours."""
    stem = module.replace(".", "/")
    for name in (f"{stem}.py", f"{stem}/__init__.py"):
        if (ROOT / name).is_file():
            return name
    return None


def closure(name: str, nested: bool) -> set[str]:
    """The project's files that importing this one loads; `nested`: that it may load."""
    pending, found = [name], set[str]()
    while pending:
        current = pending.pop()
        if current in found:
            continue
        found.add(current)
        folder = Path(current).parent
        packages = [folder / "__init__.py", folder.parent / "__init__.py"]
        pending += [str(path) for path in packages if (ROOT / path).is_file()]
        for item in imports(current):
            path = module_path(item.module)
            if path is not None and (nested or not item.nested):
                pending.append(path)
    return found


def table(document: str, heading: str) -> list[list[str]]:
    """The rows of the Markdown table whose first column has this heading."""
    rows: list[list[str]] = []
    inside = False
    for line in text(document).splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|"):
            inside = False
        elif cells[0].lower() == heading:
            inside = True
        elif inside and not set(cells[0]) <= set("-: "):
            rows.append(cells)
    return rows


def code_words(cell: str) -> list[str]:
    """The words in backticks."""
    return re.findall(r"`([^`]+)`", cell)
