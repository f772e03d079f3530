"""Record what a model's oracle computes, so that each piece is checked on its own.

One run of the oracle yields the inputs of every component and block. Each piece has a
file of its own: if an edit of an oracle does not change this file, the check of that
piece does not run again. Parameters are recorded by name, because the archive contains
them.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from ingot.checks.cases import (
    FAINTEST,
    Case,
    block_cases,
    chain_cases,
    chooses,
    component_cases,
    entry_inputs,
    faint,
    faint_cases,
    traced_calls,
)
from ingot.checks.float32_oracle import in_float32, lost, n_sample, side_by_side
from ingot.checks.padding import Padding, padding_of
from ingot.codec import from_json, to_json
from ingot.model.graph import PARAMETER, Block, EntryPoint, Graph
from ingot.model.oracle import Oracle, Parameters, Step, run_entry_point
from ingot.model.shapes import TensorType

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

    def block(
        self,
        entry: EntryPoint,
        case: Case,
        block: Block,
        values: tuple[Array, ...],
        padding: Padding | None,
    ) -> None:
        """Record a call of a block with these inputs."""
        names = tuple(map(self.array, values))
        use = BlockCall(entry.name, case.inputs(), block.name, names, padding)
        self.calls.append(use)

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
    its tensors. Of blocks that are alike only the first and the last run, and nothing
    that only a result of the entry point needs: a head often has most of the weights.
    """
    made = {x.name: Recording(folder / component_file(x.name)) for x in graph.instances}
    seen: set[tuple[Any, ...]] = set()
    for entry in graph.entry_points:
        few = without_alike(entry)
        needed = {**oracles, **dict.fromkeys(unread(few), _nothing)}
        for case in component_cases(graph, entry, emulated):
            inputs = entry_inputs(graph, entry, case)
            padding = padding_of(entry, case, inputs)
            calls = traced_calls(graph, needed, parameters, few, inputs)
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
        # Blocks of one form differ in their weights alone: two of them are enough to
        # show what faint numbers show.
        some = _chosen(entry, forms)
        every = some if emulated else list(range(len(entry.blocks)))
        alone = dict.fromkeys(block_cases(graph, entry, emulated), every)
        seen: set[tuple[Any, ...]] = set()
        steps: tuple[Step, ...] = ()
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
                values = block_inputs(steps[index], ports, held)
                shapes = (block.name, *(value.shape for value in values))
                if shapes not in seen:
                    seen.add(shapes)
                    recording = made[form_of[entry.name, block.name]]
                    recording.block(entry, case, block, values, padding)
        for case, size in faint_cases(graph, entry, emulated).items():
            blocks = faint_blocks(graph, entry, case, size, steps)
            padding = padding_of(entry, case, entry_inputs(graph, entry, case))
            for name in (entry.blocks[index].name for index in some):
                if name in blocks:
                    recording = made[form_of[entry.name, name]]
                    recording.block(entry, case, *blocks[name], padding)
        chain.write()
    for recording in made.values():
        recording.write()


def block_inputs(
    step: Step, ports: Mapping[str, Array], held: Mapping[tuple[str, str], str]
) -> tuple[Array, ...]:
    """Return the inputs with which a block is called alone.

    A cache is as the caller passed it, without what earlier blocks have written: each
    of those versions would be recorded whole.
    """
    return tuple(
        ports[held[step.block.name, formal]]
        if (step.block.name, formal) in held
        else value
        for (formal, _), value in zip(step.block.inputs, step.inputs, strict=True)
    )


def faint_blocks(
    graph: Graph, entry: EntryPoint, case: Case, size: float, steps: tuple[Step, ...]
) -> dict[str, tuple[Block, tuple[Array, ...]]]:
    """Return blocks by name, with inputs of a case of one token, as faint as `size`.

    What other blocks have computed is of the first token of `steps`, a run of any other
    case: no oracle runs for a cache of the whole context. Left out are blocks that take
    something as long as the cache from another block, and of faintest numbers those
    that choose.
    """
    inputs = entry_inputs(graph, entry, case)
    ports = {port.name: x for port, x in zip(entry.inputs, inputs, strict=True)}
    given = {port.value: ports[port.name] for port in entry.inputs}
    held = entry.held()
    found = {}
    for step in steps:
        block, types = step.block, dict(step.block.types)
        own = {
            formal: ports[held[block.name, formal]]
            if (block.name, formal) in held
            else faint(given.get(name, _first_token(types[formal], value)), size)
            for (formal, name), value in zip(block.inputs, step.inputs, strict=True)
        }
        made = (formal for formal, name in block.inputs if name not in given)
        rest = {x for x in made if (block.name, x) not in held}
        long = any({*types[x].shape} & {"ctx", "n_block", "n_block_seq"} for x in rest)
        if not long and not (size == FAINTEST and chooses(block)):
            found[block.name] = block, tuple(own.values())
        for name, _ in block.outputs:
            given.pop(name, None)
    return found


def _first_token(type_: TensorType, value: Array) -> Array:
    """Return the part of a value that belongs to the first token."""
    return value[
        tuple(slice(1 if x in ("batch", "seq") else None) for x in type_.shape)
    ]


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


def without_alike(entry: EntryPoint) -> EntryPoint:
    """Return the entry point with the first and the last block of those that are alike.

    They call the same components with the same scalars, but for a layer's number. A
    block that gives something that it does not take, such as a type or a name of its
    own, stays.
    """
    places: dict[Any, list[int]] = {}
    for index, block in enumerate(entry.blocks):
        places.setdefault(_calls(block), []).append(index)
    kept = {index for found in places.values() for index in (found[0], found[-1])}
    blocks = []
    for index, block in enumerate(entry.blocks):
        types = dict(block.types)
        taken = {value: types[formal] for formal, value in block.inputs}
        passed = all(taken.get(value) == types[x] for value, x in block.outputs)
        if index in kept or not passed:
            blocks.append(block)
    return replace(entry, blocks=tuple(blocks))


def _calls(block: Block) -> tuple[tuple[str, str], ...]:
    """Return what a block calls: each instance with its scalars, as they are written.

    1 and 1.0 are different scalars.
    """
    return tuple(
        (
            use.instance,
            repr([x for i, x in enumerate(use.scalars) if i not in use.layered]),
        )
        for use in block.calls
    )


def unread(entry: EntryPoint) -> set[str]:
    """Return the instances whose only result no call of the entry point reads."""
    called, read, later = set[str](), set[str](), set[str]()
    for block in reversed(entry.blocks):
        used = {inner for value, inner in block.outputs if value in later}
        used |= {operand for use in block.calls for operand in use.operands}
        called |= {use.instance for use in block.calls}
        read |= {
            use.instance
            for use in block.calls
            if used & {*use.results} or len(use.results) > 1
        }
        later |= {value for _, value in block.inputs}
    return called - read


def _nothing(**_: Any) -> None:
    """Stand for an oracle whose results nobody reads."""


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
