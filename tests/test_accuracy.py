"""Test the digits, ties and NaN that components promise, on every target."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingot.model.component import read_component
from ingot.runtime.invoke import Call, Module, call
from ingot.stages.compile import SERIAL
from tests.component_cases import ROOT, component_files
from tests.component_runs import merged, oracle_of, run_tool
from tests.test_odd_sizes import of_tree

COMPONENTS = (
    "activation/geglu_tanh",
    "activation/gelu_erf",
    "activation/gelu_tanh",
    "activation/quick_gelu",
    "activation/relu",
    "activation/silu",
    "activation/swiglu",
    "elementwise/cast_i32_to_f32",
    "elementwise/clip",
    "elementwise/cos",
    "elementwise/exp",
    "elementwise/log",
    "elementwise/sigmoid",
    "elementwise/sin",
    "elementwise/soft_cap",
    "moe/expert_router",
    "normalization/dyt",
    "pooling/mean_pool",
    "reduction/argmax",
)
TARGETS = (
    "host",
    pytest.param("aarch64", marks=pytest.mark.aarch64),
    pytest.param("vulkan-llvmpipe", marks=pytest.mark.vulkan),
)
pytestmark = [
    pytest.mark.parametrize("target", TARGETS),
    pytest.mark.reads(
        "targets/**/*.*",
        files=lambda **_: set().union(*map(component_files, COMPONENTS)),
    ),
]

Run = Callable[..., Any]


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Compile the components with dynamic shapes, as one module for a target."""

    @cache
    def compiled(target: str) -> Path:
        folder = tmp_path_factory.mktemp(target)
        texts = {
            item.rpartition("/")[2]: (ROOT / f"components/{item}.mlir").read_text()
            for item in COMPONENTS
        }
        source = merged(texts, folder / "all.mlir")
        vmfb, flags = folder / "all.vmfb", of_tree(target).compile_flags
        run_tool("iree-compile", source, "-o", vmfb, SERIAL, *flags)
        return vmfb

    return compiled


@pytest.fixture
def run(target: str, modules: Callable[[str], Path]) -> Run:
    """Return what calls a component on the target."""

    def called(component: str, *arguments: Any, results: int = 1) -> Any:
        tensors = tuple(item for item in arguments if isinstance(item, np.ndarray))
        scalars = arguments[len(tensors) :]
        function = f"{component.rpartition('/')[2]}.forward"
        what = Call(function, tensors, scalars, results)
        found = call(of_tree(target).runner, Module(modules(target)), what)
        return found if results > 1 else found[0]

    return called


def f32(points: Any) -> Any:
    """Return the points as one row of f32. Shapes: [n] -> [1, 1, n]."""
    return np.asarray(points, np.float32)[None, None]


def exact(component: str, *arguments: Any) -> Any:
    """Return what the oracle says."""
    return oracle_of(read_component(component, ROOT))(*arguments)


def test_gelu_erf_is_right_to_3e_7_everywhere(run: Run) -> None:
    near = np.linspace(-8, 8, 100_000, dtype=np.float32)
    far = [-np.inf, -1e30, -20, 20, 1e30, np.inf]
    found = run("activation/gelu_erf", f32([*near, *far, np.nan]))[0, 0]
    expected = exact("activation/gelu_erf", near)
    # Half a step of f32 between 4 and 8 is 2.4e-7 of it.
    assert np.abs(found[:-7] - expected).max() < 3e-7
    np.testing.assert_allclose(found[-7:-1], np.maximum(far, 0), 1e-7, 1e-30)
    assert np.isnan(found[-1])


@pytest.mark.parametrize(
    ("component", "operand_count", "scalars"),
    [
        ("activation/geglu_tanh", 2, ()),
        ("activation/swiglu", 2, ()),
        ("activation/silu", 1, ()),
        ("activation/quick_gelu", 1, ()),
        ("activation/gelu_tanh", 1, ()),
        ("elementwise/sigmoid", 1, ()),
        ("elementwise/soft_cap", 1, (1.0,)),
        ("elementwise/soft_cap", 1, (30.0,)),
    ],
)
def test_curve_is_right_to_3e_6_of_itself_everywhere(
    component: str, operand_count: int, scalars: tuple[float, ...], run: Run
) -> None:
    far = np.geomspace(1e-8, 1e4, 20_000)
    x = f32(np.concatenate([-far, np.linspace(-10, 10, 20_000), far]))
    tensors = (x, np.ones_like(x))[:operand_count]
    found = run(component, *tensors, *scalars)
    # Of each result, but where it is next to nothing: a step of exp's argument, 11 at
    # -4.7 and 23 where this ends, is 2e-6 of exp.
    expected = exact(component, *tensors, *scalars)
    np.testing.assert_allclose(found, expected, 3e-6, 1e-9)


