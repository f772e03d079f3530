"""Resolve an architecture, with a model's sizes, to the model's graph.

It collects the errors of the architecture and of the components that it names, each
once, at their own lines.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import replace

from ingot.errors import ManifestError, did_you_mean
from ingot.model.architecture import Architecture
from ingot.model.architecture_schema import (
    ArchitectureSection,
    BlockSection,
    EntryPointSection,
)
from ingot.model.bind import Scope
from ingot.model.component import Components
from ingot.model.entry_points import expand
from ingot.model.graph import DynamicDim, Graph, Instance
from ingot.model.input_limits import with_limits
from ingot.model.manifest_schema import WeightsSection
from ingot.model.parameters import parameter_types, written_parameters
from ingot.model.resolve_blocks import BLOCK, resolve_block
from ingot.model.rope_scaling import ScalingSection
from ingot.model.variants import (
    block_name,
    check_variants,
    expand_variants,
    takes_names,
)

# No matrix is packed before a target asks for it.
PLAIN = "plain"
_WORD = re.compile("[a-z][a-z0-9_]*")


def resolve(
    model: str,
    architecture: Architecture,
    sizes: Mapping[str, int | None],
    numbers: Mapping[str, float | int],
    dynamic: tuple[DynamicDim, ...],
    weights: WeightsSection,
    tied: Mapping[str, str],
    components: Components,
    layers: tuple[str, ...],
    scaling: Mapping[str, ScalingSection],
) -> tuple[Graph, list[ManifestError]]:
    """Return the graph of a checked architecture, and what is wrong with it.

    The graph is of use only without errors. `sizes` has every dim, None for the dynamic
    ones; `weights` is the manifest's section of that name; `tied` has the parameters
    that others replace; `layers` are the blocks of repeated steps, empty for those of
    the architecture; `scaling` is that of rope tables.
    """
    declared = architecture.declared
    stepped = _stepped(architecture)
    inner = _inner_blocks(declared.blocks, stepped)
    errors: list[ManifestError] = []
    scope = Scope(sizes, numbers, components, errors)
    scope = replace(
        scope,
        parameters=parameter_types(declared, scope),
        blocks=expand_variants(declared.blocks),
        tied=tied,
    )
    errors += check_variants(declared.blocks, inner)
    # Others were reported.
    layers = tuple(name for name in layers if name in scope.blocks)
    expanded = []
    instances: list[Instance] = []
    for name, section in declared.entry_points.items():
        fixed = _of_entry_point(scope, section)
        found: list[ManifestError] = []
        patterns = {
            kind: resolve_block(kind, replace(fixed, errors=found))
            for kind in scope.blocks
            if block_name(kind) not in inner
        }
        # The variants of a block, and entry points, share nodes and their mistakes.
        reported = {error.position for error in errors}
        fresh = [error for error in found if error.position not in reported]
        errors += {str(error): error for error in fresh}.values()
        expanded.append(expand(name, _layered(section, layers), patterns, fixed))
        used = {block.kind for block in expanded[-1].entry_point.blocks}
        instances += [item for kind in used for item in patterns[kind].instances]
    taken = [item for entry in expanded for item in entry.parameters]
    # Behind another mistake most unused names are its consequences.
    if not any(error.position.path in architecture.files for error in errors):
        errors += _unused(architecture, stepped)
    errors += _check_instances(instances, architecture)
    known = {item.name: item for item in instances}
    graph = Graph(
        model=model,
        layout=PLAIN,
        dynamic=dynamic,
        instances=tuple(known[name] for name in sorted(known)),
        parameters=written_parameters(declared, scope, taken, weights, scaling),
        entry_points=tuple(item.entry_point for item in expanded),
    )
    return graph if errors else with_limits(graph), errors


def _of_entry_point(scope: Scope, section: EntryPointSection) -> Scope:
    """Return the scope of an entry point, which gives some dynamic dims a size."""
    dynamic = [name for name, size in scope.sizes.items() if size is None]
    for name in section.dims:
        if name not in dynamic:
            hint = did_you_mean(name, dynamic, "dynamic dims")
            message = f"no dynamic dim named '{name}'"
            error = section.at.key_error("dims", name, message, hint)
            scope.errors.append(error)
    fixed = {name: size for name, size in section.dims.items() if name in dynamic}
    return replace(scope, sizes={**scope.sizes, **fixed}, fixed=fixed)


def _layered(section: EntryPointSection, layers: tuple[str, ...]) -> EntryPointSection:
    """Return an entry point whose repeated steps call these blocks in turn."""
    if not layers:
        return section
    steps = (
        replace(step, block=layers) if step.repeat else step for step in section.steps
    )
    return replace(section, steps=tuple(steps))


def _stepped(architecture: Architecture) -> set[str]:
    """Return the blocks that steps call, without their variants."""
    return {
        block_name(name)
        for entry_point in architecture.declared.entry_points.values()
        for step in entry_point.steps
        for name in step.blocks.values()
    }


def _called(block: BlockSection) -> set[str]:
    """Return the blocks that the nodes of a block call, without their variants."""
    used = (node.uses for node in block.nodes if node.uses.startswith(BLOCK))
    return {block_name(item.removeprefix(BLOCK)) for item in used}


def _inner_blocks(
    blocks: Mapping[str, BlockSection], stepped: Container[str]
) -> set[str]:
    """Return the blocks that only nodes call, or can: each call resolves them."""
    called = set[str]().union(*map(_called, blocks.values()))
    return {
        kind
        for kind, block in blocks.items()
        if kind not in stepped and (kind in called or takes_names(block))
    }


def _check_instances(
    instances: Iterable[Instance], architecture: Architecture
) -> Iterator[ManifestError]:
    """Yield where two components share a file's stem, and so the names of instances."""
    found: dict[str, Instance] = {}
    for instance in instances:
        other = found.setdefault(instance.name, instance)
        if other.component != instance.component:
            message = f"'{other.component}' and '{instance.component}'"
            error = architecture.declared.at.error
            yield error("blocks", f"{message} share a file name")


