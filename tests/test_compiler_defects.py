"""Defects of the compiler that shaped the components: each fails until it is repaired.

A strict expected failure that passes says that a newer compiler is right, and that the
way round it, named in the reason, can go.
"""

from __future__ import annotations

import platform
import subprocess
import sysconfig
from pathlib import Path

import numpy as np
import pytest

ATTENTION = """
module @attention {
  util.func public @forward(
      %q: tensor<1x8xHEADxf32>, %k: tensor<1x32xHEADxf32>, %v: tensor<1x32xHEADxf32>
  ) -> tensor<1x8xHEADxf32> {
    %scale = arith.constant 6.25e-02 : f32
    %init = tensor.empty() : tensor<1x8xHEADxf32>
    %y = iree_linalg_ext.attention <indexing_maps = [
        affine_map<(b, s, e, t, d) -> (b, s, d)>,
        affine_map<(b, s, e, t, d) -> (b, t, d)>,
        affine_map<(b, s, e, t, d) -> (b, t, e)>,
        affine_map<(b, s, e, t, d) -> ()>,
        affine_map<(b, s, e, t, d) -> (b, s, e)>
      ]> ins(%q, %k, %v, %scale : tensor<1x8xHEADxf32>, tensor<1x32xHEADxf32>,
             tensor<1x32xHEADxf32>, f32)
      outs(%init : tensor<1x8xHEADxf32>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
    } -> tensor<1x8xHEADxf32>
    util.return %y : tensor<1x8xHEADxf32>
  }
}
"""
FLAGS = (
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=x86-64-v3",
)
WRONG_AT_256 = pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="wrong numbers without an error on llvm-cpu with AVX2, in 3.11 to 3.13: "
    "components/attention has the products and the softmax as linalg.generic instead",
)


@pytest.mark.skipif(
    platform.machine() != "x86_64", reason="the defect is that of code for AVX2"
)
@pytest.mark.parametrize("head_dim", [128, pytest.param(256, marks=WRONG_AT_256)])
def test_attention_op_of_the_compiler_is_right(head_dim: int, tmp_path: Path) -> None:
    import iree.runtime

    source, vmfb = tmp_path / "attention.mlir", tmp_path / "attention.vmfb"
    source.write_text(ATTENTION.replace("HEAD", str(head_dim)), "utf-8")
    tool = Path(sysconfig.get_path("scripts")) / "iree-compile"
    subprocess.run([tool, source, "-o", vmfb, *FLAGS], check=True)
    config = iree.runtime.Config("local-sync")
    module = iree.runtime.VmModule.mmap(config.vm_instance, str(vmfb))
    rng = np.random.default_rng(0)
    q, k, v = (
        rng.standard_normal((1, rows, head_dim), dtype=np.float32)
        for rows in (8, 32, 32)
    )
    found = iree.runtime.load_vm_module(module, config).forward(q, k, v).to_host()
    score = q.astype(np.float64) @ k.transpose(0, 2, 1) / 16
    weight = np.exp(score - score.max(axis=-1, keepdims=True))
    expected = weight / weight.sum(axis=-1, keepdims=True) @ v
    assert np.abs(found - expected).max() < 1e-5
