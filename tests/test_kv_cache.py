"""Test that several layers update a cache without a copy, and that decode is tiled."""

from __future__ import annotations

import platform
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingot.model.component import code_of, read_component
from ingot.model.target import read_target
from ingot.stages.specialize import plan_specialize
from oracles.attention import attention_causal
from oracles.cache import kv_cache_update
from tests import scratch
from tests.component_cases import component_files, instance_of
from tests.component_runs import run_tool
from tests.copies import copies

ROOT = Path(__file__).resolve().parent.parent
FLAGS = read_target(ROOT / "targets/x86_64.yaml", ROOT).compile_flags
KERNELS = (
    "--iree-codegen-transform-dialect-library="
    "targets/llvm-cpu.kernels.mlir@__kernel_config"
)
pytestmark = pytest.mark.reads(
    "targets/**/*.*",
    files=lambda **_: set().union(
        *map(component_files, ("attention/attention_causal", "cache/kv_cache_update"))
    ),
)
N_LAYER = 3
# Of Gemma 3 270M and SmolLM2 135M: n_head, n_head_kv, head_dim.
HEADS = ((4, 1, 256), (9, 3, 64))


def specialized(component: str, sizes: dict[str, int], folder: Path) -> Path:
    """Return the file of a component at sizes; its module is the component's stem."""
    signature = read_component(component, ROOT).leaving_out(())
    item = instance_of(signature, {**sizes, "block_size": 64})
    source = ROOT / f"components/{component}.mlir"
    text = scratch.run(
        plan_specialize(item, code_of(source.read_text("utf-8"))), folder / item.name
    ).read_text()
    stem = component.rpartition("/")[2]
    path = folder / f"{stem}.mlir"
    path.write_text(text.replace(f"module @{item.name}", f"module @{stem}"), "utf-8")
    return path


def layers(heads: tuple[int, int, int], seq: int | None, folder: Path) -> Path:
    """Return a module that updates and reads both caches in each of the layers."""
    n_head, n_head_kv, head_dim = heads
    bound = {} if seq is None else {"seq": seq}
    head_sizes = {"n_head": n_head, "n_head_kv": n_head_kv, "head_dim": head_dim}
    update_sizes = {"n_layer": N_LAYER, "n_embd_kv": n_head_kv * head_dim}
    modules = (
        specialized(
            "attention/attention_causal",
            {"n_layer": N_LAYER} | head_sizes | bound,
            folder,
        ),
        specialized("cache/kv_cache_update", update_sizes | bound, folder),
    )
    rows = f"tensor<?x{seq or '?'}x"
    q, x = f"{rows}{n_head * head_dim}xf32>", f"{rows}{n_head_kv * head_dim}xf32>"
    cache = f"tensor<{N_LAYER}x?x?x{n_head_kv * head_dim}xf32>"
    main = folder / "layers.mlir"
    main.write_text(layers_text(q, x, cache), "utf-8")
    linked = folder / "linked.mlir"
    links = (word for path in modules for word in ("--link-module", path))
    run_tool("iree-link", main, *links, "-o", linked)
    # Linking takes every '@forward' for a component's.
    linked.write_text(linked.read_text("utf-8").replace("@run(", "@forward("), "utf-8")
    return linked


def layers_text(q: str, x: str, cache: str) -> str:
    """Return the module of the layers, with tensors of these types."""
    update = f"({cache}, {x}, tensor<?xi32>, i32) -> {cache}"
    attend = f"({q}, {cache}, {cache}, tensor<?xi32>, i32, i32, f32) -> {q}"
    lines = [
        f"util.func private @kv_cache_update.forward{update}",
        f"util.func private @attention_causal.forward{attend}",
        f"util.func public @run(%q0: {q}, %k: {x}, %v: {x}, %at: tensor<?xi32>,",
        f"  %k0: {cache} {{iree.abi.output = 1 : index}},",
        f"  %v0: {cache} {{iree.abi.output = 2 : index}})",
        f"  -> ({q}, {cache}, {cache}) {{",
        "%window = arith.constant 20 : i32",
        "%scale = arith.constant 6.25e-02 : f32",
    ]
    for i in range(N_LAYER):
        lines += [
            f"%known{i} = arith.constant {i} : i32",
            f"%layer{i} = util.optimization_barrier %known{i} : i32",
            f"%k{i + 1} = util.call @kv_cache_update.forward"
            f"(%k{i}, %k, %at, %layer{i}) : {update}",
            f"%v{i + 1} = util.call @kv_cache_update.forward"
            f"(%v{i}, %v, %at, %layer{i}) : {update}",
            f"%q{i + 1} = util.call @attention_causal.forward(%q{i}, %k{i + 1}, "
            f"%v{i + 1}, %at, %layer{i}, %window, %scale) : {attend}",
        ]
    values = f"%q{N_LAYER}, %k{N_LAYER}, %v{N_LAYER}"
    lines.append(f"util.return {values} : {q}, {cache}, {cache}")
    return "\n".join(("module @layers {", *lines, "}", "}", ""))


