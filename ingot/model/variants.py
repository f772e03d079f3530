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


def expand_variants(blocks: Mapping[str, BlockSection]) -> dict[str, BlockSection]:
    """Return the blocks by name: `layer.local` and `layer.global` for two variants."""
    found: dict[str, BlockSection] = {}
    for kind, block in blocks.items():
        if not block.variants:
            found[kind] = block
        for variant, given in block.variants.items():
            found[f"{kind}.{variant}"] = fill(block, given)
    return found


def check_variants(
    blocks: Mapping[str, BlockSection], called: Container[str]
) -> Iterator[ManifestError]:
    """Yield each `$name` without a value, and each value without a `$name`.

    To a block that is `called` by nodes, and by no step, the node gives the values.
    """
    for kind, block in blocks.items():
        if not block.variants and kind not in called:
            hint = "give the block 'variants', or write what is meant"
            yield from _check_given(kind, block, {}, hint)
        used = {mark.name for mark in _references(block)}
        for variant, given in block.variants.items():
            missing = list(_check_given(f"{kind}.{variant}", block, given))
            yield from missing
            for unused in given:
                if unused not in used and not missing:
                    message = f"no node of block '{kind}' uses '{MARK}{unused}'"
                    yield block.at.key_error(f"variants.{variant}", unused, message)


def _check_given(
    name: str, block: BlockSection, given: Mapping[str, Given], hint: str = ""
) -> Iterator[ManifestError]:
    for mark in _references(block):
        if mark.name not in given:
            near = hint or did_you_mean(mark.name, list(given), "names")
            message = f"block '{name}' gives no value to '{MARK}{mark.name}'"
            yield mark.node.at.error(mark.part, message, near)


def check_call(
    name: str, block: BlockSection, caller: NodeSection
) -> Iterator[ManifestError]:
    """Yield where a node that calls a block does not give what the `$names` want."""
    used = {mark.name: mark for mark in _references(block)}
    sections = {"parameters": caller.parameters, "attributes": caller.attributes}
    for section, values in sections.items():
        for key in values:
            if key not in used:
                hint = did_you_mean(MARK + key, [MARK + item for item in used], "names")
                message = f"no node of block '{name}' uses '{MARK}{key}'"
                yield caller.at.key_error(section, key, message, hint)
    for key, mark in used.items():
        if key not in caller.parameters and key not in caller.attributes:
            message = f"'{MARK}{key}' of block '{name}' is missing"
            place = mark.node.at.position(mark.part)
            hint = f"give it under parameters or attributes; see {place}"
            yield caller.at.error("uses", message, hint)


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


def fill(block: BlockSection, given: Mapping[str, Given]) -> BlockSection:
    """Return the block with each `$name` replaced by its value, where it has one.

    Its place is still the one where `$name` is written.
    """

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
