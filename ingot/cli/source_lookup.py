"""Find the file and line of YAML that a value of a plan comes from.

Texts such as `spec.json` are generated from a manifest, its architecture, what that
extends, a target and a layout. If one of these files has the value under the same key,
`doit why` shows its position; otherwise it shows only the files.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from ingot.model.library import find
from ingot.model.yaml_nodes import Node, load

# Keys that name another file, and the folder where it is.
_NAMED = {
    "architecture": "models/architectures",
    "extends": "models/architectures",
    "layout": "targets/layouts",
}


def sources(root: Path, task: str) -> list[Path]:
    """Return the files that a task's texts are generated from, [] for an unknown model.

    The manifest comes first, then the files that it names, then those of the target.
    """
    model, _, target = task.partition(":")[2].partition("@")
    if not (root / f"models/{model}.yaml").is_file():
        return []
    found: list[str] = []
    for name in (f"models/{model}.yaml", f"targets/{target}.yaml"):
        _add_named(name, root, found)
    # Or the task is a layout's, which several targets have.
    found.append(f"targets/layouts/{target}.yaml")
    return [path for name in found if (path := find(root, name)).is_file()]


def _add_named(name: str, root: Path, found: list[str]) -> None:
    """Add a file and those that it names, if there is one that is not found yet."""
    path = find(root, name)
    if name in found or not path.is_file():
        return
    found.append(name)
    texts = {node.key: node.value for node in _nodes(path, root)}
    for key, folder in _NAMED.items():
        if key in texts:
            _add_named(f"{folder}/{texts[key]}.yaml", root, found)


def locate(root: Path, task: str, key: str, value: object) -> str:
    """Return `path:line: key` of the value under the key; "" if no file has it.

    `key` is the way to the value in a text of the task, `tolerances.block.min_cosine`.
    """
    key = _plain(key)
    for path in sources(root, task):
        for node in _nodes(path, root):
            # To Python true is 1.
            kinds = isinstance(node.value, bool), isinstance(value, bool)
            if node.value == value and kinds[0] == kinds[1]:
                own = _plain(node.key)
                if f".{own}".endswith(f".{key}") or f".{key}".endswith(f".{own}"):
                    return f"{node.position.path}:{node.position.line}: {node.key}"
    return ""


def _plain(key: str) -> str:
    """Return a key with the parts of lists written as those of mappings are."""
    return key.replace("[", ".").replace("]", "")


def _nodes(path: Path, root: Path) -> tuple[Node, ...]:
    """Return every value of a YAML file that is no mapping and no sequence."""
    return _leaves(path, root, path.stat().st_mtime_ns)


@lru_cache(maxsize=8)
def _leaves(path: Path, root: Path, changed_ns: int) -> tuple[Node, ...]:
    try:
        return tuple(_below(load(path, root)))
    except ExceptionGroup:
        # The file was edited after the plan was made.
        return ()


def _below(node: Node) -> Iterator[Node]:
    parts = node.value
    if isinstance(parts, dict):
        parts = tuple(parts.values())
    if not isinstance(parts, tuple):
        yield node
        return
    for part in parts:
        yield from _below(part)
