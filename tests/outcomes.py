"""Remember which tests passed, so that a later run need not repeat them.

A test marked `reads` is an action: it depends on the code that its file imports, on the
files that the marker names, on the installed packages and on the processor. The store
of the test run keeps its success under the key of all that. A test that opens another
file of the checkout fails, since a change of that file would go unnoticed; the module
that it is in counts as part of it, and so does each fixture that it shares.

    @pytest.mark.reads("components/{component}.mlir", "targets/*.yaml")

names files by patterns over the test's parameters; `files=` names a function that takes
the parameters and returns paths. `code=` names, by patterns, Python sources that other
processes run. Code counts without comments and docstrings: nothing reads them, except
those of `dodo.py`.
"""

from __future__ import annotations

import ast
import hashlib
import os
import platform
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import distributions
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from ingot.engine import sandbox, toolchain
from ingot.engine.action_keys import EncodedAction, encode_action
from ingot.engine.actions import Action, ActionResult
from ingot.errors import IngotError
from tests import scratch
from tests.source_tree import ROOT, closure, text

# What a test may start besides Python; those that are not installed are left out.
TOOLS = (
    "python",
    "iree-base-compiler",
    "iree-base-runtime",
    "iree-base-runtime-aarch64",
    "qemu-aarch64",
    "arm64-libc",
    "mesa-llvmpipe",
)
# Not sources of a test: what Python and pytest write, and what is installed.
GENERATED = (".venv/", ".pytest_cache/", ".hypothesis/", ".git/", "build/")
# Modules that import others by names in data, and all that they may import.
IMPORTED_BY_NAME = {
    "ingot/cli/commands.py": "ingot/**/*.py",
    "ingot/model/oracle.py": "oracles/*.py",
}

DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef

ENCODED = pytest.StashKey[EncodedAction]()
NAMED = pytest.StashKey[frozenset[str]]()
OPENED = pytest.StashKey[set[str]]()
CACHED = ("outcome", "cached")

# The files that are opened while a module of the checkout is imported, by module.
_imported: dict[str, set[str]] = defaultdict(set)
# What else is opened goes here.
_opened: set[str] | None = None


def files_of(item: pytest.Item) -> tuple[frozenset[str], frozenset[str]] | None:
    """Return the files and the code that the item's markers name; None without one."""
    markers = list(item.iter_markers("reads"))
    if not markers or item.get_closest_marker("xfail") is not None:
        return None
    callspec = getattr(item, "callspec", None)
    parameters: dict[str, Any] = dict(callspec.params) if callspec else {}
    files, sources = set[str](), set(code(_file(item)))
    for marker in markers:
        if "files" in marker.kwargs:
            files.update(marker.kwargs["files"](**parameters))
        for pattern in marker.args:
            files.update(_matching(pattern.format(**parameters)))
        for pattern in marker.kwargs.get("code", ()):
            sources.update(_matching(pattern))
    return frozenset(files), frozenset(sources)


def look_up(item: pytest.Item) -> bool:
    """Return whether the item passed before, with everything as it is now.

    Nothing is set up for such an item.
    """
    found = files_of(item)
    if found is None:
        return False
    # Before the test runs: a file that is edited meanwhile was not what it read.
    encoded = item.stash[ENCODED] = _encoded(item, *found)
    item.stash[NAMED] = found[0] | found[1]
    item.stash[OPENED] = set()
    if scratch.executor().store.action(encoded.key, ("passed",)) is None:
        return False
    assert isinstance(item, pytest.Function)
    item.fixturenames = []
    item.user_properties.append(CACHED)
    return True


def is_known(item: pytest.Item) -> bool:
    """Return whether the item passed before."""
    return CACHED in item.user_properties


@contextmanager
def watched(node: pytest.Item | pytest.Collector) -> Iterator[None]:
    """Note the files that are opened for a test, or for all tests of a module."""
    global _opened
    before = _opened
    _watch()
    _opened = node.stash.setdefault(OPENED, set())
    try:
        yield
    finally:
        _opened = before


@contextmanager
def for_others() -> Iterator[None]:
    """Read files that do not matter to this test, such as its neighbours in a batch."""
    global _opened
    before, _opened = _opened, None
    try:
        yield
    finally:
        _opened = before


def remember(item: pytest.Item) -> None:
    """Remember that the item passed; fail where it read files that nobody named."""
    encoded = item.stash.get(ENCODED, None)
    if encoded is None or is_known(item):
        return
    opened = set[str]().union(
        *(node.stash.get(OPENED, set()) for node in item.listchain()),
        *(_imported[name] for name in code(_file(item)) & _imported.keys()),
    )
    named = item.stash[NAMED]
    unnamed = {_source(path) for path in opened} - named - {""}
    if unnamed:
        names = ", ".join(sorted(unnamed))
        pytest.fail(f"its marker `reads` does not name {names}", pytrace=False)
    store = scratch.executor().store
    result = ActionResult(
        outputs=(("passed", store.put_bytes(b"")),),
        task=f"test:{item.name}",
        messages=encoded.messages,
    )
    store.put_action(encoded.key, result)


