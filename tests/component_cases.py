"""What components are tried at: their dims, and the arguments of one call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import ml_dtypes
import numpy as np

from ingot.graph import Argument, Instance, TensorType
from ingot.readers.component import (
    ComponentSignature,
    IndexFormal,
    ScalarFormal,
    TensorFormal,
    read_component,
)
from ingot.readers.shapes import SymbolicType

ROOT = Path(__file__).resolve().parent.parent

# No model's: small, and no multiple of a vector.
DYNAMIC_SIZES = {
    "n_vocab": 19,
    "n_ctx": 201,
    "n_embd": 30,
    "n_embd_kv": 21,
    "n_head": 6,
    "n_head_kv": 3,
    # Even: a head turns and multiplies in halves.
    "head_dim": 10,
    "n_rot": 4,
    "n_ff": 21,
    "n_in": 13,
    "n_out": 22,
    "n_tile": 5,
    "n_block": 2,
    "lane": 4,
    "n_layer": 3,
    "block_size": 4,
    "n_expert": 5,
    "n_expert_used": 2,
}
# Of Gemma 3 270M, SmolLM2 135M, Qwen 2 0.5B, Qwen 3 0.6B, and of mixtures; rows of
# the tables alone are fewer: they are addresses, and 4096 of them make the same code.
# So are the experts and what they make.
REAL_SIZES: Mapping[str, tuple[dict[str, int], ...]] = {
    "activation/geglu_tanh": ({"n_ff": 2048},),
    "activation/swiglu": ({"n_ff": 1536}, {"n_ff": 4864}),
    "attention/attention_causal": (
        {"n_layer": 3, "n_head": 4, "n_head_kv": 1, "head_dim": 256},
        {"n_layer": 3, "n_head": 9, "n_head_kv": 3, "head_dim": 64},
        {"n_layer": 3, "n_head": 14, "n_head_kv": 2, "head_dim": 64},
        {"n_layer": 3, "n_head": 16, "n_head_kv": 8, "head_dim": 128},
        {"n_layer": 3, "n_head": 2, "n_head_kv": 2, "head_dim": 64},
    ),
    "attention/attention_paged": (
        {"n_layer": 3, "n_head": 32, "n_head_kv": 8, "head_dim": 128, "block_size": 16},
    ),
    "cache/kv_cache_update": (
        {"n_layer": 18, "n_embd_kv": 256},
        {"n_layer": 3, "n_embd_kv": 192},
    ),
    "cache/paged_cache_update": ({"n_layer": 3, "n_embd_kv": 1024, "block_size": 16},),
    "elementwise/soft_cap": ({"n_vocab": 49152, "seq": 1},),
    "embedding/embedding_lookup_scaled": ({"n_vocab": 4096, "n_embd": 640},),
    "linear/linear": (
        {"n_in": 640, "n_out": 1024},
        {"n_in": 576, "n_out": 192},
        {"n_in": 4864, "n_out": 896},
        {"n_in": 576, "n_out": 49152, "seq": 1},
    ),
    "moe/expert_router": (
        {"n_expert": 8, "n_expert_used": 2},
        {"n_expert": 60, "n_expert_used": 4},
    ),
    "moe/mul_mat_id": ({"n_expert": 5, "n_expert_used": 2, "n_in": 1408, "n_out": 48},),
    # Rows so long that no tile of them fits the stack.
    "moe/mul_mat_id_each_packed": (
        {"n_expert": 3, "n_expert_used": 2, "n_tile": 6, "n_in": 8192, "lane": 8},
    ),
    "moe/mul_mat_id_packed": (
        {"n_expert": 5, "n_expert_used": 4, "n_tile": 22, "n_in": 2048, "lane": 8},
    ),
    "normalization/rms_norm": ({"n_embd": 576}, {"n_embd": 1024}),
    "normalization/rms_norm_heads": (
        {"n_head": 1, "head_dim": 256},
        {"n_head": 16, "head_dim": 128},
    ),
    "normalization/rms_norm_plus_one": ({"n_embd": 640},),
    "position/rope": (
        {"n_ctx": 4096, "n_rot": 256, "n_head": 1, "head_dim": 256},
        {"n_ctx": 4096, "n_rot": 64, "n_head": 9, "head_dim": 64},
        {"n_ctx": 4096, "n_rot": 32, "n_head": 32, "head_dim": 80},
    ),
    "position/rope_interleaved": (
        {"n_ctx": 4096, "n_rot": 64, "n_head": 9, "head_dim": 64},
        {"n_ctx": 4096, "n_rot": 64, "n_head": 16, "head_dim": 256},
    ),
    "sequence/last_position": ({"n_embd": 640},),
}
NUMPY = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
# batch, and seq below, at and above what kernels take at once.
SHAPES = ((1, 1), (1, 7), (1, 64), (1, 200), (3, 1), (3, 7), (3, 64), (3, 200))
# Where seq is bound, as in decode: batch below, at and above a vector.
STEPS = ((1, 1), (3, 1), (8, 1), (17, 1))
# Positions of a cache beyond the longest sequence.
SPARE = 9
SCALARS: Mapping[str, float | int] = {
    "eps": 1e-12,
    "scale": 0.625,
    "cap": 2.0,
    "layer": 1,
    "window": 20,
    "factor": 0.625,
    "low": -0.5,
    "high": 0.75,
}


def sized(kind: SymbolicType, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Return a shape over the component's dims as numbers."""
    return tuple(
        dim.size * int(np.prod([sizes[name] for name in dim.names]))
        for dim in kind.shape
    )


