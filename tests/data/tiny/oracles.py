"""The oracles of the tiny model."""

import numpy as np


def count(tokens, mask, unit, n_out):
    assert n_out == 2
    real = (mask != 0).astype(np.float64)
    return np.stack([(tokens * real).sum(1) * np.float32(unit), real.sum(1)], axis=1)


def scale(x, weight):
    return x.astype(np.float64) * weight
