"""Test every way in which a module, a vmfb and an archive can contradict each other."""

from __future__ import annotations

import copy
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from iree.runtime import ParameterIndex

from ingot.checks.artifact_fit import (
    Declared,
    check_parameters,
    declared_parameters,
    dump_module,
    loaded_parameters,
)
from ingot.codec import from_json
from ingot.engine.toolchain import executable
from ingot.errors import IngotError
from ingot.programs.bake.main import bake
from ingot.programs.bake.spec import BakeSpec
from ingot.weights.irpa import read_archive

WEIGHT, BIAS = "blk.0.attn_q.weight", "blk.0.attn_q.bias"
LINKED = f"""
module @toy {{
  util.global private @w = #flow.parameter.named<"model"::"{WEIGHT}"> : tensor<4x3xf32>
  util.global private @b = #flow.parameter.named<"model"::"{BIAS}"> : tensor<4xf32>
  util.func public @encode(%x: tensor<3xf32>) -> tensor<4xf32> {{
    %w = util.global.load @w : tensor<4x3xf32>
    %b = util.global.load @b : tensor<4xf32>
    %y = linalg.matvec ins(%w, %x : tensor<4x3xf32>, tensor<3xf32>)
        outs(%b : tensor<4xf32>) -> tensor<4xf32>
    util.return %y : tensor<4xf32>
  }}
}}
"""


def compile_text(text: str, folder: Path) -> bytes:
    (folder / "linked.mlir").write_text(text)
    flags = (
        "--iree-hal-target-device=local",
        "--iree-hal-local-target-device-backends=llvm-cpu",
        "--iree-llvmcpu-target-cpu=generic",
    )
    subprocess.run(
        [executable("iree-compile"), "linked.mlir", *flags, "-o", "model.vmfb"],
        cwd=folder,
        check=True,
    )
    return (folder / "model.vmfb").read_bytes()


def bake_shapes(shapes: dict[str, list[int]], folder: Path) -> dict[str, Any]:
    """Bake synthetic parameters into the folder; return the report."""
    specification = {
        "model": "toy",
        "layout": "plain",
        "origin": "synthetic, seed 1",
        "seed": 1,
        "splat": None,
        "files": [],
        "ignore": [],
        "parameters": [
            {
                "name": name,
                "shape": shape,
                "tensor": name,
                "source": "f32",
                "stored": "f32",
                "offset": 0.0,
                "interleaved_heads": None,
                "table": None,
            }
            for name, shape in shapes.items()
        ],
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        bake(from_json(BakeSpec, json.dumps(specification)))
    report: dict[str, Any] = json.loads((folder / "bake.json").read_text())
    return report


SHAPES = {WEIGHT: [4, 3], BIAS: [4]}


@pytest.fixture(scope="module")
def vmfb(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return compile_text(LINKED, tmp_path_factory.mktemp("vmfb"))


@pytest.fixture(scope="module")
def baked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("baked")
    return folder / "model.irpa", bake_shapes(SHAPES, folder)


Baked = tuple[Path, dict[str, Any]]


def test_parts_that_fit_have_no_problem(vmfb: bytes, baked: Baked) -> None:
    assert check_parameters(LINKED, vmfb, *baked) == []


def test_a_linked_modules_parameters_are_read_from_its_text() -> None:
    assert declared_parameters(LINKED) == {
        WEIGHT: Declared("f32", (4, 3)),
        BIAS: Declared("f32", (4,)),
    }
    scalar = '#flow.parameter.named<"model"::"s"> : tensor<bf16>'
    assert declared_parameters(scalar) == {"s": Declared("bf16", ())}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            LINKED.replace('"model"::', '"other"::', 1),
            f"linked.mlir: parameter '{WEIGHT}': wrong scope; expected 'model', found"
            " 'other'",
        ),
        (
            LINKED.replace('"model"::', "", 1),
            f"linked.mlir: parameter '{WEIGHT}': wrong scope; expected 'model', found"
            " ''",
        ),
        (
            LINKED.replace(BIAS, WEIGHT),
            f"linked.mlir: parameter '{WEIGHT}': declared twice",
        ),
        (
            LINKED.replace("tensor<4x3xf32>", "tensor<4x3xi64>"),
            f"linked.mlir: parameter '{WEIGHT}': unknown type; expected one of f32,"
            " f16, bf16, i8, i16, i32, found 'i64'",
        ),
        (
            LINKED.replace("tensor<4x3xf32>", "tensor<?x3xf32>", 1),
            "linked.mlir: a parameter is not of the form"
            ' \'#flow.parameter.named<"model"::"name"> : tensor<2x3xf32>\';'
            " expected 2, found 1",
        ),
    ],
    ids=["scope", "no_scope", "twice", "unknown_type", "dynamic"],
)
def test_a_declaration_that_cannot_be_checked_is_a_problem(
    text: str, message: str, vmfb: bytes, baked: Baked
) -> None:
    assert check_parameters(text, vmfb, *baked) == [message]


def test_a_vmfbs_loads_are_read_with_their_lengths(vmfb: bytes) -> None:
    assert loaded_parameters(dump_module(vmfb)) == {WEIGHT: 48, BIAS: 16}


def test_what_is_no_vmfb_is_a_problem(baked: Baked) -> None:
    (problem,) = check_parameters(LINKED, b"junk", *baked)
    assert problem.startswith("model.vmfb: iree-dump-module failed; ")


def test_a_load_in_an_unknown_form_is_an_error() -> None:
    with pytest.raises(IngotError, match=r"cannot read how it loads: .*scatter"):
        loaded_parameters("  vm.call @io_parameters.scatter(%r0, %r1)")


