"""Give the parameters of an architecture types, and write them out layer by layer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby

from ingot.errors import ManifestError, did_you_mean
from ingot.model.architecture_schema import ArchitectureSection, ParameterSection
from ingot.model.bind import LAYER, Scope
from ingot.model.graph import Parameter
from ingot.model.manifest_schema import WeightsSection
from ingot.model.resolve_blocks import known_dim
from ingot.model.rope_scaling import ScalingSection, scaled, scaling_errors
from ingot.model.schema_types import Place
from ingot.model.shapes import Product, SymbolicType, TensorType, parse_dim
from ingot.model.source_tensors import check_form, source_form
from ingot.weights.rope_table import RopeTable


def parameter_types(
    architecture: ArchitectureSection, scope: Scope
) -> dict[str, SymbolicType | None]:
    """Return the type of each declared parameter: f32 is what components take.

    None stands for a declaration that is wrong and was reported.
    """
    types: dict[str, SymbolicType | None] = {}
    for name, item in architecture.parameters.items():
        before = len(scope.errors)
        shape = tuple(
            _fixed(dim, item.at.part(f"shape[{index}]"), scope)
            for index, dim in enumerate(item.dims)
        )
        if item.gguf_interleaved:
            _fixed(item.gguf_interleaved, item.at.part("gguf_interleaved"), scope)
        if item.rope_base:
            scope.errors.extend(_check_table(item, scope))
        scope.errors.extend(check_form(name, architecture.parameters))
        is_right = len(scope.errors) == before
        types[name] = SymbolicType(shape, "f32") if is_right else None
        if LAYER in item.hf and LAYER not in name:
            message = f"{LAYER} in 'hf', and not in the parameter's name"
            scope.error(item.at.part("hf"), message)
    return types


def written_parameters(
    architecture: ArchitectureSection,
    scope: Scope,
    taken: Iterable[tuple[str, int | None]],
    weights: WeightsSection,
    scaling: Mapping[str, ScalingSection],
) -> tuple[Parameter, ...]:
    """Return the parameters that are taken; each is (name with {layer}, layer).

    `weights` is the manifest's section: how the source names and holds them; `scaling`
    is that of rope tables.
    `blk.0.x` and layer 0 of `blk.{layer}.x` are an error.
    """
    found: dict[str, Parameter] = {}
    for item in _parameters(architecture, scope, taken, weights, scaling):
        if item.name in found:
            message = f"'{item.name}' is declared twice, with and without {LAYER}"
            error = architecture.at.key_error("parameters", item.name, message)
            scope.errors.append(error)
        found[item.name] = item
    return tuple(found.values())


def _fixed(written: str, at: Place, scope: Scope) -> Product:
    """Return the dim that is written; it must be declared, and not be dynamic."""
    dim = parse_dim(written)
    known_dim(dim, at, scope)
    if scope.sizes.get(str(dim), 1) is None:
        scope.error(at, f"'{dim}' stays dynamic; a parameter has a fixed shape")
    return dim


def _check_table(item: ParameterSection, scope: Scope) -> Iterator[ManifestError]:
    """Yield where a table of rope angles cannot be computed."""
    if item.rope_base not in scope.numbers:
        hint = did_you_mean(item.rope_base, list(scope.numbers), "hyperparameters")
        message = f"no hyperparameter named '{item.rope_base}'"
        yield item.at.error("rope_base", message, hint)
    if len(item.shape) != 2:
        message = "a table of rope angles is [n_ctx, n_rot]"
        yield item.at.error("shape", f"{message}; found {len(item.shape)} dims")


def _parameters(
    architecture: ArchitectureSection,
    scope: Scope,
    taken: Iterable[tuple[str, int | None]],
    weights: WeightsSection,
    scaling: Mapping[str, ScalingSection],
) -> Iterator[Parameter]:
    """Yield the parameters in the architecture's order, a run with {layer} by layer."""
    layers: dict[str, dict[int | None, None]] = {}
    for name, layer in taken:
        layers.setdefault(name, {})[layer] = None
    declared = architecture.parameters
    for layered, run in groupby(declared, lambda name: LAYER in name):
        group = list(run)
        numbers: list[int | None] = [None]
        if layered:
            found = {number for name in group for number in layers.get(name, ())}
            numbers = [*sorted(number for number in found if number is not None)]
        for number in numbers:
            for name in group:
                if number in layers.get(name, ()) and scope.parameters[name]:
                    item = declared[name]
                    made = _parameter(name, item, number, scope, weights)
                    form = source_form(name, declared, scope.sizes, weights)
                    table = _table(item, made.type, scope, scaling.get(name))
                    yield replace(made, form=form, table=table)


def _parameter(
    name: str,
    item: ParameterSection,
    layer: int | None,
    scope: Scope,
    weights: WeightsSection,
) -> Parameter:
    number = "" if layer is None else str(layer)
    is_hf = weights.naming == "hf"
    source = item.hf if is_hf and item.hf else name
    declared = scope.parameters[name]
    assert declared, name
    heads = None
    if item.gguf_interleaved and weights.naming == "gguf":
        heads = int(parse_dim(item.gguf_interleaved).resolve(scope.sizes))
    return Parameter(
        name=name.replace(LAYER, number),
        type=declared.resolve(scope.sizes),
        source_name=source.replace(LAYER, number),
        offset=item.hf_offset if is_hf else 0.0,
        interleaved_heads=heads,
    )


def _table(
    item: ParameterSection,
    made: TensorType,
    scope: Scope,
    scaling: ScalingSection | None,
) -> RopeTable | None:
    """Return what a table of rope angles is computed from; None of other parameters."""
    if not item.rope_base:
        return None
    base = float(scope.numbers[item.rope_base])
    if scaling is None:
        return RopeTable(base)
    n_ctx, n_rot = (int(dim) for dim in made.shape)
    scope.errors.extend(wrong := list(scaling_errors(scaling, n_rot)))
    return None if wrong else scaled(scaling, base, n_rot, n_ctx)
