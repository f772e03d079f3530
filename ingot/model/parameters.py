"""The parameters of an architecture in, their types and each layer's parameters out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby

from ingot.errors import ManifestError, did_you_mean
from ingot.model.bind import LAYER, Scope
from ingot.model.graph import Parameter
from ingot.model.manifest_schema import WeightsSection
from ingot.model.resolve_blocks import known_dim
from ingot.model.shapes import Product, SymbolicType, parse_dim
from ingot.model.source_tensors import check_form, source_form
from ingot.model.yaml_nodes import Node


def parameter_types(
    architecture: Node,
    sizes: Mapping[str, int | None],
    numbers: Mapping[str, float | int],
    errors: list[ManifestError],
) -> dict[str, SymbolicType | None]:
    """Return the type of each declared parameter: f32 is what components take.

    None stands for a declaration that is wrong and was reported.
    """
    scope = Scope(sizes, numbers, {})
    types: dict[str, SymbolicType | None] = {}
    for name, node in architecture["parameters"].entries.items():
        before = len(errors)
        shape = tuple(_fixed(item, scope, errors) for item in node["shape"].items)
        if heads := node.get("gguf_interleaved"):
            _fixed(heads, scope, errors)
        if base := node.get("rope_base"):
            _check_table(base, node["shape"], scope, errors)
        check_form(name, node, architecture["parameters"].entries, errors)
        types[name] = SymbolicType(shape, "f32") if len(errors) == before else None
        if (hf := node.get("hf")) and LAYER in hf.text and LAYER not in name:
            message = f"{LAYER} in 'hf', and not in the parameter's name"
            errors.append(hf.error(message))
    return types


def written_parameters(
    architecture: Node,
    scope: Scope,
    taken: Iterable[tuple[str, int | None]],
    weights: WeightsSection,
    errors: list[ManifestError],
) -> tuple[Parameter, ...]:
    """Return the parameters that are taken; each is (name with {layer}, layer).

    `weights` is the manifest's section: how the source names and holds them.

    `blk.0.x` and layer 0 of `blk.{layer}.x` are an error.
    """
    found: dict[str, Parameter] = {}
    for item in _parameters(architecture, scope, taken, weights):
        if item.name in found:
            message = f"'{item.name}' is declared twice, with and without {LAYER}"
            parameters_node = architecture["parameters"]
            errors.append(parameters_node.key_error(item.name, message))
        found[item.name] = item
    return tuple(found.values())


def _fixed(node: Node, scope: Scope, errors: list[ManifestError]) -> Product:
    """Return the dim that a node spells; it must be declared, and not be dynamic."""
    dim = parse_dim(str(node.value))
    known_dim(dim, node, scope, errors)
    if scope.sizes.get(str(dim), 1) is None:
        message = f"'{dim}' stays dynamic; a parameter has a fixed shape"
        errors.append(node.error(message))
    return dim


def _check_table(
    base: Node, shape: Node, scope: Scope, errors: list[ManifestError]
) -> None:
    """Add errors where a table of rope angles cannot be computed."""
    if base.text not in scope.numbers:
        hint = did_you_mean(base.text, list(scope.numbers), "hyperparameters")
        errors.append(base.error(f"no hyperparameter named '{base.text}'", hint))
    if len(shape.items) != 2:
        message = "a table of rope angles is [n_ctx, n_rot]"
        errors.append(shape.error(f"{message}; found {len(shape.items)} dims"))


def _parameters(
    architecture: Node,
    scope: Scope,
    taken: Iterable[tuple[str, int | None]],
    weights: WeightsSection,
) -> Iterator[Parameter]:
    """Yield the parameters in the architecture's order, a run with {layer} by layer."""
    layers: dict[str, dict[int | None, None]] = {}
    for name, layer in taken:
        layers.setdefault(name, {})[layer] = None
    declared = architecture["parameters"].entries.items()
    for layered, run in groupby(declared, lambda item: LAYER in item[0]):
        group = list(run)
        numbers: list[int | None] = [None]
        if layered:
            found = {number for name, _ in group for number in layers.get(name, ())}
            numbers = [*sorted(number for number in found if number is not None)]
        for number in numbers:
            for name, node in group:
                if number in layers.get(name, ()) and scope.parameters[name]:
                    made = _parameter(name, node, number, scope, weights)
                    form = source_form(name, node, architecture, scope.sizes, weights)
                    yield replace(made, form=form)


def _parameter(
    name: str, node: Node, layer: int | None, scope: Scope, weights: WeightsSection
) -> Parameter:
    number = "" if layer is None else str(layer)
    names = weights.names
    found = node.get("hf") if names == "hf" else None
    source = found.text if found else name
    declared = scope.parameters[name]
    assert declared, name
    offset, heads = node.get("hf_offset"), node.get("gguf_interleaved")
    rope = node.get("rope_base")
    resolved = parse_dim(heads.text).resolve(scope.sizes) if heads else None
    return Parameter(
        name=name.replace(LAYER, number),
        type=declared.resolve(scope.sizes),
        source_name=source.replace(LAYER, number),
        offset=offset.number if offset and names == "hf" else 0.0,
        interleaved_heads=int(resolved) if resolved and names == "gguf" else None,
        table=("rope", float(scope.numbers[rope.text])) if rope else None,
    )
