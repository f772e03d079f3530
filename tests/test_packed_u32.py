"""Test weights in 32-bit words on Vulkan, at the dims of models and in a decoder.

A sample of the stored types for each target; nightly, all of them for both.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from ingot.emit.modules import ComponentGroup
from ingot.model.component import ScalarFormal, TensorFormal, code_of, read_component
from ingot.model.graph import Instance
from ingot.model.layout import read_layout
from ingot.runtime.invoke import Call, Module, call
from ingot.stages.link import plan_link_component
from ingot.stages.specialize import plan_specialize
from ingot.weights.packing import grouped, quantised
from oracles import packed, packed_u32
from tests import scratch
from tests.component_cases import (
    NUMPY,
    ROOT,
    cases,
    component_files,
    fitted,
    instance_of,
    signature_of,
    sized,
)
from tests.component_runs import ODD, difference, expected_of, passed
from tests.project import Project, edit
from tests.test_odd_sizes import of_tree
from tests.toy_decoder import BUILDS, MODEL, place

TYPES = ("bf16", "f16", "i8", "i8_block32", "i4_block32")
NIGHTLY = [pytest.mark.nightly]
SAMPLE = {
    "vulkan": ("f16", "i4_block32"),
    "vulkan-llvmpipe": ("bf16", "i8", "i8_block32"),
}
# Of Qwen 2 0.5B and Gemma 3 270M; rows of the table are fewer, as they are addresses.
# What stays dynamic is given one row, and what is no multiple of a group.
REAL: tuple[tuple[str, dict[str, int], tuple[tuple[int, int], ...]], ...] = (
    ("linear/linear", {"n_in": 4864, "n_tile": 112}, ((1, 1), (3, 7))),
    ("linear/linear", {"n_in": 640, "n_tile": 256, "seq": 1}, ((3, 1),)),
    ("embedding/embedding_lookup", {"n_embd": 640, "n_tile": 256}, ((2, 5),)),
)
LAYOUT = read_layout(ROOT / "targets/layouts/packed_u32.yaml", ROOT)


def named(component: str, stored: str) -> str:
    kernel = LAYOUT.kernel(component, stored)
    assert kernel
    return kernel.prefill


def instance(component: str, stored: str, sizes: dict[str, int]) -> Instance:
    """Return a component's kernel for a stored type, bound to sizes."""
    signature = read_component(named(component, stored), ROOT)
    known = {"n_block": next(iter(sizes.values())) // 32, **sizes}
    dims = [name for name in known if name in str(signature.arguments)]
    return instance_of(signature, {name: known[name] for name in dims})


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Link a stored type's kernels at real dims, and compile them for a target."""

    @cache
    def made(stored: str, target: str, *flags: str) -> Path:
        folder = tmp_path_factory.mktemp(stored)
        sources = {}
        items = tuple(instance(name, stored, sizes) for name, sizes, _ in REAL)
        for item in items:
            source = ROOT / f"components/{item.component}.mlir"
            path = scratch.run(
                plan_specialize(item, code_of(source.read_text("utf-8"))),
                folder / item.name,
            )
            sources[path.name] = path
        group = ComponentGroup("all", items)
        linked = scratch.run(plan_link_component(ODD, group), folder / "link", sources)
        output = "compiled.mlir" if flags else "piece.vmfb"
        return scratch.compiled(
            of_tree(target), linked, folder / "compiled", output, flags
        )

    return made


def kernel_files(stored: str, **_: object) -> set[str]:
    """Return the files of a stored type's kernels."""
    return set().union(*(component_files(named(name, stored)) for name, *_ in REAL))


@pytest.mark.vulkan
@pytest.mark.reads("targets/**/*.*", files=kernel_files)
@pytest.mark.parametrize(
    ("target", "stored"),
    [
        pytest.param(target, stored, marks=[] if stored in sampled else NIGHTLY)
        for target, sampled in SAMPLE.items()
        for stored in TYPES
    ],
)
def test_words_are_read_right_at_the_dims_of_models(
    target: str, stored: str, compiled: Callable[..., Path]
) -> None:
    vmfb = compiled(stored, target)
    for component, fixed, shapes in REAL:
        item = instance(component, stored, fixed)
        signature = read_component(item.component, ROOT)
        bound = {name: size for name, size in item.dims if size is not None}
        for batch, seq in shapes:
            known = bound | {"batch": batch, "seq": seq}
            for case in cases(signature, fitted(signature, known) | bound):
                given = passed(signature, case, bound=True)
                formals = signature.arguments
                count = sum(isinstance(formal, ScalarFormal) for formal in formals)
                tensors = len(formals) - count
                what = Call(
                    f"component.{item.name}",
                    tuple(given[:tensors]),
                    tuple(given[tensors:]),
                    1,
                )
                found = call(of_tree(target).runner, Module(vmfb), what)
                wrong = difference(signature, found, expected_of(signature, case))
                assert not wrong, f"{item.component} at {case}: {wrong}"


@pytest.mark.reads("targets/**/*.*", files=kernel_files)
@pytest.mark.parametrize(
    "stored",
    [
        pytest.param(stored, marks=[] if "block32" in stored else NIGHTLY)
        for stored in TYPES
    ],
)
def test_code_for_words_needs_no_narrow_type_and_no_subgroup(
    stored: str, compiled: Callable[..., Path]
) -> None:
    path = compiled(stored, "vulkan", "--compile-to=executable-targets")
    text = path.read_text("utf-8")
    assert "spirv.EntryPoint" in text
    assert re.findall(r"GroupNonUniform\w*|ControlBarrier|, Workgroup>", text) == []
    assert set(re.findall(r"requires #spirv.vce<(v1.\d), \[([^]]*)\]", text)) == {
        ("v1.0", "Shader, Matrix")
    }


def baked(stored: str, rows: np.ndarray) -> dict[str, bytes]:
    """Return what the bake stores of a matrix."""
    if stored in ("bf16", "f16"):
        kind = ml_dtypes.bfloat16 if stored == "bf16" else np.float16
        return {"weight": grouped(rows.astype(kind), 8)}
    return quantised(rows, stored, 8)


def variant(kind: str, stored: str) -> str:
    """Return a kernel for a stored type: its own, or one with that type of weight."""
    is_float = kind.endswith("packed") and stored in ("bf16", "f16")
    return f"{kind}:{stored}" if is_float else f"{kind}_{stored}"


@pytest.mark.parametrize("stored", TYPES)
def test_what_is_baked_is_the_same_as_words_and_as_numbers(stored: str) -> None:
    rng = np.random.default_rng(4)
    rows = rng.standard_normal((24, 64)).astype(np.float32)
    # Below the normal numbers of float16 too.
    rows[:, ::5] *= 1e-5
    arguments: dict[str, list[np.ndarray]] = {
        "linear_packed_u32": [],
        "linear_packed": [],
    }
    for kind, made in arguments.items():
        for formal in signature_of(f"linear/{variant(kind, stored)}").arguments[1:]:
            assert isinstance(formal, TensorFormal)
            shape = sized(
                formal.type, {"n_tile": 3, "n_in": 64, "n_block": 2, "tile_n": 8}
            )
            data = baked(stored, rows)[formal.name]
            made.append(np.frombuffer(data, NUMPY[formal.type.element]).reshape(shape))
    x = rng.standard_normal((2, 3, 64))
    ids = rng.integers(0, 24, (2, 5), dtype=np.int32)
    for task, first, last in (("linear", (x,), ()), ("embedding", (), (ids, 0.5))):
        stem = "linear" if task == "linear" else "embedding_lookup"
        found, expected = (
            getattr(module, variant(f"{stem}_{kind}", stored).partition(":")[0])(
                *first, *arguments[f"linear_{kind}"], *last
            )
            for module, kind in (
                (packed_u32, "packed_u32"),
                (packed, "packed"),
            )
        )
        np.testing.assert_array_equal(found, expected)


def test_the_first_number_of_a_word_is_in_its_lowest_bits_by_hand() -> None:
    word = np.array([[0x3F80C000, 0x7F8000FF]], np.int32)
    assert packed_u32.parts(word, 16).tolist() == [[0xC000, 0x3F80, 0x00FF, 0x7F80]]
    assert packed_u32.bfloats(word[:, :1]).tolist() == [[-2.0, 1.0]]
    assert packed_u32.halves(word[:, :1]).tolist() == [[-2.0, 1.875]]
    assert packed_u32.signed(word[:, 1:]).tolist() == [[-1, 0, -128, 127]]


def test_maps_in_tiles_of_float32_by_hand() -> None:
    # Output v is 10 - v + 3 * (v + 1), and its bias v / 2.
    weight = np.array([[[10, 9, 8, 7, 6, 5, 4, 3], range(1, 9)]], np.float32)
    x, bias = np.array([[[1.0, 3.0]]]), np.arange(8) / 2
    found = packed_u32.linear_packed_u32_f32(x, weight)
    assert found.tolist() == [[[13, 15, 17, 19, 21, 23, 25, 27]]]
    found = packed_u32.linear_bias_packed_u32_f32(x, weight, bias)
    assert found.tolist() == [[[13, 15.5, 18, 20.5, 23, 25.5, 28, 30.5]]]


def test_words_refuse_an_id_outside_the_table() -> None:
    ids = np.array([[0, 24]], np.int32)
    with pytest.raises(IndexError):
        packed_u32.embedding_lookup_packed_u32_bf16(
            np.zeros((3, 5, 4), np.int32), ids, 1.0
        )


@BUILDS[0]
@BUILDS[1]
@pytest.mark.slow
@pytest.mark.vulkan
@pytest.mark.parametrize(
    ("target", "table"),
    [
        ("vulkan", "i4_block32"),
        pytest.param("vulkan-llvmpipe", "i8", marks=NIGHTLY),
    ],
)
def test_a_decoder_of_all_stored_types_is_right(
    target: str, table: str, tmp_path: Path
) -> None:
    project = Project.create(tmp_path / "checkout")
    manifest = place(project.root)
    edit(manifest, "n_embd: 16", "n_embd: 64")
    # Of the last tile, 3 rows are the vocabulary's.
    edit(manifest, "n_vocab: 48", "n_vocab: 51")
    edit(manifest, "head_dim: 4", "head_dim: 16")
    rules = {"token_embd": table, "*attn_q": "bf16", "*attn_k": "f16"}
    rules |= {"*attn_v": "i8_block32", "*attn_output": "q4_1"}
    lines = [
        f'    - {{match: "{name}.weight", source: f32, stored: {stored}, compute: f32}}'
        for name, stored in rules.items()
    ]
    edit(manifest, "  policy:\n", "\n".join(["  policy:", *lines, ""]))
    run = project.doit("check", f"model={MODEL}", f"target={target}")
    assert run.code == 0, run.err
    path = project.root / f"build/{MODEL}/{target}/check.json"
    rows = json.loads(path.read_text())["rows"]
    assert all(row["passed"] for row in rows)
    told = {row["name"] for row in rows if row["level"] == "component"}
    for stored in rules.values():
        assert any(re.search(rf"packed_u32_{stored}(_|\b)", n) for n in told)