def _encoded(
    item: pytest.Item, files: frozenset[str], sources: frozenset[str]
) -> EncodedAction:
    action = Action(
        task=f"test:{item.name}",
        argv=("pytest", f"{_file(item)}::{item.nodeid.partition('::')[2]}"),
        inputs=(),
        outputs=("passed",),
        tools=_tools(),
        platform=(
            ("code", _digest(sources, meaning)),
            ("files", _digest(files, content)),
            ("cpu", _processor()),
            ("packages", _packages()),
            ("sandbox", sandbox.kind()),
        ),
    )
    return encode_action(scratch.executor().resolve(action))


@cache
def code(name: str) -> frozenset[str]:
    """Return the files of the code that a test file imports, and conftest.py."""
    # What conftest.py imports decides which tests run, not how they end.
    found = closure(name, nested=True) | {"tests/conftest.py"}
    for importer, pattern in IMPORTED_BY_NAME.items():
        if importer in found:
            found.update(_matching(pattern))
    # A stage's plan does not import the program that its action runs.
    for program in set().union(*map(programs, found)):
        found |= closure(f"ingot/programs/{program}/main.py", nested=True)
    return frozenset(found)


def programs(name: str) -> set[str]:
    """Return the programs that the actions of a stage run."""
    if not name.startswith("ingot/stages/"):
        return set()
    return set(re.findall(r'program_argv\("(\w+)"\)', text(name)))


@cache
def _matching(pattern: str) -> frozenset[str]:
    names = [str(path.relative_to(ROOT)) for path in ROOT.glob(pattern)]
    found = [name for name in names if (ROOT / name).is_file()]
    assert found, f"no file is named {pattern}"
    return frozenset(name for name in found if "__pycache__" not in name)


@cache
def _digest(names: frozenset[str], digest: Callable[[str], str]) -> str:
    whole = "".join(f"{name} {digest(name)}\n" for name in sorted(names))
    return hashlib.sha256(whole.encode()).hexdigest()


@cache
def content(name: str) -> str:
    """Return the digest of a file."""
    return hashlib.sha256((ROOT / name).read_bytes()).hexdigest()


@cache
def meaning(name: str) -> str:
    """Return the digest of a Python source without its comments and docstrings."""
    if name == "dodo.py":
        # doit shows its docstrings.
        return content(name)
    tree = ast.parse(text(name))
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False):
            del node.body[0]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()


@cache
def _tools() -> tuple[str, ...]:
    digests, found = scratch.executor().store.digests, []
    for tool in TOOLS:
        try:
            toolchain.identity(tool, digests)
        except IngotError:
            continue
        found.append(tool)
    return tuple(found)


@cache
def _packages() -> str:
    names = sorted(f"{item.name} {item.version}" for item in distributions())
    return hashlib.sha256("\n".join(names).encode()).hexdigest()


@cache
def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text("utf-8", errors="replace").splitlines()
    facts = {line for line in lines if line.startswith(("model name", "flags", "Feat"))}
    text = "\n".join((platform.machine(), *sorted(facts)))
    return hashlib.sha256(text.encode()).hexdigest()


def _file(item: pytest.Item) -> str:
    return str(item.path.relative_to(ROOT))


@cache
def _watch() -> None:
    """Note every file that this process opens while something is watched."""

    def opened(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and _opened is not None:
            path = arguments[0]
            if isinstance(path, str | bytes | os.PathLike):
                found = _imported[module] if (module := _importing()) else _opened
                found.add(os.path.abspath(os.fsdecode(path)))

    sys.addaudithook(opened)


def _importing() -> str:
    """Return the name of the checkout's module that is being imported, or ""."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_name == "<module>":
            name = os.path.relpath(frame.f_code.co_filename, ROOT)
            if not name.startswith(("../", *GENERATED)):
                return name
        frame = frame.f_back
    return ""


def _source(path: str) -> str:
    """Return the name of a file of the checkout; '' for one that is no source."""
    name = os.path.relpath(path, ROOT)
    if name.startswith(("../", *GENERATED)) or not os.path.isfile(path):
        return ""
    folder, _, stem = name.rpartition("/")
    if folder.endswith("__pycache__"):
        return os.path.join(os.path.dirname(folder), f"{stem.partition('.')[0]}.py")
    return name
