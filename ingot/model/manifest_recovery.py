"""A manifest with mistakes of form in, the parts that can be read all the same out.

What the rules need and a mistake took away is not there: they judge the rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ingot.errors import ManifestError
from ingot.model.yaml_nodes import Node, join

# Mappings of parts that do not depend on each other; the rules take some for given.
_GIVEN = ("dims", "dynamic", "weights")
_OPEN = (*_GIVEN, "hyperparameters", "check", "bench")


def readable(node: Node, wrong: Iterable[ManifestError]) -> Node:
    """Return the manifest without the parts that mistakes of form are in."""
    path = node.position.path
    keys = {error.key for error in wrong if error.position.path == path}
    parts = _without(node, keys - {""}, _OPEN)
    missing = {name: Node(node.position, name, {}) for name in _GIVEN}
    return replace(parts, value=missing | parts.entries, keys=())


def misspelt(node: Node, wrong: Iterable[ManifestError]) -> bool:
    """Return whether a key of the manifest may be meant for one that is missing."""
    return any(
        error.message == "unknown key" and error.key in node.entries for error in wrong
    )


def touched(key: str, errors: Iterable[ManifestError]) -> bool:
    """Return whether one of the errors is at the key or below it."""
    return any(_is_below(error.key, key) for error in errors)


def _without(node: Node, keys: set[str], open_: tuple[str, ...] = ()) -> Node:
    """Return a mapping without the entries that hold a key; open ones lose theirs."""
    found: dict[str, Node] = {}
    places = []
    for (name, entry), place in zip(node.entries.items(), node.keys, strict=True):
        own = join(node.key, name)
        kept = entry
        if name in open_ and isinstance(entry.value, dict):
            kept = _without(entry, keys)
        elif any(_is_below(key, own) for key in keys):
            continue
        found[name] = kept
        places.append(place)
    return replace(node, value=found, keys=tuple(places))


def _is_below(key: str, place: str) -> bool:
    return key == place or key.startswith((f"{place}.", f"{place}["))
