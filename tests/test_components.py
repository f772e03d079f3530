"""What no property over shapes says of components: accuracy everywhere, the guide."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ingot.readers.component import parse_component, read_component
from tests.component_cases import ROOT, TOLERANCE
from tests.component_runs import (
    FLAGS,
    Forward,
    compiled,
    loaded,
    merged,
    oracle_of,
    run_tool,
)

EPS = 1e-12
CURVES = (
    "activation/geglu_tanh",
    "activation/gelu_erf",
    "activation/gelu_tanh",
    "activation/quick_gelu",
    "activation/relu",
    "activation/silu",
    "activation/swiglu",
    "elementwise/clip",
    "elementwise/cos",
    "elementwise/exp",
    "elementwise/log",
    "elementwise/sigmoid",
    "elementwise/sin",
    "elementwise/soft_cap",
    "normalization/layer_norm",
)
Curves = Callable[[str], Forward]


@pytest.fixture(scope="module")
def curves(tmp_path_factory: pytest.TempPathFactory) -> Curves:
    """Compile what is tried here, all at once."""
    folder = tmp_path_factory.mktemp("curves")
    texts = {
        name.split("/")[1]: (ROOT / f"components/{name}.mlir").read_text("utf-8")
        for name in CURVES
    }
    source = merged(texts, folder / "all.mlir")
    run_tool("iree-compile", source, "-o", folder / "all.vmfb", *FLAGS)
    function = loaded(folder / "all.vmfb")
    return lambda name: function(f"{name.split('/')[1]}.forward")


def test_gelu_erf_is_right_to_3e_7_everywhere(curves: Curves) -> None:
    forward = curves("activation/gelu_erf")
    near = np.linspace(-8, 8, 100_000, dtype=np.float32)[None, None]
    expected = oracle_of(read_component("activation/gelu_erf", ROOT))(near)
    # Half a step of f32 between 4 and 8 is 2.4e-7 of it.
    assert np.abs(forward(near) - expected).max() < 3e-7
    far = np.array([[[-np.inf, -1e30, -20, 20, 1e30, np.inf]]], np.float32)
    np.testing.assert_allclose(forward(far), np.maximum(far, 0), rtol=0, atol=1e-30)
    assert np.isnan(forward(np.full((1, 1, 1), np.nan, np.float32))).all()


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
def test_curve_is_right_to_6_digits_everywhere(
    component: str, operand_count: int, scalars: tuple[float, ...], curves: Curves
) -> None:
    forward = curves(component)
    far = np.geomspace(1e-8, 1e4, 20_000)
    points = np.concatenate([-far, np.linspace(-10, 10, 20_000), far])
    x = points.astype(np.float32)[None, None]
    tensors = (x, np.ones_like(x))[:operand_count]
    expected = oracle_of(read_component(component, ROOT))(*tensors, *scalars)
    # Of each result, but where it is next to nothing: a step of exp's argument, 11 at
    # -4.7 and 23 where this ends, is 2e-6 of exp.
    np.testing.assert_allclose(forward(*tensors, *scalars), expected, 3e-6, 1e-9)


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_angle_is_right_to_2e_7_for_a_thousand_turns(name: str, curves: Curves) -> None:
    forward = curves(f"elementwise/{name}")
    quarters = np.arange(-5215, 5216) * (np.pi / 2)
    points = np.concatenate([np.linspace(-8192, 8192, 100_000), quarters])
    x = points.astype(np.float32)[None, None]
    expected = oracle_of(read_component(f"elementwise/{name}", ROOT))(x)
    assert np.abs(forward(x) - expected).max() < 2e-7
    endless = np.array([[[np.nan, np.inf, -np.inf]]], np.float32)
    assert np.isnan(forward(endless)).all()


@pytest.mark.parametrize(("name", "low"), [("exp", -87.0), ("log", 1e-37)])
def test_function_is_right_to_6_digits_in_all_of_f32(
    name: str, low: float, curves: Curves
) -> None:
    forward = curves(f"elementwise/{name}")
    points = np.linspace(low, 88, 50_000)
    if name == "log":
        points = np.concatenate([np.geomspace(low, 1e38, 50_000), points[1:] + 1e-3])
    x = points.astype(np.float32)[None, None]
    expected = oracle_of(read_component(f"elementwise/{name}", ROOT))(x)
    # log is next to nothing near 1, where the argument's own step is all of it.
    np.testing.assert_allclose(forward(x), expected, 2e-6, 2e-7)


@pytest.mark.parametrize(
    ("component", "scalars"),
    [("activation/relu", ()), ("elementwise/clip", (-1.0, 1.0))],
)
def test_comparison_keeps_a_nan(
    component: str, scalars: tuple[float, ...], curves: Curves
) -> None:
    forward = curves(component)
    x = np.array([[[np.nan, -np.inf, np.inf]]], np.float32)
    found = forward(x, *scalars)[0, 0]
    assert np.isnan(found[0])
    assert found[1:].tolist() == ([0.0, np.inf] if not scalars else list(scalars))


def test_layer_norm_keeps_its_digits_where_the_mean_is_large(curves: Curves) -> None:
    forward = curves("normalization/layer_norm")
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((2, 3, 384)) + 1000).astype(np.float32)
    ones, zeros = np.ones(384, np.float32), np.zeros(384, np.float32)
    expected = oracle_of(read_component("normalization/layer_norm", ROOT))(
        x, ones, zeros, EPS
    )
    # Rounding the sum, 384,000, moves the mean by 4e-4; E[x^2] - E[x]^2 has one digit.
    assert np.abs(forward(x, ones, zeros, EPS) - expected).max() < 1e-3


def test_the_example_of_the_guide_works(tmp_path: Path) -> None:
    guide = (ROOT / "docs/writing-a-component.md").read_text("utf-8")
    text, code = (
        re.findall(rf"```{kind}\n(.*?)```", guide, re.DOTALL)[0]
        for kind in ("mlir", "python")
    )
    signature = parse_component(text, "normalization/rms_norm")
    source = tmp_path / "rms_norm.mlir"
    source.write_text(text, "utf-8")
    forward = compiled(source, tmp_path, FLAGS)
    names: dict[str, Any] = {"np": np, "NDArray": NDArray, "Floats": np.ndarray}
    exec(code, names)
    rng = np.random.default_rng(0)
    x, weight = rng.standard_normal((5, 15)), rng.standard_normal(15)
    tensors = (x.astype(np.float32), weight.astype(np.float32))
    assert [formal.name for formal in signature.arguments] == ["x", "weight", "eps"]
    expected = names["rms_norm"](*tensors, EPS)
    assert np.abs(forward(*tensors, EPS) - expected).max() < TOLERANCE
