"""Find what differs between two bundles, and which input of the build is the reason.

Only what `bundle.json` and the archives say is compared: nothing of a bundle is run.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from ingot.bundles.change_causes import COMPILER, FLAGS, WEIGHTS, causes
from ingot.bundles.contract_changes import contract_changes
from ingot.bundles.difference import Change, Difference, Level, Timing, highest
from ingot.bundles.reader import Bundle
from ingot.bundles.weight_changes import weight_changes
from ingot.errors import IngotError

# By file: what it means to a caller that the content is another. Other files are a
# patch: no call depends on them.
FILES = {
    "tokenizer.json": Level.MAJOR,
    "chat_template.jinja": Level.MINOR,
    "LICENSE": Level.MINOR,
    "model.irpa": Level.MINOR,
}
# Bundles up to version 2 have the licence under this name.
OLDER_NAMES = {"LICENCE": "LICENSE"}


def difference(before: Bundle, after: Bundle) -> Difference:
    """Return what differs between two bundles whose files are as they were packed."""
    old, new = before.contract, after.contract
    notes: list[str] = []
    changes = [
        *contract_changes(old, new),
        *_files(old["files"], new["files"]),
        *_dispatches(old, new, notes),
        *_flags(old, new),
        *_compiler(old["compiler"], new["compiler"]),
        *_weights(before, after, notes),
        *_check(old.get("check", {}), new.get("check", {})),
    ]
    inputs = changed_inputs(old, new)
    linked = _at(old, "linked_module") != _at(new, "linked_module")
    return Difference(
        before=before.name,
        after=after.name,
        level=highest([Level(change.level) for change in changes]),
        changes=tuple(
            replace(change, causes=causes(change, inputs, linked)) for change in changes
        ),
        inputs=inputs,
        benchmarks=tuple(_benchmarks(before, after, notes)),
        notes=tuple(notes),
    )


def _at(contract: dict[str, Any], key: str) -> Any:
    return contract.get("inputs", {}).get(key)


def changed_inputs(old: dict[str, Any], new: dict[str, Any]) -> tuple[str, ...]:
    """Return the recorded inputs that changed: files, weights, compiler, flags."""
    sources = [_at(contract, "sources") or {} for contract in (old, new)]
    found = [
        path
        for path in dict.fromkeys([*sources[0], *sources[1]])
        if sources[0].get(path) != sources[1].get(path)
    ]
    weights = [_at(contract, "weights") or {} for contract in (old, new)]
    found += _changed_weights(*weights)
    if _tool(old) != _tool(new):
        found.append(COMPILER)
    if _flags_of(old) != _flags_of(new):
        found.append(FLAGS)
    return tuple(found)


def _changed_weights(old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    if old.get("origin") != new.get("origin"):
        yield f"{WEIGHTS}: {old.get('origin')} -> {new.get('origin')}"
    files = [{x["file"]: x["sha256"] for x in w.get("files", [])} for w in (old, new)]
    for name in dict.fromkeys([*files[0], *files[1]]):
        if files[0].get(name) != files[1].get(name):
            yield f"{WEIGHTS}: {name}"


def _tool(contract: dict[str, Any]) -> tuple[Any, ...]:
    compiler = contract["compiler"]
    return tuple(compiler.get(key) for key in ("package", "version", "commit"))


def _flags_of(contract: dict[str, Any]) -> tuple[Any, Any]:
    return contract["target"]["compile_flags"], contract["compiler"].get("commands")


def _files(old: dict[str, Any], new: dict[str, Any]) -> Iterator[Change]:
    before, after = (
        {OLDER_NAMES.get(name, name): item for name, item in files.items()}
        for files in (old, new)
    )
    for name in dict.fromkeys([*before, *after]):
        one, other = before.get(name), after.get(name)
        if one == other:
            continue
        level = FILES.get(name, Level.PATCH)
        if one is None:
            level = Level.MINOR
        elif other is None:
            level = Level.MAJOR
        yield Change("files", name, _file(one), _file(other), level)


def _file(item: dict[str, Any] | None) -> str | None:
    if item is None:
        return None
    return f"{item['size_bytes']} bytes, sha256 {item['sha256'][:12]}"


def _dispatches(
    old: dict[str, Any], new: dict[str, Any], notes: list[str]
) -> Iterator[Change]:
    modules = [contract.get("module") for contract in (old, new)]
    if not all(modules):
        notes.append("dispatches: one of the bundles does not record them")
        return
    before, after = (module["dispatches"] for module in modules if module)
    for name in dict.fromkeys([*before, *after]):
        one, other = before.get(name, 0), after.get(name, 0)
        if one != other:
            yield Change("module", f"dispatches of {name}", one, other, Level.PATCH)


def _flags(old: dict[str, Any], new: dict[str, Any]) -> Iterator[Change]:
    before, after = (contract["target"]["compile_flags"] for contract in (old, new))
    for flag in before:
        if flag not in after:
            yield Change("flags", flag, flag, None, Level.PATCH)
    for flag in after:
        if flag not in before:
            yield Change("flags", flag, None, flag, Level.PATCH)


def _compiler(old: dict[str, Any], new: dict[str, Any]) -> Iterator[Change]:
    for key in ("package", "version", "commit"):
        if old.get(key) != new.get(key):
            yield Change("compiler", key, old.get(key), new.get(key), Level.PATCH)


def _weights(before: Bundle, after: Bundle, notes: list[str]) -> Iterator[Change]:
    try:
        yield from weight_changes(before, after)
    except IngotError as error:
        notes.append(f"weights: {error.message}")


def _check(old: dict[str, Any], new: dict[str, Any]) -> Iterator[Change]:
    for key in ("judge", "emulated", "quality"):
        if old.get(key) != new.get(key):
            yield Change("check", key, old.get(key), new.get(key), Level.PATCH)
    before, after = (check.get("levels", {}) for check in (old, new))
    for name in dict.fromkeys([*before, *after]):
        one, other = before.get(name, {}), after.get(name, {})
        for key in ("rows", "max_abs_error", "tolerance"):
            if one.get(key) != other.get(key):
                place = f"{name} {key}"
                yield Change("check", place, one.get(key), other.get(key), Level.PATCH)


def _benchmarks(before: Bundle, after: Bundle, notes: list[str]) -> Iterator[Timing]:
    old, new = _times(before), _times(after)
    if old is None or new is None:
        notes.append("benchmarks: not at hand; their file is beside a built bundle")
        return
    for key in old.keys() & new.keys():
        yield Timing(key[0], dict(key[1]), old[key], new[key])


def _times(bundle: Bundle) -> dict[tuple[str, Any], float] | None:
    """Return the median time of each benchmark, in milliseconds."""
    name = bundle.contract.get("benchmarks", {}).get("file", "")
    path = bundle.folder.parent / name
    if not name or "/" in name or not path.is_file():
        return None
    try:
        runs: Iterable[Any] = json.loads(path.read_text("utf-8"))["runs"]
        return {
            (run["entry_point"], tuple(sorted(run["sizes"].items()))): run[
                "latency_ms"
            ]["median"]
            for run in runs
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
