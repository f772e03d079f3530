"""Plan the action that writes a model's weights as a parameter archive."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ingot.engine.actions import Action
from ingot.model.graph import Parameter
from ingot.model.manifest import Manifest
from ingot.model.shapes import Dim
from ingot.programs.bake.spec import ARCHIVE, REPORT, BakeSpec, InputFile
from ingot.stages.program import program_argv, program_inputs
from ingot.weights.parameter_spec import ParameterSpec, Part, container


def plan_bake(manifest: Manifest) -> Action:
    """Return the action that bakes the model's weights in its graph's layout."""
    layout, source = manifest.graph.layout, manifest.weights.source
    # Only GGUF needs this package, whose import takes 0.2 s.
    has_gguf = any(container(Path(file.path)) == "gguf" for file in source.files)
    package = ("gguf", "pyyaml") if has_gguf else ()
    shown = f"build/{manifest.model}/weights/{layout}"
    return Action(
        task=f"bake:{manifest.model}@{layout}",
        argv=program_argv("bake"),
        inputs=(
            *((file.path, file.source) for file in source.files),
            *source.index,
            *program_inputs("bake", _specification(manifest)),
        ),
        outputs=(ARCHIVE, REPORT),
        tools=("python", "iree-base-runtime", "ml_dtypes", "numpy", *package),
        exported_to=(f"{shown}/{ARCHIVE}", f"{shown}/{REPORT}"),
    )


def _specification(manifest: Manifest) -> BakeSpec:
    weights = manifest.weights
    source = weights.source
    plain = [item for item in manifest.graph.parameters if item.packing is None]
    return BakeSpec(
        model=manifest.model,
        layout=manifest.graph.layout,
        origin=source.origin,
        seed=source.seed,
        splat=source.splat,
        files=tuple(
            InputFile(file.path, file.label, file.sha256) for file in source.files
        ),
        ignore=weights.ignore,
        parameters=(
            *(_parameter(manifest, item, item.name, item.type.shape) for item in plain),
            *_matrices(manifest),
        ),
    )


def _matrices(manifest: Manifest) -> Iterator[ParameterSpec]:
    """Yield each packed matrix once, with the parts that it is stored as."""
    parts: dict[str, list[Parameter]] = {}
    for parameter in manifest.graph.parameters:
        if parameter.packing:
            parts.setdefault(parameter.packing.matrix, []).append(parameter)
    for matrix, stored in parts.items():
        packing = stored[0].packing
        assert packing
        yield replace(
            _parameter(manifest, stored[0], matrix, packing.shape),
            stored=packing.scheme,
            table=None,
            tile_n=packing.tile_n,
            parts=tuple(
                Part(
                    name=item.name,
                    argument=item.packing.part if item.packing else "",
                    element=item.type.element,
                    shape=_static(item.type.shape),
                )
                for item in stored
            ),
        )


def _parameter(
    manifest: Manifest, item: Parameter, name: str, shape: tuple[Dim, ...]
) -> ParameterSpec:
    return ParameterSpec(
        name=name,
        shape=_static(shape),
        tensor=item.source_name,
        source=manifest.weights.policy(name).source,
        # The archive does not depend on the type in which components compute.
        stored=item.type.element,
        offset=item.offset,
        interleaved_heads=item.interleaved_heads,
        table=item.table,
        form=item.form,
    )


def _static(shape: tuple[Dim, ...]) -> tuple[int, ...]:
    """Return the shape of a parameter; none of its dims is dynamic."""
    return tuple(int(dim) for dim in shape)
