"""A block with variants in, one block for each variant out.

Inside the nodes `$name` stands for what a variant gives: a parameter, a dim or a
number. Layers that differ in nothing else (sliding and full attention) are so written
once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from ingot.errors import ManifestError, did_you_mean
from ingot.model.yaml_nodes import Node

MARK = "$"


def written_out(blocks: Node, errors: list[ManifestError]) -> dict[str, Node]:
    """Return the blocks by name: `layer.local` and `layer.global` for two variants."""
    found: dict[str, Node] = {}
    for kind, block in blocks.entries.items():
        variants = block.get("variants")
        if variants is None:
            found[kind] = _filled(block, {}, kind, errors)
            continue
        for variant, given in variants.entries.items():
            name = f"{kind}.{variant}"
            before = len(errors)
            found[name] = _filled(block, given.entries, name, errors)
            if len(errors) > before:
                continue
            used = {node.text[1:] for node in _marks(block["nodes"])}
            for unused in [item for item in given.entries if item not in used]:
                message = f"no node of block '{kind}' uses '{MARK}{unused}'"
                errors.append(given.key_error(unused, message))
    return found


def base(kind: str) -> str:
    """Return the block's own name: `layer` of `layer.local`."""
    return kind.partition(".")[0]


def _filled(
    block: Node, given: Mapping[str, Node], name: str, errors: list[ManifestError]
) -> Node:
    """Return the block with every `$name` replaced; an unknown one is an error."""
    for node in _marks(block["nodes"]):
        if node.text[1:] not in given:
            hint = did_you_mean(node.text[1:], list(given), "names")
            if not given:
                hint = "give the block 'variants', or write what is meant"
            message = f"block '{name}' gives no value to '{node.text}'"
            errors.append(node.error(message, hint))
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