def real_instances() -> dict[str, Instance]:
    """Return the instances at real dims by name, with seq dynamic and with seq 1."""
    found = {}
    for component, rows in REAL_SIZES.items():
        signature = read_component(component, ROOT)
        for row in rows:
            for sizes in (row, row | {"seq": 1}):
                item = instance_of(signature, sizes)
                found[item.name] = item
    return found


def instance_of(signature: ComponentSignature, sizes: Mapping[str, int]) -> Instance:
    """Return the instance of a component at sizes; other dims stay dynamic."""

    def argument(formal: TensorFormal) -> Argument:
        shape = tuple(
            dim.size * int(np.prod([sizes[name] for name in dim.names]))
            if set(dim.names) <= set(sizes)
            else "*".join(dim.names)
            for dim in formal.type.shape
        )
        return Argument(formal.name, TensorType(shape, formal.type.element))

    stem = signature.component.rpartition("/")[2]
    words = (f"{name}_{size}" for name, size in sizes.items())
    formals = signature.arguments
    return Instance(
        name="__".join((stem, *words)),
        component=signature.component,
        oracle=signature.oracle,
        dims=tuple(sizes.items()),
        indices=tuple(
            (item.name, sizes[item.dim])
            for item in formals
            if isinstance(item, IndexFormal)
        ),
        scalars=tuple(
            (item.name, item.type) for item in formals if isinstance(item, ScalarFormal)
        ),
        arguments=tuple(argument(i) for i in formals if isinstance(i, TensorFormal)),
        results=tuple(map(argument, signature.results)),
    )


def masks(batch: int, seq: int) -> Iterator[np.ndarray]:
    """Yield a mask without padding, a mostly padded one, and one with nothing real."""
    yield np.ones((batch, seq), np.int32)
    lengths = np.maximum(1, seq // 8 * np.arange(batch))[:, None]
    yield (np.arange(seq) < lengths).astype(np.int32)
    nothing = np.ones((batch, seq), np.int32)
    nothing[-1] = 0
    yield nothing


def operands(
    signature: ComponentSignature, sizes: Mapping[str, int], mask: np.ndarray
) -> list[np.ndarray]:
    """Return a tensor per tensor argument, such as a trained model would have."""
    rng = np.random.default_rng([sizes["batch"], sizes["seq"]])
    tensors = [i for i in signature.arguments if isinstance(i, TensorFormal)]
    names = {name for formal in tensors for name in formal.type.names}
    # Positions end where the table or the cache does.
    room = min((sizes[name] for name in ("n_ctx", "ctx") if name in names), default=1)
    room = (
        sizes["n_block_seq"] * sizes["block_size"] if "n_block_seq" in names else room
    )
    rows = sizes.get("n_vocab", sizes.get("n_tile", 0) * sizes.get("lane", 0))
    rows = sizes["n_expert"] if "n_expert" in names else rows
    ends = {"ids": rows, "last": sizes["seq"], "start": room - sizes["seq"] + 1}
    found = []
    for formal in tensors:
        shape = sized(formal.type, sizes)
        if formal.name == "mask":
            found.append(mask)
        elif formal.name == "block_table":
            blocks = 1 + rng.permutation(sizes["n_block"] - 1).astype(np.int32)
            found.append(blocks[: int(np.prod(shape))].reshape(shape))
        elif formal.name == "share":
            found.append(rng.random(shape, dtype=np.float32))
        elif formal.type.element == "i32":
            found.append(rng.integers(0, ends[formal.name], shape, dtype=np.int32))
        elif formal.name == "table":
            found.append(angles(*shape))
        elif formal.type.element == "i8":
            found.append(rng.integers(-127, 128, shape, dtype=np.int8))
        elif formal.name == "weight_scale":
            # A row of bytes becomes as long as one of a float weight is here.
            size = 1 / (73 * np.sqrt(sizes.get("n_in", 32 * sizes.get("n_block", 1))))
            found.append((rng.random(shape) * size).astype(NUMPY[formal.type.element]))
        else:
            numbers = rng.standard_normal(shape, dtype=np.float32)
            if formal.name == "weight" and "n_in" in formal.type.names:
                numbers /= np.float32(np.sqrt(sizes["n_in"]))
            found.append(numbers.astype(NUMPY[formal.type.element]))
    return found


def pooled(sizes: Mapping[str, int]) -> dict[str, int]:
    """Return the sizes of a pool whose blocks hold every sequence, and two to spare."""
    if "block_size" not in sizes:
        return {}
    n_block_seq = -(-(sizes["seq"] + SPARE) // sizes["block_size"])
    return {"n_block_seq": n_block_seq, "n_block": 3 + sizes["batch"] * n_block_seq}


def angles(n_ctx: int, n_rot: int) -> np.ndarray:
    """Return the cosines, then the sines, of what each position turns each pair by."""
    pairs = np.arange(n_rot // 2)
    angle = np.arange(n_ctx)[:, None] * 10_000.0 ** (-2 * pairs / n_rot)
    return np.concatenate([np.cos(angle), np.sin(angle)], axis=1).astype(np.float32)