def _unused(architecture: Architecture, stepped: set[str]) -> Iterator[ManifestError]:
    """Yield each block, parameter, dim and hyperparameter that nothing takes."""
    declared, own = architecture.declared, architecture.files[0]
    blocks, at = declared.blocks, declared.at
    called, pending = set[str](), list(stepped)
    while pending:
        kind = pending.pop()
        if kind not in called and kind in blocks:
            called.add(kind)
            pending += _called(blocks[kind])
    nodes = [node for block in blocks.values() for node in block.nodes]
    # As written, so that a parameter of a node that does not fit is not reported too.
    written = {name for node in nodes for name in node.parameters.values()} | {
        str(value)
        for block in blocks.values()
        for variant in block.variants.values()
        for value in variant.values()
    }
    for section, names, used, message in (
        ("blocks", blocks, called, "nothing calls block"),
        ("parameters", declared.parameters, written, "no node takes parameter"),
    ):
        for name in names:
            if name not in used:
                error = at.key_error(section, name, f"{message} '{name}'")
                if error.position.path != own:
                    error.hint = f"list it under 'remove' in {own}"
                yield error
    mentioned = _mentioned(declared)
    lists = {"dims": declared.dims, "hyperparameters": declared.hyperparameters}
    for key, listed in lists.items():
        for index, name in enumerate(listed):
            if name not in mentioned:
                part = f"{key}[{index}]"
                is_own = at.position(part).path == own
                hint = "" if is_own else f"write '{key}' in {own}"
                yield at.error(part, f"nothing mentions '{name}'", hint)


def _mentioned(declared: ArchitectureSection) -> set[str]:
    """Return the words of all shapes, types, attributes and repeats."""
    # The longest sequence is bounded by it, in the manifest.
    words = ["n_ctx"]
    for item in declared.parameters.values():
        words += [*item.dims, item.rope_base, item.gguf_interleaved]
    for block in declared.blocks.values():
        words += block.inputs.values()
        for given in (*block.variants.values(), *(n.attributes for n in block.nodes)):
            words += map(str, given.values())
    for entry_point in declared.entry_points.values():
        words += [item.type for item in entry_point.inputs.values()]
        words += [str(step.repeat) for step in entry_point.steps]
    return {name for word in words for name in _WORD.findall(word)}
