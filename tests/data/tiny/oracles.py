"""The oracles of the tiny model."""

from typing import Any

import numpy as np


def count(tokens: Any, mask: Any, unit: float, n_out: int) -> Any:
    assert n_out == 2
    real = (mask != 0).astype(np.float64)
    return np.stack([(tokens * real).sum(1) * np.float32(unit), real.sum(1)], axis=1)


def scale(x: Any, weight: Any) -> Any:
    return x.astype(np.float64) * weight
