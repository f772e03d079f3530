"""Put what `$name` stands for into the nodes of blocks.

Inside the nodes `$name` stands for a parameter, a dim or a number. Either the block's
variant gives it, so that layers that differ in nothing else (sliding and full
attention) are written once; or the node that calls the block does.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import replace

from ingot.errors import ManifestError, did_you_mean
from ingot.model.bind import entries
from ingot.model.yaml_nodes import Node

MARK = "$"


def expand_variants(
    blocks: Node, called: Container[str], errors: list[ManifestError]
) -> dict[str, Node]:
    """Return the blocks by name: `layer.local` and `layer.global` for two variants.

    Those that are `called` by nodes, and by no step, get the rest from the node.
    """
    found: dict[str, Node] = {}
    for kind, block in blocks.entries.items():
        variants = block.get("variants")
        if variants is None:
            found[kind] = block
            if kind not in called:
                hint = "give the block 'variants', or write what is meant"
                found[kind] = _filled(kind, block, {}, hint, errors)
            continue
        for variant, given in variants.entries.items():
            name = f"{kind}.{variant}"
            before = len(errors)
            found[name] = _filled(name, block, given.entries, "", errors)
            if len(errors) > before:
                continue
            used = {node.text[1:] for node in _marks(block["nodes"])}
            for unused in [item for item in given.entries if item not in used]:
                message = f"no node of block '{kind}' uses '{MARK}{unused}'"
                errors.append(given.key_error(unused, message))
    return found


def fill(name: str, block: Node, caller: Node, errors: list[ManifestError]) -> Node:
    """Return the block that a node calls, with what the node gives it."""
    used = {node.text[1:]: node for node in _marks(block["nodes"])}
    given: dict[str, Node] = {}
    for section in ("parameters", "attributes"):
        for key, value in entries(caller, section).items():
            given[key] = value
            if key not in used:
                hint = did_you_mean(MARK + key, [MARK + item for item in used], "names")
                message = f"no node of block '{name}' uses '{MARK}{key}'"
                errors.append(caller[section].key_error(key, message, hint))
    for key in used:
        if key not in given:
            message = f"'{MARK}{key}' of block '{name}' is missing"
            hint = f"give it under parameters or attributes; see {used[key].position}"
            errors.append(caller["uses"].error(message, hint))
    return _replaced(block, given)


def takes_names(block: Node) -> bool:
    """Return whether the nodes of a block have a `$name` that no variant gives."""
    return "variants" not in block.entries and any(_marks(block["nodes"]))


def block_name(kind: str) -> str:
    """Return the block's own name: `layer` of `layer.local`."""
    return kind.partition(".")[0]


def _filled(
    name: str,
    block: Node,
    given: Mapping[str, Node],
    hint: str,
    errors: list[ManifestError],
) -> Node:
    """Return the block with every `$name` replaced; an unknown one is an error."""
    for node in _marks(block["nodes"]):
        if node.text[1:] not in given:
            near = hint or did_you_mean(node.text[1:], list(given), "names")
            message = f"block '{name}' gives no value to '{node.text}'"
            errors.append(node.error(message, near))
    return _replaced(block, given)


def _marks(node: Node) -> Iterator[Node]:
    """Yield every text that begins with the mark."""
    if isinstance(node.value, str) and node.value.startswith(MARK):
        yield node
    for inner in _inner(node):
        yield from _marks(inner)


def _inner(node: Node) -> tuple[Node, ...]:
    if isinstance(node.value, tuple):
        return node.value
    return tuple(node.value.values()) if isinstance(node.value, dict) else ()


def _replaced(node: Node, given: Mapping[str, Node]) -> Node:
    value = node.value
    if isinstance(value, str) and value.startswith(MARK) and value[1:] in given:
        # The place stays that of the use: there a value does not fit.
        return replace(node, value=given[value[1:]].value)
    if isinstance(value, tuple):
        return replace(node, value=tuple(_replaced(item, given) for item in value))
    if isinstance(value, dict):
        entries = {key: _replaced(item, given) for key, item in value.items()}
        return replace(node, value=entries)
    return node
