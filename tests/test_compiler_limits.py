"""Test what the compiler cannot compile; a compiler that can makes its test fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.component_runs import FLAGS, tool_words

# Weights by values: of which each has two parts, and lies in a layer of a cache.
VALUES = """
module @values {
  util.func public @forward(
      %weights: tensor<?x?x?xf32>, %cache: tensor<1x?x?x2xf32>, %layer: index
  ) -> tensor<2x?x?xf32> {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %zero = arith.constant 0.0 : f32
    %batch = tensor.dim %weights, %c0 : tensor<?x?x?xf32>
    %seq = tensor.dim %weights, %c1 : tensor<?x?x?xf32>
    %any_ctx = tensor.dim %cache, %c2 : tensor<1x?x?x2xf32>
    %ctx = util.assume.int %any_ctx<umin = 1, umax = LARGEST> : index
    %v = tensor.extract_slice %cache[%layer, 0, 0, 0] [1, %batch, %ctx, 2] [1, 1, 1, 1]
        : tensor<1x?x?x2xf32> to tensor<?x?x2xf32>
    %empty = tensor.empty(%batch, %seq) : tensor<2x?x?xf32>
    %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<2x?x?xf32>)
        -> tensor<2x?x?xf32>
    %y = linalg.generic {
      indexing_maps = [
        affine_map<(e, b, s, t) -> (b, s, t)>, affine_map<(e, b, s, t) -> (b, t, e)>,
        affine_map<(e, b, s, t) -> (e, b, s)>
      ],
      iterator_types = ["parallel", "parallel", "parallel", "reduction"]
    } ins(%weights, %v : tensor<?x?x?xf32>, tensor<?x?x2xf32>)
      outs(%init : tensor<2x?x?xf32>) {
    ^bb0(%weight: f32, %value: f32, %sum: f32):
      %product = arith.mulf %weight, %value : f32
      %next = arith.addf %sum, %product : f32
      linalg.yield %next : f32
    } -> tensor<2x?x?xf32>
    util.return %y : tensor<2x?x?xf32>
  }
}
"""
TILES_WITHOUT_END = pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="'large vector sizes': values of one number in a slice are copied whole to"
    " the stack, in 3.13: the Dims of components/attention refuse that head_dim",
)


@pytest.mark.parametrize("largest", [512, pytest.param(4096, marks=TILES_WITHOUT_END)])
def test_values_of_a_cache_of_any_length_compile(largest: int, tmp_path: Path) -> None:
    source = tmp_path / "values.mlir"
    source.write_text(VALUES.replace("LARGEST", str(largest)), "utf-8")
    flags = (*FLAGS, "--iree-opt-data-tiling")
    assert tool_words("iree-compile", source, "-o", tmp_path / "y.vmfb", *flags) == ""


# Shares by values of one head, each of the sequence's length.
SHARES = """
module @shares {
  util.func public @forward(
      %shares: tensor<?x?x?xf32>, %v: tensor<?x?x64xf32>
  ) -> tensor<?x?x64xf32> {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant 0.0 : f32
    %batch = tensor.dim %v, %c0 : tensor<?x?x64xf32>
    %any_seq = tensor.dim %v, %c1 : tensor<?x?x64xf32>
    %seq = util.assume.int %any_seq<umin = 1, umax = 512> : index
    %left = tensor.extract_slice %shares[0, 0, 0] [%batch, %seq, %seq] [1, 1, 1]
        : tensor<?x?x?xf32> to tensor<?x?x?xf32>
    %right = tensor.extract_slice %v[0, 0, 0] [%batch, %seq, 64] [1, 1, 1]
        : tensor<?x?x64xf32> to tensor<?x?x64xf32>
    %empty = tensor.empty(%batch, %seq) : tensor<?x?x64xf32>
    %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<?x?x64xf32>)
        -> tensor<?x?x64xf32>
    %y = linalg.batch_matmul
        ins(%left, %right : tensor<?x?x?xf32>, tensor<?x?x64xf32>)
        outs(%init : tensor<?x?x64xf32>) -> tensor<?x?x64xf32>
    util.return %y : tensor<?x?x64xf32>
  }
}
"""
WHOLE_SUMS = pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="'large vector sizes': data tiling packs as many terms of a batched product"
    " as a range allows, in 3.13: attention_bidirectional refuses one head",
)


@pytest.mark.parametrize(
    "flags", [(), pytest.param(("--iree-opt-data-tiling",), marks=WHOLE_SUMS)]
)
def test_batched_products_over_a_sequence_of_a_range_compile(
    flags: tuple[str, ...], tmp_path: Path
) -> None:
    source = tmp_path / "shares.mlir"
    source.write_text(SHARES, "utf-8")
    words = tool_words(
        "iree-compile", source, "-o", tmp_path / "y.vmfb", *FLAGS, *flags
    )
    assert words == ""
