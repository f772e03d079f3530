"""Put what `$name` stands for into the nodes of blocks.

Inside the nodes `$name` stands for a parameter, a dim or a number. Either the block's
variant gives it, so that layers that differ in nothing else (sliding and full
attention) are written once; or the node that calls the block does.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, replace

from ingot.errors import ManifestError, did_you_mean
from ingot.model.architecture_schema import BlockSection, Given, NodeSection

MARK = "$"


def expand_variants(
    blocks: Mapping[str, BlockSection],
    called: Container[str],
    errors: list[ManifestError],
) -> dict[str, BlockSection]:
    """Return the blocks by name: `layer.local` and `layer.global` for two variants.

    Those that are `called` by nodes, and by no step, get the rest from the node.
    """
    found: dict[str, BlockSection] = {}
    for kind, block in blocks.items():
        if not block.variants:
            found[kind] = block
            if kind not in called:
                hint = "give the block 'variants', or write what is meant"
                found[kind] = _filled(kind, block, {}, hint, errors)
            continue
        for variant, given in block.variants.items():
            name = f"{kind}.{variant}"
            before = len(errors)
            found[name] = _filled(name, block, given, "", errors)
            if len(errors) > before:
                continue
            used = {mark.name for mark in _references(block)}
            for unused in [item for item in given if item not in used]:
                message = f"no node of block '{kind}' uses '{MARK}{unused}'"
                part = f"variants.{variant}"
                errors.append(block.at.key_error(part, unused, message))
    return found


def fill(
    name: str, block: BlockSection, caller: NodeSection, errors: list[ManifestError]
) -> BlockSection:
    """Return the block that a node calls, with what the node gives it."""
    used = {mark.name: mark for mark in _references(block)}
    sections = {"parameters": caller.parameters, "attributes": caller.attributes}
    given: dict[str, Given] = {}
    for section, values in sections.items():
        for key, value in values.items():
            given[key] = value
            if key not in used:
                hint = did_you_mean(MARK + key, [MARK + item for item in used], "names")
                message = f"no node of block '{name}' uses '{MARK}{key}'"
                errors.append(caller.at.key_error(section, key, message, hint))
    for key, mark in used.items():
        if key not in given:
            message = f"'{MARK}{key}' of block '{name}' is missing"
            place = mark.node.at.position(mark.part)
            hint = f"give it under parameters or attributes; see {place}"
            errors.append(caller.at.error("uses", message, hint))
    return _replaced(block, given)


def takes_names(block: BlockSection) -> bool:
    """Return whether the nodes of a block have a `$name` that no variant gives."""
    return not block.variants and any(_references(block))


def block_name(kind: str) -> str:
    """Return the block's own name: `layer` of `layer.local`."""
    return kind.partition(".")[0]


@dataclass(frozen=True, slots=True)
class _Reference:
    """A `$name` in a node."""

    name: str
    node: NodeSection
    part: str  # "parameters.weight"


def _references(block: BlockSection) -> Iterator[_Reference]:
    for node in block.nodes:
        sections = {"parameters": node.parameters, "attributes": node.attributes}
        for section, values in sections.items():
            for key, value in values.items():
                if isinstance(value, str) and value.startswith(MARK):
                    yield _Reference(value[1:], node, f"{section}.{key}")


def _filled(
    name: str,
    block: BlockSection,
    given: Mapping[str, Given],
    hint: str,
    errors: list[ManifestError],
) -> BlockSection:
    """Return the block with every `$name` replaced; an unknown one is an error."""
    for mark in _references(block):
        if mark.name not in given:
            near = hint or did_you_mean(mark.name, list(given), "names")
            message = f"block '{name}' gives no value to '{MARK}{mark.name}'"
            errors.append(mark.node.at.error(mark.part, message, near))
    return _replaced(block, given)


def _replaced(block: BlockSection, given: Mapping[str, Given]) -> BlockSection:
    """Return the block with what is given; its place stays where `$name` is used."""

    def value(written: Given) -> Given:
        is_name = isinstance(written, str) and written.startswith(MARK)
        return given.get(str(written)[1:], written) if is_name else written

    nodes = tuple(
        replace(
            node,
            parameters={k: str(value(v)) for k, v in node.parameters.items()},
            attributes={k: value(v) for k, v in node.attributes.items()},
        )
        for node in block.nodes
    )
    return replace(block, nodes=nodes)
