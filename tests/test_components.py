"""What no property over shapes says of components: digits of a norm, the guide."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ingot.model.component import parse_component, read_component
from tests.component_cases import ROOT, TOLERANCE
from tests.component_runs import FLAGS, compiled, oracle_of

EPS = 1e-12


def test_layer_norm_keeps_its_digits_where_the_mean_is_large(tmp_path: Path) -> None:
    source = ROOT / "components/normalization/layer_norm.mlir"
    forward = compiled(source, tmp_path, FLAGS)
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
