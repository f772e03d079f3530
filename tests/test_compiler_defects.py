"""Test for the compiler bugs that shaped the components; a fix makes its test fail.

A strict expected failure that passes says that a newer compiler is right, and that the
way round it, named in the reason, can go.
"""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingot.engine.toolchain import executable
from ingot.model.target import read_target
from ingot.runtime.invoke import Call, Module, call

ROOT = Path(__file__).resolve().parent.parent
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
    tool = executable("iree-compile")
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


# Two halves of what is made together, given to a function that is not inlined.
HALVES = """
module @halves {
  util.func private @apart(%n: index, %x: tensor<?x8xf32>)
      -> (tensor<?x4xf32>, tensor<?x4xf32>) attributes {ATTRIBUTES} {
    %rows = util.assume.int %n<umin = 1, umax = 64> : index
    %sized = flow.tensor.tie_shape %x : tensor<?x8xf32>{%rows}
    %twice = arith.addf %sized, %sized : tensor<?x8xf32>
    %first = tensor.extract_slice %twice[0, 0] [%rows, 4] [1, 1]
        : tensor<?x8xf32> to tensor<?x4xf32>
    %last = tensor.extract_slice %twice[0, 4] [%rows, 4] [1, 1]
        : tensor<?x8xf32> to tensor<?x4xf32>
    util.return %first, %last : tensor<?x4xf32>, tensor<?x4xf32>
  }
  util.func private @joined(%n: index, %a: tensor<?x4xf32>, %b: tensor<?x4xf32>)
      -> tensor<?x4xf32> attributes {ATTRIBUTES} {
    %rows = util.assume.int %n<umin = 1, umax = 64> : index
    %a_sized = flow.tensor.tie_shape %a : tensor<?x4xf32>{%rows}
    %b_sized = flow.tensor.tie_shape %b : tensor<?x4xf32>{%rows}
    %hundred = arith.constant dense<100.0> : tensor<4xf32>
    %init = tensor.empty(%rows) : tensor<?x4xf32>
    %y = linalg.generic {
      indexing_maps = [
        affine_map<(r, j) -> (r, j)>, affine_map<(r, j) -> (r, j)>,
        affine_map<(r, j) -> (j)>, affine_map<(r, j) -> (r, j)>
      ],
      iterator_types = ["parallel", "parallel"]
    } ins(%a_sized, %b_sized, %hundred
          : tensor<?x4xf32>, tensor<?x4xf32>, tensor<4xf32>)
      outs(%init : tensor<?x4xf32>) {
    ^bb0(%left: f32, %right: f32, %factor: f32, %unused: f32):
      %scaled = arith.mulf %right, %factor : f32
      %sum = arith.addf %left, %scaled : f32
      linalg.yield %sum : f32
    } -> tensor<?x4xf32>
    util.return %y : tensor<?x4xf32>
  }
  util.func public @forward(%x: tensor<?x8xf32>) -> tensor<?x4xf32> {
    %c0 = arith.constant 0 : index
    %n = tensor.dim %x, %c0 : tensor<?x8xf32>
    %rows = util.assume.int %n<umin = 1, umax = 64> : index
    %halves:2 = util.call @apart(%rows, %x)
        : (index, tensor<?x8xf32>) -> (tensor<?x4xf32>, tensor<?x4xf32>)
    %first = flow.tensor.tie_shape %halves#0 : tensor<?x4xf32>{%rows}
    %last = flow.tensor.tie_shape %halves#1 : tensor<?x4xf32>{%rows}
    %y = util.call @joined(%rows, %first, %last)
        : (index, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
    %sized = flow.tensor.tie_shape %y : tensor<?x4xf32>{%rows}
    util.return %sized : tensor<?x4xf32>
  }
  // Others call them too, with what is their caller's: so does every model.
  util.func public @first(%x: tensor<?x8xf32>) -> (tensor<?x4xf32>, tensor<?x4xf32>) {
    %c0 = arith.constant 0 : index
    %n = tensor.dim %x, %c0 : tensor<?x8xf32>
    %rows = util.assume.int %n<umin = 1, umax = 64> : index
    %halves:2 = util.call @apart(%rows, %x)
        : (index, tensor<?x8xf32>) -> (tensor<?x4xf32>, tensor<?x4xf32>)
    util.return %halves#0, %halves#1 : tensor<?x4xf32>, tensor<?x4xf32>
  }
  util.func public @second(%a: tensor<?x4xf32>, %b: tensor<?x4xf32>)
      -> tensor<?x4xf32> {
    %c0 = arith.constant 0 : index
    %n = tensor.dim %a, %c0 : tensor<?x4xf32>
    %rows = util.assume.int %n<umin = 1, umax = 64> : index
    %y = util.call @joined(%rows, %a, %b)
        : (index, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
    util.return %y : tensor<?x4xf32>
  }
}
"""
APART = (
    "inlining_policy = #util.inline.never,"
    " stream.affinity = #hal.device.promise<@__device_0>"
)
FORGETS_THE_PLACE = pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="of values made together, a function that is not inlined is given the first"
    " for each, in 3.13: ingot/emit lets blocks share functions in chains alone",
)


@pytest.mark.parametrize(
    "attributes",
    [
        pytest.param("halves.inlined", id="inlined"),
        pytest.param(APART, id="apart", marks=FORGETS_THE_PLACE),
    ],
)
def test_a_function_is_given_both_halves(attributes: str, tmp_path: Path) -> None:
    x = np.arange(16, dtype=np.float32).reshape(2, 8)
    forward = loaded(HALVES.replace("ATTRIBUTES", attributes), tmp_path)
    found = forward(x).to_host()
    np.testing.assert_array_equal(found, 2 * x[:, :4] + 200 * x[:, 4:])


