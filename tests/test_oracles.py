"""Test every oracle against a second source: worked by hand, or another formula."""

from __future__ import annotations

import math
import statistics
from typing import Any

import numpy as np
import pytest

from oracles import (
    activation,
    attention,
    elementwise,
    embedding,
    linear,
    normalization,
    pooling,
)

# float64 keeps 15 to 16 digits; sums of a few hundred terms lose two of them.
EXACT: Any = {"rtol": 1e-13, "atol": 1e-13}


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    """Return standard normal float32 numbers."""
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def test_embedding_lookup_takes_the_hand_picked_rows() -> None:
    weight = np.array([[1, 2], [3, 4], [5, 6]], dtype=np.float32)
    ids = np.array([[2, 0], [1, 2]], dtype=np.int32)
    assert embedding.embedding_lookup(weight, ids).tolist() == [
        [[5, 6], [1, 2]],
        [[3, 4], [5, 6]],
    ]


def test_embedding_lookup_is_a_product_with_one_hot_rows() -> None:
    weight = normal(11, 4)
    ids = np.random.default_rng(1).integers(0, 11, (3, 5), dtype=np.int32)
    one_hot = (ids[:, :, None] == np.arange(11)).astype(np.float64)
    np.testing.assert_array_equal(
        embedding.embedding_lookup(weight, ids), one_hot @ weight
    )


@pytest.mark.parametrize("wrong", [-1, 3])
def test_embedding_lookup_refuses_an_id_outside_the_table(wrong: int) -> None:
    ids = np.array([[0, wrong]], dtype=np.int32)
    with pytest.raises(IndexError):
        embedding.embedding_lookup(normal(3, 2), ids)


def test_add_position_gives_each_position_its_own_row() -> None:
    x = np.array([[[10, 20], [30, 40]], [[50, 60], [70, 80]]], dtype=np.float32)
    weight = np.array([[1, 2], [3, 4], [100, 100]], dtype=np.float32)
    assert embedding.add_position(x, weight).tolist() == [
        [[11, 22], [33, 44]],
        [[51, 62], [73, 84]],
    ]


def test_add_position_is_a_lookup_of_counted_ids() -> None:
    x, weight = normal(2, 6, 3), normal(9, 3, seed=1)
    counted = np.tile(np.arange(6, dtype=np.int32), (2, 1))
    np.testing.assert_array_equal(
        embedding.add_position(x, weight),
        x.astype(np.float64) + embedding.embedding_lookup(weight, counted),
    )


def test_add_position_refuses_more_positions_than_rows() -> None:
    with pytest.raises(IndexError):
        embedding.add_position(normal(1, 4, 2), normal(3, 2))


def test_add_sums_in_float64() -> None:
    # In float32 this is 1: the step there is 1.2e-7.
    tiny = np.full((1, 1, 1), 2.0**-40, dtype=np.float32)
    one = np.ones((1, 1, 1), dtype=np.float32)
    assert elementwise.add(one, tiny).item() == 1.0 + 2.0**-40


def test_add_does_not_broadcast() -> None:
    with pytest.raises(ValueError, match="shapes differ"):
        elementwise.add(normal(1, 2, 3), normal(1, 1, 3))


def test_layer_norm_of_a_hand_worked_row() -> None:
    # Mean 3, variance (4 + 0 + 4) / 3 with eps 1/3 makes the divisor sqrt(3).
    x = np.array([[[1, 3, 5]]], dtype=np.float32)
    weight = np.array([1, 2, 3], dtype=np.float32)
    bias = np.array([0, 7, 1], dtype=np.float32)
    expected = [-2 / math.sqrt(3), 7, 1 + 6 / math.sqrt(3)]
    y = normalization.layer_norm(x, weight, bias, 1 / 3)
    np.testing.assert_allclose(y[0, 0], expected, **EXACT)


def test_layer_norm_agrees_with_the_standard_library_row_by_row() -> None:
    x, weight, bias = normal(2, 3, 8) * 5 + 2, normal(8, seed=1), normal(8, seed=2)
    y = normalization.layer_norm(x, weight, bias, 1e-12)
    for row, result in zip(x.reshape(-1, 8).tolist(), y.reshape(-1, 8), strict=True):
        mean = statistics.fmean(row)
        deviation = math.sqrt(statistics.pvariance(row, mean) + 1e-12)
        expected = [(item - mean) / deviation for item in row] * weight.astype(float)
        np.testing.assert_allclose(result, expected + bias, rtol=1e-12, atol=1e-12)


