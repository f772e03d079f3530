"""Test that views copy nothing, and that calls with several results work."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingot.emit.mlir_text import call, declaration, mlir_type, result_list
from ingot.model.component import code_of, read_component
from ingot.model.graph import Instance
from ingot.model.shapes import TensorType
from ingot.stages.specialize import plan_specialize
from tests import scratch
from tests.component_cases import instance_of
from tests.component_runs import FLAGS, compiled, run_tool
from tests.project import (
    ROOT,
    TOY,
    Project,
    builds,
    components_named,
    copy_components,
)

# Work of the stream level: what moves or makes bytes.
WORK = r"stream\.(?:async|cmd)\.(copy|clone|fill|dispatch)\b"


def around(instance: Instance) -> str:
    """Return a module that computes, calls the component, and computes again."""
    lines = [f"%c{axis} = arith.constant {axis} : index" for axis in range(4)]
    for item in instance.arguments:
        lines += exp(f"%{item.name}", item.type, f"{item.name}.before")
    operands = [f"%{item.name}.before" for item in instance.arguments]
    for name, kind in instance.scalars:
        lines.append(
            f"%{name} = arith.constant {'0.0' if kind == 'f32' else 0} : {kind}"
        )
        operands.append(f"%{name}")
    results = [f"%result.{number}" for number in range(len(instance.results))]
    lines += call(instance, operands, results)
    for name, item in zip(results, instance.results, strict=True):
        lines += exp(name, item.type, f"{name[1:]}.behind")
    formals = ", ".join(f"%{i.name}: {mlir_type(i.type)}" for i in instance.arguments)
    kinds = [mlir_type(item.type) for item in instance.results]
    returned = ", ".join(f"{name}.behind" for name in results)
    body = "\n".join(lines)
    return (
        f"module @around {{\n{declaration(instance)}\n"
        f"util.func public @run({formals}) -> {result_list(kinds)} {{\n{body}\n"
        f"util.return {returned} : {', '.join(kinds)}\n}}\n}}\n"
    )


def exp(value: str, kind: TensorType, name: str) -> list[str]:
    """Return the lines that make %name the exponentials of a value."""
    axes = [axis for axis, dim in enumerate(kind.shape) if isinstance(dim, str)]
    sizes = ", ".join(f"%{name}.{axis}" for axis in axes)
    text = mlir_type(kind)
    return [
        *(f"%{name}.{axis} = tensor.dim {value}, %c{axis} : {text}" for axis in axes),
        f"%{name}.init = tensor.empty({sizes}) : {text}",
        f"%{name} = linalg.elementwise <exp>"
        f" ins({value} : {text}) outs(%{name}.init : {text}) -> {text}",
    ]


def work(component: str, sizes: dict[str, int], folder: Path) -> list[str]:
    """Return all operations of a component between two exponentials."""
    instance = instance_of(read_component(component, ROOT), sizes)
    source = ROOT / f"components/{component}.mlir"
    module = scratch.run(
        plan_specialize(instance, code_of(source.read_text("utf-8"))),
        folder / "instance",
    )
    outer, linked = folder / "around.mlir", folder / "linked.mlir"
    outer.write_text(around(instance), "utf-8")
    run_tool("iree-link", outer, "--link-module", module, "-o", linked)
    return re.findall(WORK, streams(linked, folder))


def streams(source: Path, folder: Path) -> str:
    """Return what the compiler makes of a module: dispatches, copies, allocations."""
    made = folder / "stream.mlir"
    run_tool("iree-compile", source, "--compile-to=stream", *FLAGS, "-o", made)
    return made.read_text("utf-8")


@pytest.mark.parametrize(
    ("component", "sizes", "most"),
    [
        # Both exponentials of each number in one dispatch: nothing is between them.
        ("shape/contiguous", {"n_embd": 64}, 1),
        ("shape/clone", {"n_embd": 64}, 1),
        ("shape/copy", {"n_embd": 64}, 1),
        ("shape/view", {"n_head": 4, "head_dim": 16}, 1),
        ("shape/reshape", {"n_head": 4, "head_dim": 16}, 1),
        ("shape/slice_leading", {"n_ctx": 64, "n_embd": 32, "n_keep": 16}, 1),
        # One for what is taken apart, one for each part, which reads it where it is.
        ("shape/unstack", {"n_embd": 64}, 3),
        ("shape/split", {"n_ff": 64}, 3),
    ],
)
def test_a_view_moves_no_bytes(
    component: str, sizes: dict[str, int], most: int, tmp_path: Path
) -> None:
    done = work(component, sizes, tmp_path)
    assert set(done) == {"dispatch"}
    assert len(done) <= most


def test_what_moves_bytes_is_seen_to(tmp_path: Path) -> None:
    # Three for the exponentials, the fourth and fifth put both in one place.
    assert len(work("shape/stack", {"n_embd": 64}, tmp_path)) == 5


@pytest.mark.parametrize(
    "component", ["contiguous", "clone", "copy", "view", "reshape"]
)
def test_a_view_alone_gives_back_the_memory_of_its_input(
    component: str, tmp_path: Path
) -> None:
    source = ROOT / f"components/shape/{component}.mlir"
    text = streams(source, tmp_path)
    assert "util.func public @forward" in text
    assert not re.search(rf"{WORK}|stream\.resource\.alloc", text)


def run(component: str, folder: Path, *tensors: np.ndarray) -> Any:
    """Return the results of a component with dynamic shapes."""
    return compiled(ROOT / f"components/{component}.mlir", folder, FLAGS)(*tensors)


def test_a_cast_cuts_the_fraction_of_the_largest_numbers_too(tmp_path: Path) -> None:
    numbers = [-(2.0**31) + 256, -2.9, -0.5, 0.0, 0.5, 2.9, 2.0**24, 2.0**31 - 256]
    x = np.array([[numbers]], np.float32)
    found = run("elementwise/cast_f32_to_i32", tmp_path, x)
    np.testing.assert_array_equal(found, np.trunc(x.astype(np.float64)))


def test_where_lets_nothing_of_the_other_tensor_through(tmp_path: Path) -> None:
    condition = np.array([[[0, -1]]], np.int32)
    a = np.array([[[np.nan, 1]]], np.float32)
    b = np.array([[[2, np.nan]]], np.float32)
    assert run("indexing/where", tmp_path, condition, a, b).tolist() == [[[2, 1]]]


@pytest.mark.reads(
    "tests/data/toy-shapes/*",
    files=lambda: components_named(ROOT / "tests/data/toy-shapes/architecture.yaml"),
)
@builds(TOY)
def test_a_model_with_calls_of_several_results_passes_its_check(tmp_path: Path) -> None:
    project = Project.create(tmp_path / "checkout")
    data = ROOT / "tests/data/toy-shapes"
    copy_components(project.root, data / "architecture.yaml")
    shutil.copy(data / "model.yaml", project.root / "models/toy-shapes.yaml")
    shutil.copy(
        data / "architecture.yaml",
        project.root / "models/architectures/toy-shapes.yaml",
    )
    done = project.doit("check:toy-shapes@x86_64")
    assert done.code == 0, done.out + done.err
    rows = re.findall(r"^(\w+) +(\d+) +(\d+) ", done.out, re.MULTILINE)
    assert [level for level, *_ in rows] == [
        "component",
        "block",
        "propagated",
        "model",
    ]
    assert all(failed == "0" for _, _, failed in rows)
    shown = project.doit("inspect", "model=toy-shapes", "filter=shape/*split")
    assert "gate, up  shape/split  (gate_up)  -> f32[batch, seq, 10], f32" in shown.out
