"""Test rotary positions in space against complex numbers and transformers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from oracles import position


def normal(*sizes: int) -> np.ndarray:
    """Return normal float32 numbers."""
    return np.random.default_rng(0).standard_normal(sizes, dtype=np.float32)


def angles(n_ctx: int, n_rot: int) -> np.ndarray:
    """Return the table of base 10000: cosines, then sines."""
    angle = np.arange(n_ctx)[:, None] * 10_000.0 ** (-2 * np.arange(n_rot // 2) / n_rot)
    return np.concatenate([np.cos(angle), np.sin(angle)], axis=1)


def turned(x: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """Return heads of [..., 2*pairs] turned as complex numbers, angles [..., pairs]."""
    low, high = np.split(x.astype(np.float64), 2, axis=-1)
    whole = (low + 1j * high) * np.exp(1j * angle)
    return np.concatenate([whole.real, whole.imag], axis=-1)


def test_rope_multimodal_turns_complex_numbers_by_three_positions() -> None:
    x = normal(2, 3, 2 * 12)
    positions = np.random.default_rng(3).integers(0, 9, (3, 2, 3)).astype(np.int32)
    frequency = 10_000.0 ** (-np.arange(6) / 6)
    angle = np.repeat(positions, (1, 2, 3), axis=0).transpose(1, 2, 0) * frequency
    expected = turned(x.reshape(2, 3, 2, 12), angle[:, :, None])
    found = position.rope_multimodal(x, angles(9, 12), positions, 1, 2, 2)
    np.testing.assert_allclose(found, expected.reshape(x.shape), rtol=0, atol=1e-14)


def test_rope_multimodal_of_text_is_rope() -> None:
    x, start = normal(2, 5, 16), np.array([3, 0], np.int32)
    places = (start[:, None] + np.arange(5)).astype(np.int32)
    table = angles(9, 8)
    found = position.rope_multimodal(x, table, np.stack([places] * 3), 1, 2, 2)
    np.testing.assert_allclose(found, position.rope(x, table, start, 2), atol=1e-14)


def test_rope_vision_turns_half_the_pairs_by_row_and_half_by_column() -> None:
    x = normal(2, 3, 2 * 8)
    positions = np.random.default_rng(4).integers(0, 9, (2, 2, 3)).astype(np.int32)
    frequency = 10_000.0 ** (-np.arange(2) / 2)
    angle = np.concatenate([p[..., None] * frequency for p in positions], axis=-1)
    expected = turned(x.reshape(2, 3, 2, 8), angle[:, :, None])
    found = position.rope_vision(x, angles(9, 4), positions, 2)
    np.testing.assert_allclose(found, expected.reshape(x.shape), rtol=0, atol=1e-14)


def test_columns_beyond_the_turned_ones_stay() -> None:
    x = normal(1, 2, 10)
    positions = np.ones((2, 1, 2), np.int32)
    found = position.rope_vision(x, angles(3, 4), positions, 1)
    np.testing.assert_array_equal(found[..., 8:], x[..., 8:])
    assert (found[..., :8] != x[..., :8]).all()


def test_rotary_positions_in_space_are_those_of_transformers() -> None:
    """Qwen2VLRotaryEmbedding with mrope_section [1, 1, 2], and the vision tower's."""
    x = np.arange(1, 9, dtype=np.float32)[None, None] / 8
    places = np.array([3, 1, 2], np.int32)[:, None, None]
    found = position.rope_multimodal(x, angles(4, 8), places, 1, 1, 1)
    expected = [-0.211949, 0.173876, 0.357426, 0.497999]
    expected += [-0.601105, 0.771211, 0.882325, 1.000998]
    np.testing.assert_allclose(found[0, 0], expected, rtol=0, atol=1e-6)
    found = position.rope_vision(x, angles(4, 4), places[:2], 1)
    expected = [-0.211949, 0.227391, -0.533674, 0.489975]
    expected += [-0.601105, 0.757161, 0.788316, 1.004950]
    np.testing.assert_allclose(found[0, 0], expected, rtol=0, atol=1e-6)


def test_a_position_before_the_first_is_refused() -> None:
    x = normal(2, 3, 12)
    turns: tuple[Callable[[], object], ...] = (
        lambda: position.rope_multimodal(x, x[0], np.full((3, 2, 3), -1), 1, 2, 1),
        lambda: position.rope_vision(x, x[0], np.full((2, 2, 3), -1), 1),
    )
    for turn in turns:
        with pytest.raises(IndexError, match="expected 0 or more, found -1"):
            turn()