def test_a_vmfb_of_another_module_is_a_problem(tmp_path: Path, baked: Baked) -> None:
    other = LINKED.replace(BIAS, "blk.0.attn_k.bias").replace("4x3x", "4x5x")
    other = other.replace("tensor<3xf32>", "tensor<5xf32>")
    assert check_parameters(LINKED, compile_text(other, tmp_path), *baked) == [
        "parameter 'blk.0.attn_k.bias': not declared by linked.mlir, not in model.irpa,"
        " not in bake.json",
        f"parameter '{BIAS}': not loaded by model.vmfb",
        f"model.vmfb: parameter '{WEIGHT}': wrong length; expected 48 bytes for"
        " f32[4, 3], found 80",
    ]


def test_a_parameter_that_no_entry_point_uses_is_a_problem(
    tmp_path: Path, baked: Baked
) -> None:
    unused = LINKED.replace("%b = util.global.load @b", "%c = util.global.load @b")
    unused = unused.replace("outs(%b", "outs(%z").replace(
        "    %y", "    %z = arith.constant dense<0.0> : tensor<4xf32>\n    %y"
    )
    assert check_parameters(unused, compile_text(unused, tmp_path), *baked) == [
        f"parameter '{BIAS}': not loaded by model.vmfb"
    ]


def test_a_missing_parameter_is_a_problem(vmfb: bytes, tmp_path: Path) -> None:
    report = bake_shapes({WEIGHT: [4, 3]}, tmp_path)
    assert check_parameters(LINKED, vmfb, tmp_path / "model.irpa", report) == [
        f"parameter '{BIAS}': not in model.irpa, not in bake.json"
    ]


def test_an_unused_parameter_is_a_problem(vmfb: bytes, tmp_path: Path) -> None:
    report = bake_shapes({**SHAPES, "output.weight": [2, 2]}, tmp_path)
    assert check_parameters(LINKED, vmfb, tmp_path / "model.irpa", report) == [
        "parameter 'output.weight': not declared by linked.mlir, not loaded by"
        " model.vmfb"
    ]


def test_a_wrong_length_is_a_problem(vmfb: bytes, tmp_path: Path) -> None:
    report = bake_shapes({**SHAPES, BIAS: [5]}, tmp_path)
    assert check_parameters(LINKED, vmfb, tmp_path / "model.irpa", report) == [
        f"model.irpa: parameter '{BIAS}': wrong length; expected 16 bytes for f32[4],"
        " found 20",
        f"model.irpa: parameter '{BIAS}': wrong type; expected f32[4], found f32[5]",
        f"bake.json: parameter '{BIAS}': wrong type; expected f32[4], found f32[5]",
    ]


def test_a_transposed_parameter_is_a_problem(vmfb: bytes, tmp_path: Path) -> None:
    report = bake_shapes({**SHAPES, WEIGHT: [3, 4]}, tmp_path)
    assert check_parameters(LINKED, vmfb, tmp_path / "model.irpa", report) == [
        f"model.irpa: parameter '{WEIGHT}': wrong type; expected f32[4, 3],"
        " found f32[3, 4]",
        f"bake.json: parameter '{WEIGHT}': wrong type; expected f32[4, 3],"
        " found f32[3, 4]",
    ]


def test_a_type_of_the_same_length_is_a_problem(vmfb: bytes, baked: Baked) -> None:
    path, report = baked
    changed = copy.deepcopy(report)
    changed["parameters"][0]["type"] = "bf16"
    assert check_parameters(LINKED, vmfb, path, changed) == [
        f"bake.json: parameter '{BIAS}': wrong type; expected f32[4], found bf16[4]"
    ]


def test_an_archive_without_types_is_a_problem(
    vmfb: bytes, baked: Baked, tmp_path: Path
) -> None:
    path, report = baked
    index, bare = ParameterIndex(), ParameterIndex()
    index.load(str(path))
    for key, entry in index.items():
        bare.add_buffer(key, entry.file_view)
    bare.create_archive_file(str(tmp_path / "model.irpa"))
    assert check_parameters(LINKED, vmfb, tmp_path / "model.irpa", report) == [
        f"model.irpa: parameter '{BIAS}': wrong type; expected f32[4], found None",
        f"model.irpa: parameter '{WEIGHT}': wrong type; expected f32[4, 3], found None",
    ]


def test_damaged_content_is_a_problem(
    vmfb: bytes, baked: Baked, tmp_path: Path
) -> None:
    path, report = baked
    content = bytearray(path.read_bytes())
    content[read_archive(path)[1].offset + 47] ^= 1
    damaged = tmp_path / "model.irpa"
    damaged.write_bytes(content)
    (problem,) = check_parameters(LINKED, vmfb, damaged, report)
    expected = report["parameters"][1]["sha256"]
    assert problem.startswith(
        f"model.irpa: parameter '{WEIGHT}': not as it was baked; expected sha256"
        f" {expected}, found "
    )


@pytest.mark.parametrize("length", [-1, 100, 0], ids=["data", "header", "empty"])
def test_a_truncated_archive_is_a_problem(
    length: int, vmfb: bytes, baked: Baked, tmp_path: Path
) -> None:
    path, report = baked
    cut = tmp_path / "model.irpa"
    if length < 0:  # counted from the end of the last parameter
        last = read_archive(path)[1]
        length += last.offset + last.size_bytes
    cut.write_bytes(path.read_bytes()[:length])
    (problem,) = check_parameters(LINKED, vmfb, cut, report)
    assert problem.startswith(f"{cut}: not a parameter archive; ")