@pytest.mark.xfail(
    strict=True,
    raises=subprocess.CalledProcessError,
    reason="'function type mismatch': an argument is the caller's memory in all calls"
    " or in none, in 3.13: ingot/emit has a function for each",
)
def test_a_function_is_given_what_is_made_and_what_is_the_callers(
    tmp_path: Path,
) -> None:
    made, _, taken = HALVES.partition("ATTRIBUTES")
    text = f"{made}halves.inlined{taken.replace('ATTRIBUTES', APART)}"
    loaded(text, tmp_path)


def loaded(text: str, folder: Path) -> Any:
    """The function @forward of a module, compiled for this machine."""
    import iree.runtime

    source, vmfb = folder / "module.mlir", folder / "module.vmfb"
    source.write_text(text, "utf-8")
    tool = executable("iree-compile")
    cpu = "--iree-llvmcpu-target-cpu=host"
    subprocess.run([tool, source, "-o", vmfb, *FLAGS[:-1], cpu], check=True)
    config = iree.runtime.Config("local-sync")
    module = iree.runtime.VmModule.mmap(config.vm_instance, str(vmfb))
    return iree.runtime.load_vm_module(module, config).forward


# Twice a row is written into a buffer, and read from there.
ROWS = """
module @rows {
  util.func private @put(%cache: !hal.buffer, %row: index, %x: tensor<4xf32>)
      -> tensor<4xf32> attributes {ATTRIBUTES} {
    %before = hal.tensor.import %cache : !hal.buffer -> tensor<2x4xf32>
    %written = tensor.insert_slice %x into %before[%row, 0] [1, 4] [1, 1]
        : tensor<4xf32> into tensor<2x4xf32>
    %read = tensor.extract_slice %written[%row, 0] [1, 4] [1, 1]
        : tensor<2x4xf32> to tensor<4xf32>
    %y = arith.addf %read, %read : tensor<4xf32>
    %kept = hal.tensor.alias on(#hal.device.promise<@__device_0>) %written
        : tensor<2x4xf32> to %cache : !hal.buffer
    %last = tensor.extract_slice %kept[%row, 0] [1, 4] [1, 1]
        : tensor<2x4xf32> to tensor<4xf32>
    %sum = arith.addf %y, %last : tensor<4xf32>
    util.return %sum : tensor<4xf32>
  }
  util.func public @forward(%view: !hal.buffer_view, %x: tensor<4xf32>)
      -> (tensor<4xf32>, !hal.buffer_view) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %cache = hal.buffer_view.buffer<%view : !hal.buffer_view> : !hal.buffer
    %first = util.call @put(%cache, %c0, %x)
        : (!hal.buffer, index, tensor<4xf32>) -> tensor<4xf32>
    %last = util.call @put(%cache, %c1, %first)
        : (!hal.buffer, index, tensor<4xf32>) -> tensor<4xf32>
    util.return %last, %view : tensor<4xf32>, !hal.buffer_view
  }
}
"""
FORGETS_A_WRITE = pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="of several inlined functions that write one buffer, one's write is kept, in"
    " 3.13: ingot/emit never inlines what writes",
)


@pytest.mark.parametrize(
    "attributes",
    [
        pytest.param("rows.inlined", id="inlined", marks=FORGETS_A_WRITE),
        pytest.param(APART, id="apart"),
    ],
)
def test_a_buffer_keeps_what_each_function_writes(
    attributes: str, tmp_path: Path
) -> None:
    x = np.arange(1, 5, dtype=np.float32)
    forward = loaded(ROWS.replace("ATTRIBUTES", attributes), tmp_path)
    last, cache = forward(np.zeros((2, 4), np.float32), x)
    np.testing.assert_array_equal(last.to_host(), 9 * x)
    np.testing.assert_array_equal(cache.to_host(), [x, 3 * x])


NARROW = """
module @narrow {
  util.func public @forward(%x: tensor<COUNTxf32>) -> tensor<COUNTxbf16> {
    %init = tensor.empty() : tensor<COUNTxbf16>
    %y = linalg.generic {
      indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]
    } ins(%x : tensor<COUNTxf32>) outs(%init : tensor<COUNTxbf16>) {
    ^bb0(%value: f32, %unused: bf16):
      %converted = arith.truncf %value : f32 to bf16
      linalg.yield %converted : bf16
    } -> tensor<COUNTxbf16>
    util.return %y : tensor<COUNTxbf16>
  }
}
"""
LOSES_THE_LAST = pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="0 for the last of an odd count of 16-bit numbers on targets that store"
    " 32-bit words, in 3.13: components/elementwise/cast_f32_to_bf16 has even rows",
)


@pytest.mark.vulkan
@pytest.mark.parametrize("count", [4, pytest.param(3, marks=LOSES_THE_LAST)])
def test_portable_vulkan_stores_every_half_word(count: int, tmp_path: Path) -> None:
    target = read_target(ROOT / "targets/vulkan.yaml", ROOT)
    source, vmfb = tmp_path / "narrow.mlir", tmp_path / "narrow.vmfb"
    source.write_text(NARROW.replace("COUNT", str(count)), "utf-8")
    tool = executable("iree-compile")
    flags = [item for item in target.compile_flags if "transform-dialect" not in item]
    subprocess.run([tool, source, "-o", vmfb, *flags], check=True)
    x = np.arange(1, count + 1, dtype=np.float32)
    (found,) = call(target.runner, Module(vmfb), Call("forward", (x,)))
    assert found.dtype.name == "bfloat16"
    assert found.astype(np.float32).tolist() == x.tolist()
