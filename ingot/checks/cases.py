"""Generate seeded tensors of realistic scale for a check."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from ingot.errors import IngotError
from ingot.model.graph import (
    PARAMETER,
    Block,
    Call,
    DynamicDim,
    EntryPoint,
    Graph,
    Port,
)
from ingot.model.oracle import Oracle, Parameters, run_entry_point, token_limit
from ingot.model.shapes import TensorType

Array: TypeAlias = Any

# Longer sequences reveal nothing more about a kernel, even with sliding windows.
LONGEST = 640
# A token takes an emulated processor 0.1 to 2 s, a native one a millisecond: pieces run
# a sequence one position longer than a block of attention_causal, and the whole model
# runs a few tokens.
LONGEST_EMULATED = 65
# Sequences and the tokens of the longest, on a target that is not emulated.
PADDED_BATCH = (3, 14)
# The root of the mean square of faint numbers: an eps is 1e-12 to 1e-5. Behind a norm
# they are a thousand times as large, and behind another they are not faint any more.
FAINT, FAINTEST = 1e-4, 1e-10
# A cache of the whole context has at most so many numbers, 64 MB, or is not made.
LARGEST_CACHE = 1 << 24
# Positions of a cache in addition to the sequence's.
CACHED = 5

ELEMENTS = {
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "i64": "int64",
    "i32": "int32",
    "i16": "int16",
    "i8": "int8",
    "i1": "bool",
}


@dataclass(frozen=True, slots=True)
class Case:
    """Sizes for the dynamic dims, and the number of real positions per batch row."""

    batch: int
    seq: int
    valid: tuple[int, ...]
    ctx: int = 0  # positions that a sequence has in the cache, 0 where there is none

    def inputs(self) -> tuple[tuple[str, int], ...]:
        """Return the sizes as a report shows them; `padded` is the longest padding."""
        padding = self.seq - min(self.valid)
        sizes = [("batch", self.batch), ("seq", self.seq)]
        sizes += [("ctx", self.ctx)] if self.ctx else []
        return (*sizes, ("padded", padding)) if padding else tuple(sizes)


def make_case(
    graph: Graph,
    entry: EntryPoint,
    batch: int,
    seq: int,
    cached: int = CACHED,
    is_padded: bool = True,
) -> Case:
    """Return a case within the graph's ranges; all rows except the first are padded.

    A single row is padded too if it is long enough to lose a quarter. Where the entry
    point fixes the sequence, its cache is as long as the requested sequence, and
    `cached` positions longer.
    """
    ranges = {dim.name: dim for dim in graph.dynamic}
    taken = {dim for port in entry.inputs for dim in port.type.shape}
    batch, seq = _clip(ranges.get("batch"), batch), _clip(ranges.get("seq"), seq)
    ctx = _clip(ranges["ctx"], seq + cached) if "ctx" in taken else 0
    if block_size := entry.block_size:
        blocks = _clip(ranges.get("n_block_seq"), -(-(seq + cached) // block_size))
        ctx, seq = blocks * block_size, min(seq, blocks * block_size)
    seq = seq if "seq" in taken else 1
    if batch == 1:
        return Case(1, seq, (seq - seq // 4 if is_padded else seq,), ctx)
    rng = np_rng("case", batch, seq)
    padded = (int(rng.integers(1, seq + 1)) for _ in range(batch - 1))
    return Case(batch, seq, (seq, *padded), ctx)


def component_cases(
    graph: Graph, entry: EntryPoint, emulated: bool
) -> tuple[Case, ...]:
    """Return one token, odd sizes, a padded batch, and the longest sequence."""
    longest = _longest(graph, emulated)
    shapes: tuple[tuple[int, int], ...]
    shapes = ((1, 1), (1, 17), (2, 7), (3, 40), (1, longest))
    if emulated:
        # Every call starts the emulator or compiles shaders, which takes a second or
        # more.
        shapes = ((1, 1), (3, 7), (1, longest))
    return _unique(make_case(graph, entry, batch, seq) for batch, seq in shapes)


def block_cases(graph: Graph, entry: EntryPoint, emulated: bool) -> tuple[Case, ...]:
    """Return an odd single sequence and a padded batch; emulated, also the longest.

    A native target runs the longest with the whole model.
    """
    shapes = [(1, 9), PADDED_BATCH]
    if emulated:
        shapes.append((1, _longest(graph, emulated)))
    return _unique(make_case(graph, entry, batch, seq) for batch, seq in shapes)


def faint_cases(graph: Graph, entry: EntryPoint, emulated: bool) -> dict[Case, float]:
    """Return the cases of one token in which blocks get faint numbers, and their size.

    Trained weights have hidden states up to thousands, which hide any eps. The first
    case has a cache so long that windows end in it; the other has nothing to attend to
    but the token, so that its numbers stay faint behind norms. There are none without a
    cache.
    """
    far = make_case(graph, entry, 1, 1, cached=_farthest(graph, entry, emulated))
    alone = make_case(graph, entry, 1, 1, cached=0)
    return {far: FAINT, alone: FAINTEST} if far.ctx else {}


def _farthest(graph: Graph, entry: EntryPoint, emulated: bool) -> int:
    """Return the context's length, because windows end there too, if it is cheap."""
    n_ctx = max((dim.max for dim in graph.dynamic if dim.name == "ctx"), default=0)
    cache = (port for port in entry.inputs if port.role == "cache")
    rows = [
        math.prod(x for x in port.type.shape if isinstance(x, int)) for port in cache
    ]
    is_cheap = not emulated and n_ctx * max(rows, default=0) <= LARGEST_CACHE
    return n_ctx if is_cheap and not entry.block_size else LONGEST


