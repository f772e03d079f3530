"""Test the oracles of arithmetic and spectra against second sources.

Worked by hand, by the standard library's math one number at a time, or by sums.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from oracles import (
    activation,
    attention,
    audio,
    convolution,
    elementwise,
    linear,
    normalization,
    reduction,
)

# float64 keeps 15 to 16 digits; sums of a few hundred terms lose two of them.
EXACT: Any = {"rtol": 1e-13, "atol": 1e-13}


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    """Return standard normal float32 numbers."""
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


@pytest.mark.parametrize(
    ("oracle", "one"),
    [
        (elementwise.neg, lambda x: 0.0 - x),
        (elementwise.abs, math.fabs),
        (elementwise.exp, math.exp),
        (elementwise.sin, math.sin),
        (elementwise.cos, math.cos),
        (elementwise.sigmoid, lambda x: 1 / (1 + math.exp(-x))),
        (activation.silu, lambda x: x / (1 + math.exp(-x))),
        (activation.quick_gelu, lambda x: x / (1 + math.exp(-1.702 * x))),
        (
            activation.gelu_tanh,
            lambda x: (
                x / (1 + math.exp(-2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
            ),
        ),
        (activation.relu, lambda x: (x + math.fabs(x)) / 2),
    ],
)
def test_map_agrees_with_the_standard_library_number_by_number(
    oracle: Callable[[np.ndarray], np.ndarray], one: Callable[[float], float]
) -> None:
    x = 3 * normal(2, 3, 50)
    expected = [one(float(value)) for value in x.flat]
    np.testing.assert_allclose(oracle(x).ravel(), expected, **EXACT)


def test_log_agrees_with_the_standard_library_and_undoes_exp() -> None:
    x = normal(2, 3, 5)
    y = elementwise.log(elementwise.exp(x))
    np.testing.assert_allclose(y, x.astype(np.float64), **EXACT)
    assert elementwise.log(np.full((1, 1, 1), 8.0)).item() == math.log(8)


def test_sub_mul_and_div_by_hand() -> None:
    a = np.array([[[6, -3]]], dtype=np.float32)
    b = np.array([[[4, 2]]], dtype=np.float32)
    assert elementwise.sub(a, b).tolist() == [[[2, -5]]]
    assert elementwise.mul(a, b).tolist() == [[[24, -6]]]
    assert elementwise.div(a, b).tolist() == [[[1.5, -1.5]]]


@pytest.mark.parametrize("oracle", [elementwise.sub, elementwise.mul, elementwise.div])
def test_arithmetic_of_two_does_not_broadcast(
    oracle: Callable[..., np.ndarray],
) -> None:
    with pytest.raises(ValueError, match="shapes differ"):
        oracle(normal(1, 2, 3), normal(1, 1, 3))


def test_clip_by_hand_and_not_to_an_empty_interval() -> None:
    x = np.array([[[-2, 0.5, 3]]], dtype=np.float32)
    assert elementwise.clip(x, -1, 2).tolist() == [[[-1, 0.5, 2]]]
    with pytest.raises(ValueError, match="expected low <= high, found 2 and 1"):
        elementwise.clip(x, 2, 1)


def test_softmax_by_hand_and_whatever_is_added_to_a_row() -> None:
    x = np.array([[[0, math.log(3)]]])
    np.testing.assert_allclose(normalization.softmax(x), [[[0.25, 0.75]]], **EXACT)
    far = normalization.softmax(x + 5000)
    np.testing.assert_allclose(far, [[[0.25, 0.75]]], rtol=1e-11)


def test_group_norm_of_one_channel_a_group_is_layer_norm_of_each_image() -> None:
    x, weight, bias = normal(2, 3, 4, 5), normal(3, seed=1), normal(3, seed=2)
    y = normalization.group_norm(x, weight, bias, 0.1, 3)
    ones, zeros = np.ones(20), np.zeros(20)
    plain = normalization.layer_norm(x.reshape(2, 3, 20), ones, zeros, 0.1)
    expected = plain.reshape(x.shape) * weight[:, None, None] + bias[:, None, None]
    np.testing.assert_allclose(y, expected, **EXACT)


def test_group_norm_of_a_hand_worked_pair_of_groups() -> None:
    # Groups (1, 3) and (5, 9): means 2 and 7, variances 1 and 4.
    x = np.array([1, 3, 5, 9], dtype=np.float32).reshape(1, 4, 1, 1)
    weight, bias = np.array([1, 1, 1, 10]), np.array([0, 0, 0, 5])
    y = normalization.group_norm(x, weight, bias, 0.0, 2)
    np.testing.assert_allclose(y.ravel(), [-1, 1, -1, 15], **EXACT)
    with pytest.raises(ValueError, match="n_group must divide 4 channels, found 3"):
        normalization.group_norm(x, weight, bias, 0.0, 3)


def test_reductions_of_a_hand_worked_row() -> None:
    x = np.array([[[3, -1, 3, 2]]], dtype=np.float32)
    assert reduction.reduce_max(x).tolist() == [[3]]
    assert reduction.reduce_min(x).tolist() == [[-1]]
    assert reduction.reduce_sum(x).tolist() == [[7]]
    assert reduction.mean(x).tolist() == [[1.75]]
    assert reduction.argmax(x).tolist() == [[0]]
    assert reduction.argsort(x).tolist() == [[[1, 3, 0, 2]]]
    values, places = reduction.topk(x, 3)
    assert values.tolist() == [[[3, 3, 2]]]
    assert places.tolist() == [[[0, 2, 3]]]


def test_orders_agree_with_sorted() -> None:
    x = np.round(normal(2, 3, 40) * 2) / 2
    order, (values, places) = reduction.argsort(x), reduction.topk(x, 7)
    for b, s in np.ndindex(2, 3):
        row = x[b, s].tolist()
        assert order[b, s].tolist() == sorted(range(40), key=row.__getitem__)
        largest = sorted(
            range(40), key=[(-value, j) for j, value in enumerate(row)].__getitem__
        )[:7]
        assert places[b, s].tolist() == largest
        assert values[b, s].tolist() == [row[j] for j in largest]
        assert reduction.argmax(x)[b, s] == largest[0]


def test_topk_refuses_more_than_a_row_has() -> None:
    with pytest.raises(ValueError, match="expected k of at most 3, found 4"):
        reduction.topk(normal(1, 1, 3), 4)


def test_products_of_matrices_agree_with_correctly_rounded_sums() -> None:
    a, b = normal(2, 3, 7), normal(2, 7, 4, seed=1)
    y = linear.matmul(a, b)
    turned = linear.matmul_transposed(a, b.transpose(0, 2, 1))
    heads = linear.einsum(a[:, None], b.transpose(0, 2, 1)[:, None])
    for n, s, o in np.ndindex(2, 3, 4):
        exact = math.fsum(float(a[n, s, i]) * float(b[n, i, o]) for i in range(7))
        for found in (y[n, s, o], turned[n, s, o], heads[n, 0, s, o]):
            assert found == pytest.approx(exact, rel=1e-13, abs=1e-13)


def test_conv1d_by_hand() -> None:
    # Padded to 0 1 2 3 4 0, steps of 2: (0, 1, 2), (2, 3, 4).
    x = np.array([[[1, 2, 3, 4]]], dtype=np.float32)
    weight = np.array([[[1, 10, 100]]], dtype=np.float32)
    y = convolution.conv1d(x, weight, np.array([0.5]), 1, 2, 2, 1)
    assert y.tolist() == [[[210.5, 432.5]]]


def test_conv1d_keeps_groups_apart() -> None:
    x = np.array([[[1, 2], [3, 4]]], dtype=np.float32)
    weight = np.array([[[10]], [[100]]], dtype=np.float32)
    y = convolution.conv1d(x, weight, np.zeros(2), 0, 1, 2, 2)
    assert y.tolist() == [[[10, 20], [300, 400]]]


def in_sums(
    x: np.ndarray, weight: np.ndarray, padding: Any, stride: Any, size: Any
) -> np.ndarray:
    """Return a convolution in one group as the sums of its formula."""
    y = np.zeros((x.shape[0], weight.shape[0], *size))
    for b, o, *place in np.ndindex(y.shape):
        terms = []
        for i, *tap in np.ndindex(weight.shape[1:]):
            at = [
                p * s + t - z
                for p, s, t, z in zip(place, stride, tap, padding, strict=True)
            ]
            if all(0 <= p < n for p, n in zip(at, x.shape[2:], strict=True)):
                terms.append(float(weight[o, i, *tap]) * float(x[b, i, *at]))
        y[b, o, *place] = math.fsum(terms)
    return y


def test_conv2d_agrees_with_its_formula_as_sums() -> None:
    x, weight = normal(2, 3, 5, 6), normal(4, 3, 2, 3, seed=1)
    y = convolution.conv2d(x, weight, np.zeros(4), 1, 0, 2, 1, 3, 4, 1)
    expected = in_sums(x, weight, (1, 0), (2, 1), (3, 4))
    np.testing.assert_allclose(y, expected, **EXACT)


def test_conv3d_agrees_with_its_formula_as_sums() -> None:
    x, weight = normal(1, 2, 4, 3, 5), normal(2, 2, 2, 1, 3, seed=1)
    numbers = (0, 1, 1, 2, 1, 3, 2, 5, 2)
    y = convolution.conv3d(x, weight, np.zeros(2), *numbers, 1)
    expected = in_sums(x, weight, (0, 1, 1), (2, 1, 3), (2, 5, 2))
    np.testing.assert_allclose(y, expected, **EXACT)


def test_convolution_refuses_sizes_that_do_not_follow() -> None:
    with pytest.raises(ValueError, match=r"expected results of \(2,\), found \(3,\)"):
        convolution.conv1d(normal(1, 1, 4), normal(1, 1, 3), np.zeros(1), 1, 2, 3, 1)


def test_interpolation_to_the_same_size_changes_nothing() -> None:
    x = normal(2, 3, 4, 5)
    for resize in (convolution.interpolate_nearest, convolution.interpolate_bilinear):
        np.testing.assert_array_equal(resize(x, 4, 5), x.astype(np.float64))


def test_interpolation_by_hand() -> None:
    x = np.array([0, 4, 8, 20], dtype=np.float32).reshape(1, 1, 1, 4)
    # Centres at 1/2 and 5/2 of 4: between the first two, and between the last two.
    halved = convolution.interpolate_bilinear(x, 1, 2)
    assert halved.ravel().tolist() == [2, 14]
    doubled = convolution.interpolate_bilinear(x[..., :2], 1, 4)
    assert doubled.ravel().tolist() == [0, 1, 3, 4]
    assert convolution.interpolate_nearest(x, 1, 2).ravel().tolist() == [4, 20]
    third = convolution.interpolate_nearest(x[..., :2], 1, 6)
    assert third.ravel().tolist() == [0, 0, 0, 4, 4, 4]


def test_stft_agrees_with_its_formula_as_sums() -> None:
    x, window = normal(1, 20), normal(6, seed=1)
    real, imaginary = audio.stft(x, window, 5, 3, 4)
    for f, k in np.ndindex(3, 4):
        exact = sum(
            float(window[n])
            * float(x[0, 5 * f + n])
            * cmath.exp(-2j * math.pi * k * n / 6)
            for n in range(6)
        )
        assert real[0, f, k] == pytest.approx(exact.real, rel=1e-12, abs=1e-12)
        assert imaginary[0, f, k] == pytest.approx(exact.imag, rel=1e-12, abs=1e-12)


def test_stft_refuses_frames_behind_the_signal() -> None:
    with pytest.raises(ValueError, match="expected frames within the signal"):
        audio.stft(normal(1, 20), np.ones(6), 5, 4, 4)


def test_attention_with_a_sink_is_attention_to_one_more_position_of_no_value() -> None:
    # Without positions before it, a key of the sink's score and a value of zero.
    n_head, head_dim, seq = 2, 2, 4
    q, k, v = (normal(1, seq, n_head * head_dim, seed=s) for s in range(3))
    sink = np.array([0.7, -1.2])
    caches = (k[None], v[None], np.zeros(1, np.int32))
    y = attention.attention_causal(q, *caches, 0, 99, 0.5, n_head, n_head, sink=sink)
    for s, column in np.ndindex(seq, n_head * head_dim):
        head = column // head_dim
        part = slice(head * head_dim, (head + 1) * head_dim)
        shares = [
            math.exp(0.5 * math.fsum(q[0, s, part].astype(float) * k[0, t, part]))
            for t in range(s + 1)
        ]
        mixed = math.fsum(
            share * float(v[0, t, column]) for t, share in enumerate(shares)
        )
        total = math.fsum([*shares, math.exp(sink[head])])
        assert y[0, s, column] == pytest.approx(mixed / total, rel=1e-12)


def test_attention_with_a_sink_far_below_is_causal_attention() -> None:
    q, k, v = (normal(2, 5, 4, seed=s) for s in range(3))
    start = np.array([0, 0], np.int32)
    rest = (0, 3, 0.5, 2, 2)
    sink = np.full(2, -1e9)
    y = attention.attention_causal(q, k[None], v[None], start, *rest, sink=sink)
    plain = attention.attention_causal(q, k[None], v[None], start, *rest)
    np.testing.assert_allclose(y, plain, **EXACT)
