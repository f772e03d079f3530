"""Remember which tests passed, so that a later run need not repeat them.

A test marked `reads` is an action: it depends on the code that its file imports, on the
files that the marker names, on the installed packages and on the processor. The store
of the test run keeps its success under the key of all that. A test that opens another
file of the checkout fails, since a change of that file would go unnoticed.

    @pytest.mark.reads("components/{component}.mlir", "targets/*.yaml")

names files by patterns over the test's parameters; `files=` names a function that takes
the parameters and returns paths.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import pytest

from ingot.engine import toolchain
from ingot.engine.actions import Action, ActionResult, SourceFile
from ingot.engine.keys import EncodedAction, encode_action
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

ENCODED = pytest.StashKey[EncodedAction]()
CACHED = ("outcome", "cached")

_opened: set[str] | None = None


def files_of(item: pytest.Item) -> frozenset[str] | None:
    """Return the files that the item's markers name; None for an item without one."""
    markers = list(item.iter_markers("reads"))
    if not markers or item.get_closest_marker("xfail") is not None:
        return None
    callspec = getattr(item, "callspec", None)
    parameters: dict[str, Any] = dict(callspec.params) if callspec else {}
    found: set[str] = set()
    for marker in markers:
        if "files" in marker.kwargs:
            found.update(marker.kwargs["files"](**parameters))
        for pattern in (pattern.format(**parameters) for pattern in marker.args):
            paths = [str(path.relative_to(ROOT)) for path in ROOT.glob(pattern)]
            assert paths, f"no file is named {pattern}"
            found.update(paths)
    return frozenset(found)


def is_known(item: pytest.Item) -> bool:
    """Return whether the item passed before, with everything as it is now."""
    encoded = item.stash.get(ENCODED, None)
    if encoded is None or scratch.executor().store.action(encoded.key) is None:
        return False
    item.user_properties.append(CACHED)
    return True


@contextmanager
def remembered(item: pytest.Item) -> Iterator[None]:
    """Remember that the item passes, if it does; fail where it reads other files."""
    global _opened
    files = files_of(item)
    if files is None:
        yield
        return
    _watch()
    # Before the test runs: a file that is edited meanwhile was not what it read.
    encoded = item.stash[ENCODED] = _encoded(item, files)
    _opened = set()
    try:
        yield
        opened = _opened
    finally:
        _opened = None
    if CACHED in item.user_properties:
        return
    unnamed = {_source(path) for path in opened} - files - code(_file(item)) - {""}
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


@contextmanager
def for_others() -> Iterator[None]:
    """Read files that do not matter to this test, such as its neighbours in a batch."""
    global _opened
    before, _opened = _opened, None
    try:
        yield
    finally:
        _opened = before


def _encoded(item: pytest.Item, files: frozenset[str]) -> EncodedAction:
    name = _file(item)
    action = Action(
        task=f"test:{item.name}",
        argv=("pytest", f"{name}::{item.nodeid.partition('::')[2]}"),
        inputs=tuple((path, SourceFile(ROOT / path)) for path in sorted(files)),
        outputs=("passed",),
        tools=_tools(),
        platform=(
            ("code", _digest(code(name))),
            ("cpu", _processor()),
            ("packages", _packages()),
            ("full", os.environ.get("INGOT_FULL", "")),
        ),
    )
    return encode_action(scratch.executor().resolve(action))


@cache
def code(name: str) -> frozenset[str]:
    """Return the files of the code that a test file imports, and conftest.py."""
    # What conftest.py imports decides which tests run, not how they end.
    found = closure(name, nested=True) | {"tests/conftest.py"}
    # A stage's plan does not import the program that its action runs.
    programs = {
        program
        for path in found
        if path.startswith("ingot/stages/")
        for program in re.findall(r'program_argv\("(\w+)"\)', text(path))
    }
    for program in programs:
        found |= closure(f"ingot/programs/{program}/main.py", nested=True)
    return frozenset(found)


@cache
def _digest(names: frozenset[str]) -> str:
    whole = hashlib.sha256()
    for name in sorted(names):
        content = hashlib.sha256((ROOT / name).read_bytes()).hexdigest()
        whole.update(f"{name} {content}\n".encode())
    return whole.hexdigest()


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
    """Note every file that this process opens while a test is watched."""

    def opened(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and _opened is not None:
            path = arguments[0]
            if isinstance(path, str | bytes | os.PathLike):
                _opened.add(os.path.abspath(os.fsdecode(path)))

    sys.addaudithook(opened)


def _source(path: str) -> str:
    """Return the name of a file of the checkout; '' for one that is no source."""
    name = os.path.relpath(path, ROOT)
    if name.startswith(("../", *GENERATED)) or not os.path.isfile(path):
        return ""
    folder, _, stem = name.rpartition("/")
    if folder.endswith("__pycache__"):
        return f"{os.path.dirname(folder)}/{stem.partition('.')[0]}.py"
    return name