def chooses(block: Block) -> bool:
    """Return whether a block computes integers, such as the numbers of experts.

    Of faintest values two may be equal in float32 that are not in float64.
    """
    types = dict(block.types)
    results = (name for use in block.calls for name in use.results)
    return any(types[name].element.startswith("i") for name in results)


def faint(value: Array, size: float) -> Array:
    """Return the numbers so much smaller that the eps of a norm decides what it gives.

    `size` is the root of their mean square.
    """
    import numpy as np

    if not np.issubdtype(value.dtype, np.floating):
        return value
    root = float(np.sqrt(np.square(value).mean()))
    return value * (size / root) if root else value


def chain_cases(graph: Graph, entry: EntryPoint, emulated: bool) -> tuple[Case, ...]:
    """Return the cases of all blocks in a chain: those of blocks, or a few tokens."""
    if not emulated:
        return block_cases(graph, entry, emulated)
    return (make_case(graph, entry, 1, 4),)


def model_cases(graph: Graph, entry: EntryPoint, emulated: bool) -> tuple[Case, ...]:
    """Return one token, a padded batch, and the longest sequence.

    The longest is not padded, so that it is longer than windows are. An emulated target
    runs the longest in its components and blocks.
    """
    if emulated:
        return _unique(make_case(graph, entry, *shape) for shape in ((1, 1), (2, 3)))
    short = (make_case(graph, entry, *shape) for shape in ((1, 1), PADDED_BATCH))
    seq = _longest(graph, emulated)
    return _unique((*short, make_case(graph, entry, 1, seq, is_padded=False)))


def _longest(graph: Graph, emulated: bool) -> int:
    longest = max((dim.max for dim in graph.dynamic if dim.name == "seq"), default=1)
    return min(longest, LONGEST_EMULATED if emulated else LONGEST)


def np_rng(name: str, *numbers: int) -> Any:
    """Return a generator whose seed derives from its purpose, the same everywhere."""
    import numpy as np

    return np.random.default_rng([zlib.crc32(name.encode()), *numbers])


def as_element(array: Array, element: str) -> Array:
    """Return the array in the target's element type, converted if necessary.

    Raises: IngotError for an element type that .npy does not have.
    """
    import numpy as np

    return np.asarray(array).astype(numpy_type(element), copy=False)


def numpy_type(element: str) -> Any:
    """Return the NumPy type of an element type.

    Raises: IngotError for one that cannot be passed to a target.
    """
    import numpy as np

    if element == "bf16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    if element not in ELEMENTS:
        raise IngotError(
            f"element type '{element}' cannot be passed to a check",
            f"known element types: bf16, {', '.join(ELEMENTS)}",
        )
    return np.dtype(ELEMENTS[element])


def entry_inputs(graph: Graph, entry: EntryPoint, case: Case) -> tuple[Array, ...]:
    """Return a tensor per input: random tokens, the case's mask, normal numbers.

    Tokens under the padding are random too, because nothing there may affect the
    result.
    Raises: IngotError for an integer input whose range is unknown.
    """
    return tuple(_input(graph, entry, port, case) for port in entry.inputs)