def test_dyt_is_right_where_tanh_is_flat(run: Run) -> None:
    far = np.geomspace(1e-8, 1e38, 5_000)
    x = f32(np.concatenate([-far, np.linspace(-100, 100, 5_000), far]))
    ones = np.ones(x.shape[-1], np.float32)
    rest = (np.array([3], np.float32), 2 * ones, ones)
    expected = exact("normalization/dyt", x, *rest)
    np.testing.assert_allclose(run("normalization/dyt", x, *rest), expected, 0, 1e-6)


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_angle_is_right_to_2e_7_for_a_thousand_turns(name: str, run: Run) -> None:
    quarters = np.arange(-5215, 5216) * (np.pi / 2)
    points = np.concatenate([np.linspace(-8192, 8192, 100_000), quarters])
    x, endless = points.astype(np.float32), [np.nan, np.inf, -np.inf]
    found = run(f"elementwise/{name}", f32([*x, *endless]))[0, 0]
    assert np.abs(found[:-3] - exact(f"elementwise/{name}", x)).max() < 2e-7
    assert np.isnan(found[-3:]).all()


@pytest.mark.parametrize(("name", "low"), [("exp", -87.0), ("log", 1e-37)])
def test_exp_and_log_are_right_to_2e_6_and_exp_to_1_1e_5_on_vulkan(
    name: str, low: float, target: str, run: Run
) -> None:
    points = np.linspace(low, 88, 50_000)
    if name == "log":
        points = np.concatenate([np.geomspace(low, 1e38, 50_000), points[1:] + 1e-3])
    x = f32(points)
    # Vulkan lets exp(x) be wrong by 3 + 2|x| steps, 1.1e-5 of it at the end of f32.
    share = 1.1e-5 if name == "exp" and "vulkan" in target else 2e-6
    # log is next to nothing near 1, where the argument's own step is all of it.
    expected = exact(f"elementwise/{name}", x)
    np.testing.assert_allclose(run(f"elementwise/{name}", x), expected, share, 2e-7)


def test_an_integer_between_two_floats_goes_to_the_even_one(run: Run) -> None:
    # Of 2^24 on every other integer is a float, of 2^25 on every fourth.
    between = [2**24 + 1, 2**24 + 3, 2**25 + 2, 2**25 + 6]
    even = [2**24, 2**24 + 4, 2**25, 2**25 + 8]
    ends = [2**24, 2**31 - 1, -(2**31)]
    x = np.array([[[*between, *(-n for n in between), *ends]]], np.int32)
    expected = [*even, *(-n for n in even), 2**24, 2**31, -(2**31)]
    found = run("elementwise/cast_i32_to_f32", x)
    assert found[0, 0].astype(np.int64).tolist() == expected


@pytest.mark.parametrize(
    ("component", "scalars", "ends"),
    [
        ("activation/relu", (), [0, np.inf]),
        ("elementwise/clip", (-1.0, 1.0), [-1, 1]),
        ("elementwise/soft_cap", (2.0,), [-2, 2]),
    ],
)
def test_a_bound_keeps_a_nan(
    component: str, scalars: tuple[float, ...], ends: list[float], run: Run
) -> None:
    found = run(component, f32([np.nan, -np.inf, np.inf]), *scalars)[0, 0]
    assert np.isnan(found[0])
    np.testing.assert_allclose(found[1:], ends, 1e-6)


def test_a_place_of_the_row_is_largest_where_numbers_are_none(run: Run) -> None:
    x = np.random.default_rng(0).standard_normal((4, 9, 33), dtype=np.float32)
    rows, places = np.arange(36) // 9, np.arange(36) % 9
    x[rows, places, np.arange(36) % 33] = np.nan
    x[0, 0] = np.nan
    found = run("reduction/argmax", x)
    assert found.min() >= 0
    assert found.max() < 33


def test_experts_are_experts_where_logits_are_none(run: Run) -> None:
    logits = np.random.default_rng(0).standard_normal((2, 9, 8), dtype=np.float32)
    logits[0, np.arange(8), np.arange(8)] = np.nan
    logits[1, :8] = np.where(np.tri(8, dtype=bool), np.nan, logits[1, :8])
    ids, share = run("moe/expert_router", logits, 3, results=2)
    assert ids.min() >= 0
    assert ids.max() < 8
    # The rows next to it do not change a row of numbers.
    rest = exact("moe/expert_router", logits[:, 8:], 3)
    np.testing.assert_array_equal(ids[:, 8:], rest[0])
    np.testing.assert_allclose(share[:, 8:], rest[1], 2e-6)


def test_padding_that_is_no_number_has_no_part_in_a_mean(run: Run) -> None:
    x = np.array([[[1, 2], [3, 6], [np.inf, np.nan]]], np.float32)
    found = run("pooling/mean_pool", x, np.array([[1, 1, 0]], np.int32))
    assert found.tolist() == [[2, 4]]
