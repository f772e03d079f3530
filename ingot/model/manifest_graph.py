"""A manifest's readable parts in, its architecture and its graph out."""

from __future__ import annotations

import os
from pathlib import Path

from ingot.errors import ManifestError, did_you_mean
from ingot.model import manifest_rules as rules
from ingot.model.architecture_schema import ARCHITECTURE
from ingot.model.bind import entries
from ingot.model.graph import DynamicDim, Graph
from ingot.model.resolve import resolve
from ingot.model.schema_types import check
from ingot.model.yaml_nodes import Node, load


def read_architecture(
    node: Node, root: Path, errors: list[ManifestError]
) -> Node | None:
    """Return the architecture that a manifest names, checked; None, errors added."""
    name = node.entries.get("architecture")
    if name is None or not isinstance(name.value, str):
        return None
    folder = root / "models" / "architectures"
    path = folder / f"{name.text}.yaml"
    if not os.path.lexists(path):
        known = sorted(item.stem for item in folder.glob("*.yaml"))
        hint = did_you_mean(name.text, known, "architectures")
        errors.append(name.error(f"no architecture named '{name.text}'", hint))
        return None
    try:
        found = load(path, root)
    except ExceptionGroup as group:
        errors += [e for e in group.exceptions if isinstance(e, ManifestError)]
        return None
    wrong = check(found, ARCHITECTURE)
    errors += wrong
    return None if wrong else found


def read_graph(
    parts: Node,
    model: str,
    architecture: Node,
    root: Path,
    errors: list[ManifestError],
) -> Graph | None:
    """Return the graph; what was reported missing is 1, so that the rest is checked.

    None without how the source names tensors: the parameters are told by it.
    """
    tied = rules.tied(parts, architecture, errors)
    if "names" not in parts["weights"].entries:
        return None
    declared = architecture.get("hyperparameters")
    given = numbers(parts)
    wrong: list[ManifestError] = []
    graph = resolve(
        model=model,
        architecture=architecture,
        sizes=_sizes(parts, architecture),
        numbers={
            item.text: given.get(item.text, 1)
            for item in (declared.items if declared else ())
        },
        dynamic=tuple(
            DynamicDim(name, entry["min"].integer, entry["max"].integer)
            for name, entry in parts["dynamic"].entries.items()
        ),
        weights=parts["weights"],
        tied=tied,
        root=root,
        errors=wrong,
    )
    if not wrong:
        wrong += rules.check_graph(parts, architecture, graph, errors)
    errors += wrong
    return graph


def numbers(node: Node) -> dict[str, float | int]:
    """Return the hyperparameters as they are written: 10000 stays an integer."""
    return {
        name: entry.integer if isinstance(entry.value, int) else entry.number
        for name, entry in entries(node, "hyperparameters").items()
    }


def _sizes(parts: Node, architecture: Node) -> dict[str, int | None]:
    """Return the size of each dim of the architecture, None for dynamic ones."""
    given = parts["dims"].entries
    sizes: dict[str, int | None] = {
        item.text: given[item.text].integer if item.text in given else 1
        for item in architecture["dims"].items
    }
    sizes.update((item.text, None) for item in architecture["dynamic"].items)
    return sizes
