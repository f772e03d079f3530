"""Test what IREE compiles loops over tensors to; a better result makes a test fail."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.test_compiler_defects import loaded

# Ones with heads before positions, made in a loop, and turned.
TURNED = """
module @turned {
  util.func public @forward(%q: tensor<?x?x?x?xf32>, %h: index, %n: index)
      -> tensor<?x?x?x?x?xf32> {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %one = arith.constant 1.0 : f32
    %b = tensor.dim %q, %c0 : tensor<?x?x?x?xf32>
    %s = tensor.dim %q, %c1 : tensor<?x?x?x?xf32>
    %hg = tensor.dim %q, %c2 : tensor<?x?x?x?xf32>
    %d = tensor.dim %q, %c3 : tensor<?x?x?x?xf32>
    %g = arith.divui %hg, %h : index
    %m_init = tensor.empty(SIZES) : tensor<?x?x?x?x?xf32>
    %m_first = linalg.fill ins(%one : f32) outs(%m_init : tensor<?x?x?x?x?xf32>)
        -> tensor<?x?x?x?x?xf32>
    %m = scf.for %i = %c0 to %n step %c1 iter_args(%m0 = %m_first)
        -> tensor<?x?x?x?x?xf32> {
      %m1 = arith.addf %m0, %m0 : tensor<?x?x?x?x?xf32>
      scf.yield %m1 : tensor<?x?x?x?x?xf32>
    }
    %init = tensor.empty(%b, %s, %h, %g, %d) : tensor<?x?x?x?x?xf32>
    %y = linalg.generic {
      indexing_maps = [affine_map<(b, s, h, g, d) -> (KEPT)>,
                       affine_map<(b, s, h, g, d) -> (b, s, h, g, d)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]
    } ins(%m : tensor<?x?x?x?x?xf32>) outs(%init : tensor<?x?x?x?x?xf32>) {
    ^bb0(%value: f32, %unused: f32):
      linalg.yield %value : f32
    } -> tensor<?x?x?x?x?xf32>
    util.return %y : tensor<?x?x?x?x?xf32>
  }
}
"""
LEAVES_OUT = pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="where neighbouring dims of what a loop carries become one, a kernel of"
    " dynamic sizes has one dim's count of tiles for another's, in 3.13: no component"
    " turns what a loop carries",
)


@pytest.mark.parametrize(
    "kept", [pytest.param("b, h, g, s, d", marks=LEAVES_OUT), "b, g, h, s, d"]
)
def test_all_columns_of_what_a_loop_carries_are_turned(
    kept: str, tmp_path: Path
) -> None:
    sizes = ", ".join(f"%{name}" for name in kept.split(", "))
    text = TURNED.replace("KEPT", kept).replace("SIZES", sizes)
    turned = loaded(text, tmp_path)(np.zeros((1, 64, 4, 256), np.float32), 2, 0)
    assert (turned.to_host() == 1).all()
