"""Resolve an architecture, with a model's sizes, to the model's graph.

Errors of the architecture and of the components that it names are collected, each once,
at their own lines.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from ingot.errors import ManifestError, did_you_mean
from ingot.model.architecture import Architecture
from ingot.model.architecture_schema import BlockSection, EntryPointSection
from ingot.model.bind import Report, Scope
from ingot.model.component import ComponentSignature, read_component
from ingot.model.entry_points import expand
from ingot.model.graph import DynamicDim, Graph, Instance
from ingot.model.manifest_schema import WeightsSection
from ingot.model.parameters import parameter_types, written_parameters
from ingot.model.renamed import error_text
from ingot.model.resolve_blocks import BLOCK, BlockPattern, resolve_block
from ingot.model.variants import block_name, expand_variants, takes_names
from ingot.model.yaml_nodes import collected

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
    root: Path,
    errors: list[ManifestError],
) -> Graph:
    """Return the graph of a checked architecture; it is of use only without errors.

    `sizes` has every dim, None for the dynamic ones; `weights` is the manifest's
    section of that name; `tied` has the parameters that others serve for.
    """
    parameters = parameter_types(architecture.declared, sizes, numbers, errors)
    scope = Scope(sizes, numbers, parameters, tied)
    blocks = _Blocks(architecture, Components(root, errors), errors)
    expanded = []
    instances: list[Instance] = []
    for name, section in architecture.declared.entry_points.items():
        fixed = scope.fix(_fixed(section, sizes, errors))
        patterns = blocks.resolved(fixed)
        expanded.append(expand(name, section, patterns, fixed, errors))
        used = {block.kind for block in expanded[-1].entry_point.blocks}
        instances += [item for kind in used for item in patterns[kind].instances]
    taken = [item for entry in expanded for item in entry.parameters]
    # Behind another mistake most unused names are its consequences.
    if not any(error.position.path in architecture.files for error in errors):
        _refuse_unused(architecture, errors)
    return Graph(
        model=model,
        layout=PLAIN,
        dynamic=dynamic,
        instances=_instances(instances, architecture, errors),
        parameters=written_parameters(
            architecture.declared, scope, taken, weights, errors
        ),
        entry_points=tuple(item.entry_point for item in expanded),
    )


def _fixed(
    entry_point: EntryPointSection,
    sizes: Mapping[str, int | None],
    errors: list[ManifestError],
) -> dict[str, int]:
    """Return the dynamic dims that have one size in an entry point."""
    given = entry_point.dims
    dynamic = [name for name, size in sizes.items() if size is None]
    for name in given:
        if name not in dynamic:
            hint = did_you_mean(name, dynamic, "dynamic dims")
            message = f"no dynamic dim named '{name}'"
            errors.append(entry_point.at.key_error("dims", name, message, hint))
    return {name: size for name, size in given.items() if name in dynamic}


class _Blocks:
    """The blocks of an architecture, resolved for each entry point's dims."""

    def __init__(
        self,
        architecture: Architecture,
        components: Components,
        errors: list[ManifestError],
    ) -> None:
        blocks = architecture.declared.blocks
        stepped = {block_name(item) for item in _stepped(architecture)}
        called = {
            block_name(item.removeprefix(BLOCK))
            for block in blocks.values()
            for item in _uses(block)
            if item.startswith(BLOCK)
        }
        # What only nodes call, or can, is resolved where they call it.
        self.inner = {
            kind
            for kind, block in blocks.items()
            if kind not in stepped and (kind in called or takes_names(block))
        }
        self.blocks = expand_variants(blocks, self.inner, errors)
        self.components = components
        self.errors = errors

    def resolved(self, scope: Scope) -> dict[str, BlockPattern]:
        """Return the blocks by name; what is wrong is told once, not once a scope."""
        found: list[ManifestError] = []
        patterns = {
            kind: resolve_block(kind, self.blocks, scope, self.components.find, found)
            for kind in self.blocks
            if block_name(kind) not in self.inner
        }
        told = {error.position for error in self.errors}
        # Variants of a block have their nodes, and so their mistakes, in common.
        fresh = {str(error): error for error in found if error.position not in told}
        self.errors.extend(fresh.values())
        return patterns


