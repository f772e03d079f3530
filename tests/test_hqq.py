from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ingot.weights.hqq import NORM
from ingot.weights.quantise import dequantise, quantise

HQQ = "i4_block32_hqq"
F32 = np.float32


def errors(rows: Any, scheme: str) -> Any:
    """How far each value is from what is stored, by block."""
    found = rows - dequantise(quantise(rows, scheme), scheme)
    return np.abs(found).reshape(-1, 32)


def heavy_tailed() -> Any:
    return np.random.default_rng(1).standard_t(3, (64, 256)).astype(F32)


def test_no_block_has_a_larger_norm_of_errors_than_rounding_to_nearest() -> None:
    rows = heavy_tailed()
    nearest = (errors(rows, "q4_1") ** NORM).sum(axis=1)
    fitted = (errors(rows, HQQ) ** NORM).sum(axis=1)
    # Scale and minimum of the first iteration are those of rounding to nearest.
    assert (fitted <= nearest * (1 + 1e-4)).all()
    assert fitted.sum() < 0.95 * nearest.sum()


def test_values_on_a_grid_are_kept_exactly() -> None:
    codes = np.random.default_rng(2).integers(0, 16, (4, 64)).astype(F32)
    codes[:, ::32], codes[:, 1::32] = 0, 15
    rows = codes * F32(0.125) - F32(1.5)
    assert not errors(rows, HQQ).any()


@pytest.mark.parametrize("value", [0.0, -2.5])
def test_a_block_of_one_value_is_kept(value: float) -> None:
    rows = np.full((8, 32), value, F32)
    assert not errors(rows, HQQ).any()


def test_codes_and_scales_have_the_forms_that_kernels_read() -> None:
    parts = quantise(heavy_tailed(), HQQ)
    assert parts["weight"].dtype == np.uint8
    assert parts["weight"].max() <= 15
    for name in ("weight_scale", "weight_min"):
        assert (parts[name].dtype, parts[name].shape) == (np.float16, (64, 8))
