"""Test that the table of rope angles is correct, and the same bits everywhere."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from ingot.weights.rope_table import RopeTable, rope_blocks


def table(n_ctx: int, n_rot: int, base: float) -> np.ndarray:
    return np.concatenate(list(rope_blocks((n_ctx, n_rot), RopeTable(base), 1 << 20)))


def test_small_angles_are_those_worked_by_hand() -> None:
    found = table(3, 4, 100.0)
    angles = np.array([[0, 0], [1, 0.1], [2, 0.2]])
    expected = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
    np.testing.assert_array_equal(found, expected.astype(np.float32), strict=True)


@pytest.mark.parametrize("base", [10000.0, 1e6])
def test_angles_are_rounded_once_from_more_digits(base: float) -> None:
    n_ctx, n_rot = 40960, 128
    found = table(n_ctx, n_rot, base)
    i = np.arange(n_rot // 2)
    angles = np.arange(n_ctx)[:, None] * base ** (-2 * i / n_rot)
    expected = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
    # Half a unit of float32's last place below 1, and what two float64 differ by.
    np.testing.assert_allclose(found, expected, rtol=0, atol=2**-25 + 1e-11)


def test_the_bits_are_those_that_were_always_made() -> None:
    digest = hashlib.sha256(table(4096, 256, 1e6).tobytes()).hexdigest()
    assert digest == "e4e1a3e1374307dc70e0487dc5c96c16d234ae11181033aad3416321a2bca1e3"


def test_rows_do_not_depend_on_how_many_are_made_at_a_time() -> None:
    blocks = list(rope_blocks((100, 8), RopeTable(1e4), 56))
    assert [len(block) for block in blocks] == [7] * 14 + [2]
    np.testing.assert_array_equal(np.concatenate(blocks), table(100, 8, 1e4))