class Components:
    """The components of a checkout, read when they are named; each is reported once."""

    def __init__(self, root: Path, errors: list[ManifestError]) -> None:
        """Look below `root / "components"`, and add what is wrong to the errors."""
        self.root = root
        self.errors = errors
        self.found: dict[str, ComponentSignature | None] = {}

    def find(self, name: str, error: Report) -> ComponentSignature | None:
        """Return the signature of a component; `error` reports where it is named."""
        if name not in self.found:
            self.found[name] = None
            if not os.path.lexists(self.root / "components" / f"{name}.mlir"):
                message, hint = error_text("*", name)
                if not message:
                    message = f"no component named '{name}'"
                    hint = did_you_mean(name, self.names(), "components")
                self.errors.append(error(message, hint))
                # Not kept: each node that names it is wrong.
                del self.found[name]
                return None
            with collected(self.errors):
                self.found[name] = read_component(name, self.root)
        return self.found[name]

    def names(self) -> list[str]:
        """Return the names of all components, sorted."""
        folder = self.root / "components"
        return sorted(
            path.relative_to(folder).with_suffix("").as_posix()
            for path in folder.glob("*/*.mlir")
        )


def _instances(
    instances: Iterable[Instance],
    architecture: Architecture,
    errors: list[ManifestError],
) -> tuple[Instance, ...]:
    """Return the instances by name; two components may not share a file's stem."""
    found: dict[str, Instance] = {}
    for instance in instances:
        other = found.setdefault(instance.name, instance)
        if other.component != instance.component:
            message = f"'{other.component}' and '{instance.component}'"
            error = architecture.declared.at.error
            errors.append(error("blocks", f"{message} share a file name"))
    return tuple(found[name] for name in sorted(found))


def _refuse_unused(architecture: Architecture, errors: list[ManifestError]) -> None:
    """Add an error for each block and parameter that nothing takes."""
    declared, own = architecture.declared, architecture.files[0]
    blocks = declared.blocks
    called, pending = set[str](), [block_name(item) for item in _stepped(architecture)]
    while pending:
        kind = pending.pop()
        if kind not in called and kind in blocks:
            called.add(kind)
            used = (item for item in _uses(blocks[kind]) if item.startswith(BLOCK))
            pending += (block_name(item.removeprefix(BLOCK)) for item in used)
    for kind in blocks:
        if kind not in called:
            message = f"nothing calls block '{kind}'"
            error = declared.at.key_error("blocks", kind, message)
            errors.append(_unused(architecture, error))
    # As written, so that a parameter of a node that does not fit is not reported too.
    written = {
        name
        for block in blocks.values()
        for node in block.nodes
        for name in node.parameters.values()
    } | {
        str(value)
        for block in blocks.values()
        for variant in block.variants.values()
        for value in variant.values()
    }
    for name in declared.parameters:
        if name not in written:
            message = f"no node takes parameter '{name}'"
            error = declared.at.key_error("parameters", name, message)
            errors.append(_unused(architecture, error))
    mentioned = _mentioned(architecture)
    for key in ("dims", "hyperparameters"):
        for index, name in enumerate(getattr(declared, key)):
            if name not in mentioned:
                part = f"{key}[{index}]"
                is_own = declared.at.position(part).path == own
                hint = "" if is_own else f"write '{key}' in {own}"
                errors.append(
                    declared.at.error(part, f"nothing mentions '{name}'", hint)
                )


def _unused(architecture: Architecture, error: ManifestError) -> ManifestError:
    """Return an error at an item that nothing takes, with the way to drop it."""
    own = architecture.files[0]
    if error.position.path != own:
        error.hint = f"list it under 'remove' in {own}"
    return error


def _stepped(architecture: Architecture) -> list[str]:
    """Return the blocks that steps call, as they are written: `layer.local`."""
    return [
        name
        for entry_point in architecture.declared.entry_points.values()
        for step in entry_point.steps
        for name in step.blocks.values()
    ]


def _uses(block: BlockSection) -> list[str]:
    """Return the components and blocks that the nodes of a block use, as written."""
    return [node.uses for node in block.nodes]


def _mentioned(architecture: Architecture) -> set[str]:
    """Return the words of all shapes, types, attributes and repeats."""
    # The longest sequence is bounded by it, in the manifest.
    words = ["n_ctx"]
    for item in architecture.declared.parameters.values():
        words += [*item.dims, item.rope_base, item.gguf_interleaved]
    for block in architecture.declared.blocks.values():
        words += block.inputs.values()
        for given in (*block.variants.values(), *(n.attributes for n in block.nodes)):
            words += map(str, given.values())
    for entry_point in architecture.declared.entry_points.values():
        words += [item.type for item in entry_point.inputs.values()]
        words += [str(step.repeat) for step in entry_point.steps]
    return {name for word in words for name in _WORD.findall(word)}
