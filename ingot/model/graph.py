"""Define the graph of a model: names are bound, layers written out, shapes known.

`ingot.model.manifest` builds the graph; the MLIR emitter, the oracle and the bake read
it. It is frozen, so that plans can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from ingot.codec import KeepsJson
from ingot.model.shapes import Limit, TensorType
from ingot.weights.parameter_spec import SourceForm
from ingot.weights.rope_table import RopeTable

T = TypeVar("T")

# Before the name of a parameter among the operands of a call.
PARAMETER = "param:"

# A model with fewer weights is small: its components and its blocks are checked in two
# pieces, because starting the compiler for each takes as long as compiling it.
SMALL = 1 << 22


@dataclass(frozen=True, slots=True)
class DynamicDim:
    """A dim that stays dynamic, with its inclusive range."""

    name: str
    min: int
    max: int


@dataclass(frozen=True, slots=True)
class Argument:
    """One tensor argument or result of a component instance, under its formal name."""

    name: str
    type: TensorType
    # Where the values must be; the component does not check them.
    limit: Limit | None = None


@dataclass(frozen=True)
class Instance(KeepsJson):
    """A component bound to dims, which `specialize` turns into one static module.

    `name` is unique for (component, dims) and is the stem of the module's file and its
    symbol: `linear_bias__n_in_384__n_out_1536`.
    """

    name: str
    component: str  # path under components/ without suffix: "linear/linear_bias"
    oracle: tuple[str, str]  # (file, function): ("oracles/linear.py", "linear_bias")
    dims: tuple[tuple[str, int | None], ...]  # None: it stays dynamic
    indices: tuple[tuple[str, int], ...]  # `index` arguments, bound by specialize
    scalars: tuple[
        tuple[str, str], ...
    ]  # (formal name, MLIR type), passed at each call
    arguments: tuple[Argument, ...]  # tensors, in the order of the signature
    results: tuple[Argument, ...]
    weight: str = ""  # what the component's `!weight` stands for, if it has one
    # Places in the component's signature of optional arguments that get no numbers.
    absent: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """One use of an instance inside a block."""

    name: str  # node name in the manifest: "attn_q"
    instance: str  # Instance.name
    operands: tuple[str, ...]  # per tensor: "hidden" or "param:blk.0.attn_q.weight"
    scalars: tuple[float | int, ...]  # per Instance.scalars
    results: tuple[str, ...]  # value names, unique in the block
    # Which of the scalars are the layer's number: the compiler is not to know it, so
    # that all layers share one executable.
    layered: tuple[int, ...] = ()


def parameters_of(calls: Iterable[Call]) -> tuple[str, ...]:
    """Return the parameters that the calls read, each once, in order."""
    operands = (operand for call in calls for operand in call.operands)
    found = (item for item in operands if item.startswith(PARAMETER))
    return tuple(dict.fromkeys(item.removeprefix(PARAMETER) for item in found))


@dataclass(frozen=True)
class Block(KeepsJson):
    """One step of an entry point, expanded: a named, checkable piece of the model."""

    name: str  # "layer.3": unique in the entry point
    kind: str  # "layer": the block's name in the architecture
    inputs: tuple[tuple[str, str], ...]  # (formal name, entry-point value)
    calls: tuple[Call, ...]
    outputs: tuple[tuple[str, str], ...]  # (entry-point value it defines, block value)
    types: tuple[tuple[str, TensorType], ...]  # of every block value, inputs included

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """Return the parameters that the block reads, each once, in order."""
        return parameters_of(self.calls)


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output of an entry point, in order."""

    name: str
    type: TensorType
    role: str  # "tokens", "mask", "embedding", "logits", "cache", ...
    value: str  # the entry-point value (for inputs: the name itself)
    # Outputs: the input whose buffer it takes over, "" where it has its own.
    updates: str = ""
    # Inputs: the ranges that all its numbers must be in, over the graph's dynamic dims.
    limits: tuple[Limit, ...] = ()


