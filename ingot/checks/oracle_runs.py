"""Record what a model's oracle computes, so that each piece is checked on its own.

One run of the oracle yields the inputs of every component and block. Each piece has a
file of its own: if an edit of an oracle does not change this file, the check of that
piece does not run again. Parameters are recorded by name, because the archive contains
them.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from ingot.checks.cases import (
    Case,
    block_cases,
    chain_cases,
    component_cases,
    entry_inputs,
    faint,
    far_cases,
    traced_calls,
)
from ingot.checks.float32_oracle import in_float32, lost, n_sample, side_by_side
from ingot.checks.padding import Padding, padding_of
from ingot.codec import from_json, to_json
from ingot.model.graph import PARAMETER, EntryPoint, Graph
from ingot.model.oracle import Oracle, Parameters, Step, run_entry_point

Array: TypeAlias = Any
T = TypeVar("T")
Sizes: TypeAlias = tuple[tuple[str, int], ...]

META = "meta.json"

Form: TypeAlias = tuple[str, tuple[tuple[str, str], ...]]
"""The name of a form of block, and its blocks as (entry point, block)."""


@dataclass(frozen=True, slots=True)
class ComponentCall:
    """A call of an instance, with the recorded operands: "" of a parameter."""

    entry_point: str
    sizes: Sizes  # as a report shows them
    seed: tuple[int, int]
    instance: str
    operands: tuple[str, ...]
    arrays: tuple[str, ...]
    scalars: tuple[float | int, ...]
    padding: Padding | None


@dataclass(frozen=True, slots=True)
class BlockCall:
    """A call of a block, with the recorded value of each input."""

    entry_point: str
    sizes: Sizes
    block: str
    inputs: tuple[str, ...]
    padding: Padding | None


@dataclass(frozen=True, slots=True)
class ChainCall:
    """A run of all blocks: the entry point's inputs, and each block's results.

    A result in the memory of an input is not recorded: "".
    """

    entry_point: str
    sizes: Sizes
    inputs: tuple[str, ...]
    outputs: tuple[tuple[str, ...], ...]  # by block
    losses: tuple[tuple[str, ...], ...]  # what float32 loses of each result
    padding: Padding | None


@dataclass(slots=True)
class Recording:
    """Arrays that are being recorded, each once, however often it is used."""

    path: Path
    calls: list[Any] = field(default_factory=list)
    _arrays: list[Array] = field(default_factory=list)
    _names: dict[int, str] = field(default_factory=dict)

    def array(self, value: Array, element: str = "f64") -> str:
        """Record an array of this element type; return its name."""
        if id(value) not in self._names:
            self._names[id(value)] = f"{len(self._arrays)}.npy"
            self._arrays.append((value, element))
        return self._names[id(value)]

    def write(self) -> None:
        """Write the file, whose bytes depend on nothing but its content."""
        from numpy.lib import format as npy

        with zipfile.ZipFile(self.path, "w") as file:
            for number, (value, element) in enumerate(self._arrays):
                with file.open(f"{number}.npy", "w", force_zip64=True) as entry:
                    npy.write_array(entry, _stored(value, element), allow_pickle=False)
            text = to_json(tuple(self.calls))
            file.writestr(zipfile.ZipInfo(META), text)


@dataclass(frozen=True, slots=True)
class Recorded:
    """The content of a file that `Recording` wrote."""

    path: Path

    def calls(self, kind: type[T]) -> tuple[T, ...]:
        """Return the recorded calls, which are of this kind."""
        of: Any = tuple[kind, ...]  # type: ignore[valid-type]
        with zipfile.ZipFile(self.path) as file:
            made: tuple[T, ...] = from_json(of, file.read(META))
        return made

    def array(self, name: str) -> Array:
        """Return a recorded array."""
        from numpy.lib import format as npy

        with zipfile.ZipFile(self.path) as file, file.open(name) as entry:
            return npy.read_array(entry, allow_pickle=False)


def record_components(
    graph: Graph,
    oracles: Mapping[str, Oracle],
    parameters: Parameters,
    emulated: bool,
    folder: Path,
) -> None:
    """Write `component.<instance>.npz` for every instance.

    It has every set of scalars with which the instance is called, once per shapes of
    its tensors.
    """
    made = {x.name: Recording(folder / component_file(x.name)) for x in graph.instances}
    seen: set[tuple[Any, ...]] = set()
    for entry in graph.entry_points:
        for case in component_cases(graph, entry, emulated):
            inputs = entry_inputs(graph, entry, case)
            padding = padding_of(entry, case, inputs)
            calls = traced_calls(graph, oracles, parameters, entry, inputs)
            for use, operands in calls:
                shapes = tuple(operand.shape for operand in operands)
                if (use.instance, use.scalars, shapes) in seen:
                    continue
                seen.add((use.instance, use.scalars, shapes))
                recording = made[use.instance]
                formals = graph.instance(use.instance).arguments
                arrays = [
                    ""
                    if name.startswith(PARAMETER)
                    else recording.array(operand, formal.type.element)
                    for name, operand, formal in zip(
                        use.operands, operands, formals, strict=True
                    )
                ]
                recording.calls.append(
                    ComponentCall(
                        entry.name,
                        case.inputs(),
                        (case.batch, case.seq),
                        use.instance,
                        use.operands,
                        tuple(arrays),
                        use.scalars,
                        padding,
                    )
                )
    for recording in made.values():
        recording.write()


def record_blocks(
    graph: Graph,
    oracles: Mapping[str, Oracle],
    parameters: Parameters,
    forms: tuple[Form, ...],
    emulated: bool,
    folder: Path,
) -> None:
    """Write `block.<form>.npz` for every form, and `chain.<entry>.npz`."""
    made = {name: Recording(folder / block_file(name)) for name, _ in forms}
    form_of = {block: name for name, blocks in forms for block in blocks}
    for entry in graph.entry_points:
        held = entry.held()
        chain = Recording(folder / chain_file(entry.name))
        chained = chain_cases(graph, entry, emulated)
        # Blocks of one form differ in their weights alone: two of them show where a
        # window ends.
        some = _chosen(entry, forms)
        every = some if emulated else list(range(len(entry.blocks)))
        far = far_cases(graph, entry)
        alone = dict.fromkeys(far, some)
        alone |= dict.fromkeys(block_cases(graph, entry, emulated), every)
        seen: set[tuple[Any, ...]] = set()
        for case in dict.fromkeys((*alone, *chained)):
            inputs = entry_inputs(graph, entry, case)
            padding = padding_of(entry, case, inputs)
            _, steps = run_entry_point(
                graph, oracles, entry, inputs, parameters, keep=True
            )
            ports = {port.name: x for port, x in zip(entry.inputs, inputs, strict=True)}
            if case in chained:
                types = (port.type for port in entry.inputs)
                several = side_by_side(
                    [*zip(types, inputs, strict=True)], n_sample(case.inputs())
                )
                narrowed = in_float32(oracles)
                _, narrow = run_entry_point(
                    graph, narrowed, entry, several, parameters, keep=True
                )
                both = tuple(zip(steps, narrow, strict=True))
                chain.calls.append(_chain(chain, entry, case, inputs, both, padding))
            for index in alone.get(case, ()):
                block = entry.blocks[index]
                values = block_inputs(steps[index], ports, held, case in far)
                shapes = (block.name, *(value.shape for value in values), case in far)
                if shapes not in seen:
                    seen.add(shapes)
                    recording = made[form_of[entry.name, block.name]]
                    names = tuple(map(recording.array, values))
                    use = BlockCall(
                        entry.name, case.inputs(), block.name, names, padding
                    )
                    recording.calls.append(use)
        chain.write()
    for recording in made.values():
        recording.write()


def block_inputs(
    step: Step,
    ports: Mapping[str, Array],
    held: Mapping[tuple[str, str], str],
    is_faint: bool,
) -> tuple[Array, ...]:
    """Return the inputs with which a block is called alone.

    A cache is as the caller passed it, without what earlier blocks have written: each
    of those versions would be recorded whole.
    """
    return tuple(
        ports[held[step.block.name, formal]]
        if (step.block.name, formal) in held
        else (faint(value) if is_faint else value)
        for (formal, _), value in zip(step.block.inputs, step.inputs, strict=True)
    )


def component_file(instance: str) -> str:
    """Return the name of the file with an instance's operands."""
    return f"component.{instance}.npz"


