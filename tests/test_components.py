"""Test the digits of a norm, and that the guide shows real components."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from ingot.model.component import read_component
from tests.component_cases import ROOT
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


def test_the_guide_shows_the_component_and_its_oracle() -> None:
    guide = (ROOT / "docs/writing-a-component.md").read_text("utf-8")
    text, code = (
        re.findall(rf"```{kind}\n(.*?)```", guide, re.DOTALL)[0]
        for kind in ("mlir", "python")
    )
    files = "components/normalization/rms_norm.mlir", "oracles/normalization.py"
    mlir, oracle = ((ROOT / name).read_text("utf-8") for name in files)
    assert text == mlir
    assert code in oracle