@pytest.mark.parametrize("seq", [1, None])
@pytest.mark.parametrize("heads", HEADS)
def test_no_layer_copies_or_packs_a_cache(
    heads: tuple[int, int, int], seq: int | None, tmp_path: Path
) -> None:
    output = tmp_path / "stream.mlir"
    source = layers(heads, seq, tmp_path)
    run_tool("iree-compile", source, "-o", output, *FLAGS, "--compile-to=stream")
    text = output.read_text("utf-8")
    kernels = re.findall(r"stream\.cmd\.dispatch @\w+::@(\w+)", text)
    assert len(kernels) >= 6 * N_LAYER
    assert not [name for name in kernels if re.search("encod|pack|copy", name)]
    # A block of a prompt is put into the result of those before it, a new one.
    assert copies(text) == ([] if seq else ["stream.cmd.copy"] * N_LAYER)


def test_a_cache_is_copied_where_it_is_not_the_result(tmp_path: Path) -> None:
    """What finds no copies above finds one where there has to be one."""
    source, output = layers(HEADS[1], 1, tmp_path), tmp_path / "stream.mlir"
    apart = re.sub(
        r" \{iree\.abi\.output = \d : index\}", "", source.read_text("utf-8")
    )
    source.write_text(apart, "utf-8")
    run_tool("iree-compile", source, "-o", output, *FLAGS, "--compile-to=stream")
    assert copies(output.read_text("utf-8")) == ["stream.cmd.copy"] * 2


@pytest.mark.skipif(platform.machine() != "x86_64", reason="runs what it compiles")
@pytest.mark.parametrize("heads", HEADS)
def test_layers_run_in_place(heads: tuple[int, int, int], tmp_path: Path) -> None:
    import iree.runtime

    n_head, n_head_kv, head_dim = heads
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape, dtype=np.float32)

    q = normal(2, 1, n_head * head_dim)
    k, v = (normal(2, 1, n_head_kv * head_dim) for _ in range(2))
    caches = [normal(N_LAYER, 2, 33, n_head_kv * head_dim) for _ in range(2)]
    start = np.array([3, 32], np.int32)
    source, vmfb = layers(heads, 1, tmp_path), tmp_path / "layers.vmfb"
    run_tool("iree-compile", source, "-o", vmfb, *FLAGS, KERNELS)
    config = iree.runtime.Config("local-sync")
    module = iree.runtime.VmModule.mmap(config.vm_instance, str(vmfb))
    forward = iree.runtime.load_vm_module(module, config).forward
    results = forward(q, k, v, start, *caches)
    found, *written = (result.to_host() for result in results)
    expected = q
    for layer in range(N_LAYER):
        caches = [
            kv_cache_update(cache, x, start, layer)
            for cache, x in zip(caches, (k, v), strict=True)
        ]
        numbers: Any = (start, layer, 20, 0.0625, n_head, n_head_kv)
        expected = attention_causal(expected, caches[0], caches[1], *numbers)
    assert np.abs(found - expected).max() < 1e-5
    for cache, exact in zip(written, caches, strict=True):
        np.testing.assert_array_equal(cache, exact)


@pytest.mark.parametrize("heads", HEADS)
def test_attention_has_the_tiles_of_the_kernels_file(
    heads: tuple[int, int, int], tmp_path: Path
) -> None:
    """A rule that no longer parses or matches says nothing: the tiles have to show."""
    sizes = dict(zip(("n_head", "n_head_kv", "head_dim"), heads, strict=True))
    tiles = []
    for bound in ({"seq": 1}, {}):
        component = "attention/attention_causal"
        source = specialized(component, {"n_layer": 3} | sizes | bound, tmp_path)
        output = tmp_path / "configured.mlir"
        phase = "--compile-to=executable-configurations"
        run_tool("iree-compile", source, "-o", output, *FLAGS, KERNELS, phase)
        found = re.findall(r"distribution = (\[[0-9, ]+\])", output.read_text("utf-8"))
        tiles.append(set(found))
    one_head = (
        {"[0, 1, 0, 64, 0]", "[1, 1, 1, 0, 0, 32, 0]"},
        {"[1, 1, 1, 64, 64, 0]", "[1, 1, 1, 1, 64, 128, 0]"},
    )
    more = (
        {"[0, 1, 0, 0, 64, 0]", "[1, 1, 1, 0, 0, 0, 0]"},
        {"[1, 1, 1, 1, 64, 64, 0]", "[1, 1, 1, 1, 64, 128, 0]"},
    )
    decode, prompt = one_head if heads[1] == 1 else more
    assert decode <= tiles[0]
    assert prompt <= tiles[1]
    assert not decode & tiles[1]
    assert not prompt & tiles[0]