@dataclass(frozen=True, slots=True)
class EntryPoint:
    """An exported function of the model."""

    name: str
    inputs: tuple[Port, ...]
    blocks: tuple[Block, ...]
    outputs: tuple[Port, ...]

    def __hash__(self) -> int:
        """Return a hash that costs nothing, so that a graph can keep results by it."""
        return hash(self.name)

    @property
    def block_size(self) -> int:
        """Return how many positions a block of a paged cache has, or 0 without one."""
        for port in self.inputs:
            match port.type.shape:
                case (_, "n_block", int(size), *_) if port.role == "cache":
                    return size
        return 0

    def traced(self) -> dict[str, tuple[str, ...]]:
        """Return, by block, the values that show how far an error has grown.

        Values in the memory of an input are left out: an error in a cache shows in the
        values that are read from it.
        """
        held = self.held()
        return {
            block.name: tuple(
                value
                for value, inner in block.outputs
                if (block.name, inner) not in held
            )
            for block in self.blocks
        }

    def held(self) -> dict[tuple[str, str], str]:
        """Return, by block and its inputs and results, the input that holds a value.

        That is the input of the entry point whose memory the value is in.
        """
        owner = {port.updates: port.updates for port in self.outputs if port.updates}
        found: dict[tuple[str, str], str] = {}
        for block in self.blocks:
            taken = {formal: owner[v] for formal, v in block.inputs if v in owner}
            owners, _ = held_values(block, taken)
            found |= {(block.name, name): port for name, port in owners.items()}
            for value, inner in block.outputs:
                owner.pop(value, None)
                if inner in owners:
                    owner[value] = owners[inner]
        return found


def held_values(
    block: Block, held: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return in which memory a block's values are, and which value each replaces.

    `held` has the block's inputs whose memory belongs to the caller. A result is in the
    memory of an operand of the same type that is held: the component updates it.
    """
    if not held:
        return {}, {}
    types, owners, replaced = dict(block.types), dict(held), dict[str, str]()
    for use in block.calls:
        for result in use.results:
            old = next(
                (
                    operand
                    for operand in use.operands
                    if operand in owners and types[operand] == types[result]
                ),
                None,
            )
            if old is not None:
                owners[result], replaced[result] = owners[old], old
    return owners, replaced


@dataclass(frozen=True, slots=True)
class Packing:
    """How a matrix of the model is stored as one or several parameters.

    Rows, those of all experts one after the other, are taken in tiles of `tile_n`, and
    a tile is stored column by column: element (row, column) is at
    [row / tile_n, column, row % tile_n].
    """

    matrix: str  # "blk.0.attn_q.weight"
    shape: tuple[int, ...]  # (rows, columns), of experts (n_expert, rows, columns)
    scheme: str  # element type and quantisation: "f32", "bf16", "i8", "i4_block32"
    tile_n: int
    part: str  # the kernel's argument: "weight", "weight_scale"


@dataclass(frozen=True)
class Parameter(KeepsJson):
    """A weight of the model, under its GGUF name, and its tensor in the source."""

    name: str  # "blk.0.attn_q.weight"
    type: TensorType  # as stored in the irpa, static
    # "encoder.layer.0.attention.self.query.weight"; with {expert} in it, a tensor each.
    source_name: str
    # Added, in f32, to the values of a Hugging Face checkpoint; GGUF has it added.
    offset: float = 0.0
    # GGUF keeps the rows of this many heads in the order of interleaved rope.
    interleaved_heads: int | None = None
    # Computed, and in no source.
    table: RopeTable | None = None
    # Of a tensor that differs by more than its name.
    form: SourceForm | None = None
    # Set where a target's layout packs it.
    packing: Packing | None = None


@dataclass(frozen=True)
class Graph(KeepsJson):
    """A model's graph, resolved."""

    model: str
    layout: str  # how its matrices are stored: "plain", or what a target asks for
    dynamic: tuple[DynamicDim, ...]
    instances: tuple[Instance, ...]  # sorted by name
    parameters: tuple[Parameter, ...]  # in the order of the manifest, layers expanded
    entry_points: tuple[EntryPoint, ...]
    # Whether the host can read the inputs of a call where they are, as on a CPU.
    host_inputs: bool = False

    @cached_property
    def _results(self) -> dict[object, Any]:
        return {}

    def once(self, function: Callable[..., T], *arguments: Hashable) -> T:
        """Return `function(graph, *arguments)`; the graph keeps the result."""
        key = (function, arguments)
        if key not in self._results:
            self._results[key] = function(self, *arguments)
        result: T = self._results[key]
        return result

    @cached_property
    def is_small(self) -> bool:
        """Return whether the model has fewer weights than `SMALL`."""
        shapes = (item.type.shape for item in self.parameters)
        return sum(math.prod(int(dim) for dim in shape) for shape in shapes) < SMALL

    @cached_property
    def _by_name(self) -> dict[str, Instance]:
        return {item.name: item for item in self.instances}

    def instance(self, name: str) -> Instance:
        """Return the instance of that name."""
        return self._by_name[name]