def block_file(form: str) -> str:
    """Return the name of the file with the inputs of a form's blocks."""
    return f"block.{form}.npz"


def chain_file(entry: str) -> str:
    """Return the name of the file with the values between an entry point's blocks."""
    return f"chain.{entry}.npz"


def _stored(value: Array, element: str) -> Array:
    """Return the array as it is recorded: in f32 if the target takes f32."""
    import numpy as np

    array = np.asarray(value)
    if array.dtype.kind in "biu" or element == "f64":
        return array
    return array.astype(np.float32)


def _chosen(entry: EntryPoint, forms: tuple[Form, ...]) -> list[int]:
    """Return the numbers of the first and the last block of each form, in order."""
    names = [block.name for block in entry.blocks]
    found: set[int] = set()
    for _, blocks in forms:
        own = [names.index(block) for name, block in blocks if name == entry.name]
        found |= {*own[:1], *own[-1:]}
    return sorted(found)


def _chain(
    recording: Recording,
    entry: EntryPoint,
    case: Case,
    inputs: tuple[Array, ...],
    steps: tuple[tuple[Step, Step], ...],  # of each block: in float64 and float32
    padding: Padding | None,
) -> ChainCall:
    held, count = entry.held(), n_sample(case.inputs())
    outputs, losses = [], []
    for step, narrow in steps:
        block, types = step.block, dict(step.block.types)
        names = [
            (
                recording.array(wide),
                recording.array(lost(types[inner], wide, less, count), "f32"),
            )
            if (block.name, inner) not in held
            else ("", "")
            for (_, inner), wide, less in zip(
                block.outputs, step.outputs, narrow.outputs, strict=True
            )
        ]
        outputs.append(tuple(name for name, _ in names))
        losses.append(tuple(name for _, name in names))
    return ChainCall(
        entry_point=entry.name,
        sizes=case.inputs(),
        inputs=tuple(map(recording.array, inputs)),
        outputs=tuple(outputs),
        losses=tuple(losses),
        padding=padding,
    )
