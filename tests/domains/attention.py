"""What the arguments of attention mean, and which sizes go together."""

from __future__ import annotations

import numpy as np

from tests.component_cases import Draw
from tests.domains.cache import block_table, layer, paged_start
from tests.domains.cache import fit as fit_layers

# What all scores of variant 1 get from the first column of a head: exp of it is zero in
# f32, so that a softmax that does not take away the largest score divides by zero.
QUERY, KEY = -16.0, 10.0


def first_column(value: float, draw: Draw) -> np.ndarray:
    """Return normal numbers; in variant 1 each head's first column is the value.

    Eighths there: their products add up without rounding, which so large a sum would
    make a difference of.
    """
    numbers = draw.rng.standard_normal(draw.shape)
    if draw.variant == 1:
        numbers = np.round(8 * numbers) / 8
        heads = draw.sizes["n_head"]
        if value == KEY:
            heads = draw.sizes.get("n_head_kv", heads)
        numbers[..., :: max(draw.shape[-1] // heads, 1)] = value
    return numbers


def query(draw: Draw) -> np.ndarray:
    """Return queries."""
    return first_column(QUERY, draw)


def key(draw: Draw) -> np.ndarray:
    """Return keys."""
    return first_column(KEY, draw)


def of_one_layer(numbers: np.ndarray, draw: Draw) -> np.ndarray:
    """Return a cache that has nothing in other layers: keys behind the last lie there.

    Times a weight of zero they would not show, were they numbers.
    """
    numbers[np.arange(len(numbers)) != layer(draw.sizes)] = np.nan
    return numbers


def cached_key(draw: Draw) -> np.ndarray:
    """Return keys of the layer that is read."""
    return of_one_layer(key(draw), draw)


def cached_value(draw: Draw) -> np.ndarray:
    """Return values of the layer that is read."""
    numbers = draw.rng.standard_normal(draw.shape, dtype=np.float32)
    return of_one_layer(numbers, draw)


def sink(draw: Draw) -> np.ndarray:
    """Return scores of seeing nothing, near those of the keys; in variant 2 none."""
    if draw.variant == 2:
        return np.full(draw.shape, -np.inf)
    low = QUERY * KEY if draw.variant == 1 else 0
    return draw.rng.standard_normal(draw.shape) + low


def fit(component: str, sizes: dict[str, int]) -> dict[str, int]:
    """Return sizes whose rows are whole heads."""
    if sizes.get("n_embd", 0) % sizes["n_head"]:
        sizes["n_embd"] *= sizes["n_head"]
    if component == "attention_causal":
        # Two blocks, the last not whole.
        sizes["block_size"] = min(sizes["block_size"], sizes.get("seq", 1) // 2 + 1)
    return fit_layers(component, sizes)


VALUES = {"q": query, "k": key, "sink": sink} | {
    "cache_k": cached_key,
    "cache_v": cached_value,
    "keys": cached_key,
    "values": cached_value,
    "block_table": block_table,
    "attention_paged.start": paged_start,
    "attention_paged_decode.start": paged_start,
}
SCALARS = {"layer": layer, "scale": (0.625, 0.75), "cap": (0.0, 2.0)}
VARIANTS = {
    "attention_causal": 3,
    "attention_paged": 2,
    "attention_paged_decode": 2,
}