def test_layer_norm_forgets_shift_and_scale_of_a_row() -> None:
    x = normal(1, 2, 16).astype(np.float64)
    ones, zeros = np.ones(16), np.zeros(16)
    np.testing.assert_allclose(
        normalization.layer_norm(7 * x + 1000, ones, zeros, 0.0),
        normalization.layer_norm(x, ones, zeros, 0.0),
        rtol=1e-11,
        atol=1e-11,
    )


def test_l2_normalize_of_the_triangle_3_4_5() -> None:
    x = np.array([[3, 4], [0, 0]], dtype=np.float32)
    y = normalization.l2_normalize(x, 1e-12)
    np.testing.assert_allclose(y, [[0.6, 0.8], [0.0, 0.0]], **EXACT)


def test_l2_normalize_agrees_with_hypot_and_gives_unit_length() -> None:
    x = normal(3, 7)
    y = normalization.l2_normalize(x, 1e-12)
    for row, result in zip(x.tolist(), y, strict=True):
        np.testing.assert_allclose(result, np.array(row) / math.hypot(*row), **EXACT)
    np.testing.assert_allclose(np.linalg.norm(y, axis=1), 1, **EXACT)


def test_l2_normalize_divides_by_eps_where_a_row_is_shorter() -> None:
    x = np.array([[0.5, 0.0]], dtype=np.float32)
    assert normalization.l2_normalize(x, 2.0).tolist() == [[0.25, 0.0]]


def test_dyt_of_a_hand_worked_row() -> None:
    # tanh(log 2) = (4 - 1) / (4 + 1), tanh(log 3) = (9 - 1) / (9 + 1).
    x = np.array([[[math.log(4), -math.log(9), 0]]])
    weight, bias = np.array([1.0, 2.0, 5.0]), np.array([0.0, 1.0, 7.0])
    y = normalization.dyt(x, np.array([0.5]), weight, bias)
    np.testing.assert_allclose(y, [[[0.6, -0.6, 7]]], **EXACT)


def test_dyt_is_a_line_near_zero_and_ends_at_the_weight() -> None:
    ones, zeros = np.ones(4), np.zeros(4)
    x = normal(1, 3, 4).astype(np.float64)
    near = normalization.dyt(1e-9 * x, np.array([3.0]), ones, zeros)
    np.testing.assert_allclose(near, 3e-9 * x, rtol=1e-12)
    far = normalization.dyt(1e9 * x, np.array([3.0]), ones, zeros)
    np.testing.assert_array_equal(far, np.sign(x))


def test_linear_bias_of_a_hand_worked_row() -> None:
    x = np.array([[[1, 2]]], dtype=np.float32)
    weight = np.array([[1, 0], [0, 1], [3, -1]], dtype=np.float32)
    bias = np.array([10, 20, 30], dtype=np.float32)
    assert linear.linear_bias(x, weight, bias).tolist() == [[[11, 22, 31]]]


def test_linear_bias_agrees_with_correctly_rounded_sums() -> None:
    x, weight, bias = normal(2, 3, 9), normal(4, 9, seed=1), normal(4, seed=2)
    y = linear.linear_bias(x, weight, bias)
    for b, s, o in np.ndindex(y.shape):
        terms = x[b, s].astype(np.float64) * weight[o].astype(np.float64)
        exact = math.fsum([*terms.tolist(), float(bias[o])])
        assert y[b, s, o] == pytest.approx(exact, rel=1e-13, abs=1e-13)


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        (0.0, 0.0),
        (1.0, 0.8413447460685429),  # the table of the normal distribution
        (-1.0, -0.15865525393145707),
        (-6.0, -6 * 9.865876450377e-10),  # 1 + erf would keep 7 of these digits
        (40.0, 40.0),
    ],
)
def test_gelu_erf_at_known_points(x: float, expected: float) -> None:
    y = activation.gelu_erf(np.full((1, 1, 1), x))
    assert y.item() == pytest.approx(expected, rel=1e-12, abs=0)


def test_gelu_erf_agrees_with_the_normal_distribution_and_its_symmetry() -> None:
    x = normal(2, 5, 20).astype(np.float64) * 3
    cdf = np.vectorize(statistics.NormalDist().cdf)
    y = activation.gelu_erf(x)
    np.testing.assert_allclose(y, x * cdf(x), rtol=0, atol=1e-14)
    # P(Z <= x) + P(Z <= -x) = 1.
    np.testing.assert_allclose(y - activation.gelu_erf(-x), x, **EXACT)


