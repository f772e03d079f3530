"""Define what components/cache must compute; the results are float64."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32] | NDArray[np.float64]
Positions = NDArray[np.int32]


def kv_cache_update(
    cache: Floats, x: Floats, start: Positions, layer: int
) -> NDArray[np.float64]:
    """Return the cache with the rows of x from position start on, in one layer.

    Shapes: cache [n_layer, batch, ctx, n_embd_kv], x [batch, seq, n_embd_kv],
        start [batch] -> [n_layer, batch, ctx, n_embd_kv], a new array.
    Raises: ValueError if a row of x is before or behind the cache's positions, or if
        there is no such layer.
    Source: Shazeer 2019, arXiv:1911.02150, section 2.3.1.
    """
    n_layer, _, ctx, _ = cache.shape
    seq = x.shape[1]
    if not 0 <= layer < n_layer:
        raise ValueError(f"layer must be below n_layer = {n_layer}, found {layer}")
    if start.min(initial=0) < 0 or start.max(initial=0) + seq > ctx:
        found = f"{start.min()} to {start.max() + seq - 1}"
        raise ValueError(f"positions must be within ctx = {ctx}, found {found}")
    y = cache.astype(np.float64)
    for b, first in enumerate(start):
        y[layer, b, first : first + seq] = x[b]
    return y
