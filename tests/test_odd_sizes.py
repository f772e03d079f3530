"""Every target computes right where no size is a multiple of a vector or a tile."""

from __future__ import annotations

import importlib
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ingot.edges.invoke import Call, Module, call
from ingot.graph import Argument, DynamicDim, Graph, Instance, TensorType
from ingot.readers.target import Target, read_target
from ingot.stages.compile import plan_compile_probe
from ingot.stages.link import plan_link_probe
from ingot.stages.specialize import plan_specialize
from tests import scratch

ROOT = Path(__file__).resolve().parent.parent


def of_tree(name: str) -> Target:
    return read_target(ROOT / f"targets/{name}.yaml", ROOT)


ODD = Graph(
    model="odd",
    layout="plain",
    dynamic=(DynamicDim("batch", 1, 4), DynamicDim("seq", 1, 64)),
    instances=(),
    parameters=(),
    entry_points=(),
)


def f32(*shape: int | str) -> TensorType:
    return TensorType(shape, "f32")


MASK = Argument("mask", TensorType(("batch", "seq"), "i32"))


def instance(
    component: str,
    arguments: tuple[Argument, ...],
    result: TensorType,
    indices: tuple[tuple[str, int], ...] = (),
    scalars: tuple[tuple[str, str], ...] = (),
) -> Instance:
    family, name = component.split("/")
    return Instance(
        name=f"{name}__odd",
        component=component,
        oracle=(f"oracles/{family}.py", name),
        dims=(),
        indices=indices,
        scalars=scalars,
        arguments=arguments,
        results=(Argument("y", result),),
    )


# No dim is a multiple of a vector or of a tile; every kind of reduction is there.
ODD_INSTANCES = (
    instance(
        "linear/linear_bias",
        (
            Argument("x", f32("batch", "seq", 7)),
            Argument("weight", f32(5, 7)),
            Argument("bias", f32(5)),
        ),
        f32("batch", "seq", 5),
    ),
    instance(
        "normalization/layer_norm",
        (
            Argument("x", f32("batch", "seq", 13)),
            Argument("weight", f32(13)),
            Argument("bias", f32(13)),
        ),
        f32("batch", "seq", 13),
        scalars=(("eps", "f32"),),
    ),
    instance(
        "normalization/rms_norm_heads",
        (Argument("x", f32("batch", "seq", 15)), Argument("weight", f32(5))),
        f32("batch", "seq", 15),
        indices=(("n_head", 3),),
        scalars=(("eps", "f32"),),
    ),
    instance(
        "activation/geglu_tanh",
        (
            Argument("gate", f32("batch", "seq", 13)),
            Argument("up", f32("batch", "seq", 13)),
        ),
        f32("batch", "seq", 13),
    ),
    instance(
        "attention/attention_bidirectional",
        (*(Argument(name, f32("batch", "seq", 15)) for name in "qkv"), MASK),
        f32("batch", "seq", 15),
        indices=(("n_head", 3),),
    ),
    instance(
        "pooling/mean_pool",
        (Argument("x", f32("batch", "seq", 13)), MASK),
        f32("batch", 13),
    ),
)


def linked(folder: Path) -> Path:
    made = {}
    for item in ODD_INSTANCES:
        component = ROOT / f"components/{item.component}.mlir"
        path = scratch.run(plan_specialize(item, component), folder / item.name)
        made[path.name] = path
    graph = replace(ODD, instances=ODD_INSTANCES)
    return scratch.run(plan_link_probe(graph), folder / "link", made)


@pytest.fixture(scope="module")
def probe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return linked(tmp_path_factory.mktemp("targets"))


@pytest.mark.parametrize("seq", [1, 5, 37])
@pytest.mark.parametrize(
    "name",
    [
        "host",
        pytest.param("aarch64", marks=pytest.mark.aarch64),
        pytest.param("vulkan", marks=pytest.mark.vulkan),
        pytest.param("vulkan-llvmpipe", marks=pytest.mark.vulkan),
    ],
)
def test_a_target_is_right_at_odd_sizes(
    probe: Path, tmp_path_factory: pytest.TempPathFactory, name: str, seq: int
) -> None:
    target = of_tree(name)
    folder = tmp_path_factory.getbasetemp() / f"odd-{target.resolved}"
    vmfb = folder / "probe.vmfb"
    if not vmfb.exists():
        scratch.run(plan_compile_probe(ODD, target), folder, {probe.name: probe})
    rng = np.random.default_rng(seq)
    for item in ODD_INSTANCES:
        tensors = []
        for argument in item.arguments:
            sizes = {"batch": 3, "seq": seq}
            shape = [
                sizes[dim] if isinstance(dim, str) else dim
                for dim in argument.type.shape
            ]
            if argument.type.element == "i32":
                # The last position is real, so that no sequence is all padding.
                mask = rng.integers(0, 2, shape, dtype=np.int32)
                mask[:, -1] = 1
                tensors.append(mask)
            else:
                tensors.append(rng.standard_normal(shape, np.float32))
        scalars = tuple(1e-5 for _ in item.scalars)
        oracle = importlib.import_module(f"oracles.{Path(item.oracle[0]).stem}")
        numbers = (*scalars, *(size for _, size in item.indices))
        expected = getattr(oracle, item.oracle[1])(*tensors, *numbers)
        what = Call(f"component.{item.name}", tuple(tensors), scalars)
        (got,) = call(target.runner, Module(vmfb), what)
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-5, err_msg=item.name)


def test_code_for_vulkan_does_not_know_its_subgroup(
    probe: Path, tmp_path: Path
) -> None:
    plan = plan_compile_probe(ODD, of_tree("vulkan"))
    spirv = replace(plan, argv=(*plan.argv, "--compile-to=executable-targets"))
    text = scratch.run(spirv, tmp_path, {probe.name: probe}).read_text("utf-8")
    assert "spirv.EntryPoint" in text
    assert re.findall(r"GroupNonUniform\w*|ControlBarrier|, Workgroup>", text) == []
    assert set(re.findall(r"requires #spirv.vce<(v1.\d), \[([^]]*)\]", text)) == {
        ("v1.0", "Shader, Matrix")
    }


def test_one_module_compiles_to_the_same_bytes_anywhere(
    probe: Path, tmp_path: Path
) -> None:
    plan = plan_compile_probe(ODD, of_tree("host"))
    folders = tmp_path / "here", tmp_path / "there/and/further"
    one, other = (scratch.run(plan, item, {probe.name: probe}) for item in folders)
    assert one.read_bytes() == other.read_bytes()
    assert str(tmp_path).encode() not in one.read_bytes()