def test_mean_pool_ignores_what_stands_in_the_padding() -> None:
    x = np.array([[[1, 2], [3, 6], [np.inf, np.nan]]], dtype=np.float32)
    mask = np.array([[1, 1, 0]], dtype=np.int32)
    assert pooling.mean_pool(x, mask).tolist() == [[2, 4]]


def test_mean_pool_counts_whatever_is_not_0_as_one() -> None:
    x = np.array([[[1, 2], [3, 6], [5, 1]]], dtype=np.float32)
    mask = np.array([[-1, 7, 0]], dtype=np.int32)
    assert pooling.mean_pool(x, mask).tolist() == [[2, 4]]


def test_mean_pool_is_the_mean_of_the_cut_sequences() -> None:
    x = normal(3, 6, 4)
    lengths = [6, 1, 4]
    mask = (np.arange(6) < np.array(lengths)[:, None]).astype(np.int32)
    y = pooling.mean_pool(x, mask)
    for b, length in enumerate(lengths):
        columns = x[b, :length].T.tolist()
        np.testing.assert_allclose(y[b], [statistics.fmean(c) for c in columns])


def test_mean_pool_of_nothing_is_zero() -> None:
    assert not pooling.mean_pool(normal(1, 3, 2), np.zeros((1, 3), np.int32)).any()


def test_attention_of_a_hand_worked_pair() -> None:
    # head_dim 1: scores of query 1 are 0 and log(3), so the weights are 1/4 and 3/4.
    q = np.array([[[0], [1]]], dtype=np.float64)
    k = np.array([[[0], [math.log(3)]]])
    v = np.array([[[4], [8]]], dtype=np.float64)
    both = np.ones((1, 2), dtype=np.int32)
    y = attention.attention_bidirectional(q, k, v, both, 1)
    np.testing.assert_allclose(y, [[[6], [7]]], **EXACT)


def test_attention_agrees_with_the_formula_written_as_sums() -> None:
    seq, n_head, head_dim = 4, 3, 2
    q, k, v = (normal(1, seq, n_head * head_dim, seed=s) for s in range(3))
    mask = np.array([[1, 0, 1, 1]], dtype=np.int32)
    y = attention.attention_bidirectional(q, k, v, mask, n_head)
    for s, column in np.ndindex(seq, n_head * head_dim):
        first = column // head_dim * head_dim
        head = slice(first, first + head_dim)
        shares = [
            mask[0, t]
            * math.exp(
                math.fsum(q[0, s, head].astype(float) * k[0, t, head].astype(float))
                / math.sqrt(head_dim)
            )
            for t in range(seq)
        ]
        mixed = math.fsum(
            share * float(v[0, t, column]) for t, share in enumerate(shares)
        )
        assert y[0, s, column] == pytest.approx(mixed / math.fsum(shares), rel=1e-12)


def test_attention_with_padding_is_attention_of_the_cut_sequence() -> None:
    q, k, v = (normal(2, 7, 8, seed=s) for s in range(3))
    mask = (np.arange(7) < 3).astype(np.int32)[None].repeat(2, axis=0)
    k[:, 3:], v[:, 3:] = np.nan, np.inf
    padded = attention.attention_bidirectional(q, k, v, mask, 2)
    cut = attention.attention_bidirectional(
        q[:, :3], k[:, :3], v[:, :3], mask[:, :3], 2
    )
    np.testing.assert_allclose(padded[:, :3], cut, **EXACT)


def test_attention_over_equal_keys_is_the_mean_of_the_values() -> None:
    q, v = normal(1, 5, 4), normal(1, 5, 4, seed=1)
    k = np.ones((1, 5, 4), dtype=np.float32)
    real = np.ones((1, 5), dtype=np.int32)
    y = attention.attention_bidirectional(q, k, v, real, 2)
    mean = v.astype(np.float64).mean(axis=1, keepdims=True)
    np.testing.assert_allclose(y, mean.repeat(5, axis=1), **EXACT)


def test_attention_without_a_real_position_is_zero() -> None:
    q, k, v = (normal(1, 5, 4, seed=s) for s in range(3))
    y = attention.attention_bidirectional(q, k, v, np.zeros((1, 5), np.int32), 2)
    np.testing.assert_array_equal(y, np.zeros((1, 5, 4)))


def test_attention_refuses_heads_that_do_not_divide_the_columns() -> None:
    x = normal(1, 2, 5)
    with pytest.raises(ValueError, match="n_head must divide n_embd = 5, found 2"):
        attention.attention_bidirectional(x, x, x, np.ones((1, 2), np.int32), 2)