def traced_calls(
    graph: Graph,
    oracles: Mapping[str, Oracle],
    parameters: Parameters,
    entry: EntryPoint,
    inputs: tuple[Array, ...],
) -> tuple[tuple[Call, tuple[Array, ...]], ...]:
    """Return each instance's first call in a run of the oracle, with its operands.

    There is one for each set of scalars with which an instance is called, sorted by
    instance; of calls that differ only in the layer's number, the last.
    """
    found: dict[tuple[str, str], tuple[Call, tuple[Array, ...]]] = {}

    def keep(call: Call, operands: tuple[Array, ...]) -> None:
        scalars = [v for i, v in enumerate(call.scalars) if i not in call.layered]
        key = (call.instance, repr(scalars))
        if call.layered or key not in found:
            found[key] = (call, operands)

    run_entry_point(graph, oracles, entry, inputs, parameters, keep)
    return tuple(found[key] for key in sorted(found))


def shuffled(name: str, operand: Array, element: str, rng: Any) -> Array:
    """Return the operand with the values of each row in another order.

    Operands of one call often have the same values at the same positions, which hides
    errors of indexing. Other values might be invalid: for example, the input of a
    logarithm is positive. If all values are equal, they are varied by a thousandth,
    towards 0.

    Parameters are not shuffled, because they are realistic already. Neither are
    integers (ids, masks), whose values have a meaning.
    """
    if _is_kept(name, operand):
        return as_element(operand, element)
    made = rng.permuted(operand, axis=-1) if operand.ndim else operand
    if operand.size and operand.min() == operand.max():
        made = made * rng.uniform(0.999, 1, operand.shape)
    return as_element(made, element)


def resampled(name: str, operand: Array, element: str, rng: Any) -> Array:
    """Return values drawn from the operand's own, with another sum.

    It leaves unchanged what `shuffled` leaves unchanged.
    """
    if _is_kept(name, operand) or not operand.size:
        return as_element(operand, element)
    return as_element(rng.choice(operand.ravel(), operand.shape), element)


def _is_kept(name: str, operand: Array) -> bool:
    import numpy as np

    return name.startswith(PARAMETER) or not np.issubdtype(operand.dtype, np.floating)


def _input(graph: Graph, entry: EntryPoint, port: Port, case: Case) -> Array:
    import numpy as np

    shape = _shape(graph, entry, port.type, case)
    rng = np_rng(f"{entry.name}.{port.name}", case.batch, case.seq)
    if port.role == "mask":
        real = np.arange(case.seq)[None, :] < np.asarray(case.valid)[:, None]
        return as_element(real, port.type.element)
    if port.role == "last_index":
        return as_element(np.asarray(case.valid) - 1, port.type.element)
    if port.role == "start":
        # The first row reaches the end of the cache, if there is one.
        free = max(case.ctx - case.seq, 0)
        starts = [free, *rng.integers(0, free + 1, case.batch - 1)]
        return as_element(starts, port.type.element)
    if port.role == "block_table":
        # Block 0 belongs to no sequence; no two sequences share one of the others.
        blocks = 1 + rng.permutation(shape[0] * shape[1])
        return as_element(blocks.reshape(shape), port.type.element)
    if port.type.element.startswith("i"):
        limit = token_limit(graph, entry, port.value)
        if limit is None:
            raise IngotError(
                f"{entry.name}.{port.name}: no rule for integers of role '{port.role}'",
                "known roles: mask, start, last, block_table, and whatever indexes"
                " n_vocab rows",
            )
        return as_element(rng.integers(0, limit, shape), port.type.element)
    return as_element(rng.normal(size=shape), port.type.element)


def _shape(
    graph: Graph, entry: EntryPoint, type_: TensorType, case: Case
) -> tuple[int, ...]:
    sizes = {dim.name: _clip(dim, 16) for dim in graph.dynamic}
    sizes |= {"batch": case.batch, "seq": case.seq, "ctx": case.ctx}
    if block_size := entry.block_size:
        blocks = case.ctx // block_size
        sizes |= {"n_block_seq": blocks, "n_block": 1 + case.batch * blocks}
    return tuple(sizes[dim] if isinstance(dim, str) else dim for dim in type_.shape)


def _clip(dim: DynamicDim | None, size: int) -> int:
    return size if dim is None else min(max(size, dim.min), dim.max)


def _unique(cases: Any) -> tuple[Case, ...]:
    return tuple(dict.fromkeys(cases))
