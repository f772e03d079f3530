"""Test that targets compute correctly where no size is a multiple of a vector.

A sample of the components; nightly, every one that is for the target, those of a family
in one module: a start of the compiler costs as much as a component.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from ingot.emit.modules import ComponentGroup
from ingot.engine.toolchain import executable
from ingot.model.component import ScalarFormal, TensorFormal, code_of
from ingot.model.graph import Instance
from ingot.model.target import Target, read_target
from ingot.runtime.invoke import Call, Module, call
from ingot.stages.compile import SERIAL, command
from ingot.stages.link import plan_link_component
from ingot.stages.specialize import plan_specialize
from tests import scratch
from tests.component_cases import (
    ROOT,
    VARIANTS,
    cases,
    component_files,
    instance_of,
    is_for_cpus,
    row_sizes,
    signature_of,
)
from tests.component_runs import ODD, difference, expected_of, passed
from tests.outcomes import for_others

ROW = "primes"
# Every kind of reduction, gathers, several results, and what Vulkan's functions lack.
SAMPLE = (
    "activation/geglu_tanh",
    "attention/attention_bidirectional",
    "attention/attention_causal",
    "attention/attention_causal:alone",
    "audio/stft",
    "convolution/conv2d",
    "elementwise/sin",
    "linear/linear_bias",
    "linear/matmul",
    "linear/matmul_transposed",
    "normalization/group_norm",
    "normalization/layer_norm",
    "normalization/rms_norm_heads",
    "normalization/softmax",
    "pooling/mean_pool",
    "reduction/argmax",
    "reduction/topk",
)
TARGETS = {
    "host": [],
    "aarch64": [pytest.mark.aarch64],
    "vulkan": [pytest.mark.vulkan],
    "vulkan-llvmpipe": [pytest.mark.vulkan],
}


def served(target: str) -> list[str]:
    """Return the components for a target.

    Kernels of packed weights are for vectors of a CPU; one is a look-up alone. That of
    one new token is right on Vulkan too, but llvmpipe takes a minute to load it.
    """
    if not target.startswith("vulkan"):
        return VARIANTS
    return [
        item
        for item in VARIANTS
        if not is_for_cpus(item) or item == "embedding/embedding_lookup_packed:f32"
        if item != "attention/attention_paged_decode"
    ]


CASES = [
    pytest.param(
        target,
        component,
        marks=marks if component in SAMPLE else [*marks, pytest.mark.nightly],
    )
    for target, marks in TARGETS.items()
    for component in served(target)
]


def of_tree(name: str) -> Target:
    return read_target(ROOT / f"targets/{name}.yaml", ROOT)


def instance(component: str) -> Instance:
    """Return the component at the row's sizes; dims that may stay dynamic do."""
    signature = signature_of(component)
    sizes = row_sizes(signature, ROW)
    fixed = {name: n for name, n in sizes.items() if name not in signature.dynamic}
    return replace(instance_of(signature, fixed), name=f"{signature.stem}_odd")


def linked(components: tuple[str, ...], folder: Path) -> Path:
    made = {}
    instances = tuple(map(instance, components))
    for item in instances:
        source = ROOT / f"components/{item.component}.mlir"
        path = scratch.run(
            plan_specialize(item, code_of(source.read_text("utf-8"))),
            folder / item.name,
        )
        made[path.name] = path
    group = ComponentGroup("all", instances)
    return scratch.run(plan_link_component(ODD, group), folder / "link", made)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Link, and compile for a target, the components that go together."""

    @cache
    def link(components: tuple[str, ...]) -> Path:
        return linked(components, tmp_path_factory.mktemp("linked"))

    @cache
    def compiled(components: tuple[str, ...], target: str) -> Path:
        folder = tmp_path_factory.mktemp(target)
        source = link(components)
        return scratch.compiled(of_tree(target), source, folder)

    @cache
    def whole(components: tuple[str, ...], target: str) -> Path | None:
        with suppress(AssertionError):
            return compiled(components, target)
        return None

    def made(components: tuple[str, ...], target: str = "", alone: str = "") -> Path:
        if not target:
            return link(components)
        # One that does not compile hides no other.
        found = whole(components, target) if alone else None
        return found or compiled((alone,) if alone else components, target)

    return made


@pytest.mark.reads(
    "targets/**/*.*", files=lambda component, **_: component_files(component)
)
@pytest.mark.parametrize(("name", "component"), CASES)
def test_a_target_is_right_at_odd_sizes(
    name: str, component: str, compiled: Callable[..., Path]
) -> None:
    family = component.partition("/")[0]
    relatives = tuple(i for i in served(name) if i.startswith(f"{family}/"))
    with for_others():
        sampled = component in SAMPLE
        made = (SAMPLE, name) if sampled else (relatives, name, component)
        vmfb = compiled(*made)
    signature = signature_of(component)
    for case in cases(signature, row_sizes(signature, ROW)):
        arguments = passed(signature, case, bound=True)
        formals = signature.arguments
        count = sum(isinstance(item, TensorFormal) for item in formals)
        numbers = sum(isinstance(item, ScalarFormal) for item in formals)
        what = Call(
            f"component.{instance(component).name}",
            tuple(arguments[:count]),
            tuple(arguments[count : count + numbers]),
            len(signature.results),
        )
        found = call(of_tree(name).runner, Module(vmfb), what)
        wrong = difference(signature, found, expected_of(signature, case))
        assert not wrong, f"{component} at {case}: {wrong}"


def test_code_for_vulkan_does_not_know_its_subgroup(
    compiled: Callable[..., Path], tmp_path: Path
) -> None:
    source = compiled(SAMPLE)
    steps = ("--compile-to=executable-targets",)
    spirv = scratch.compiled(of_tree("vulkan"), source, tmp_path, "spirv.mlir", steps)
    text = spirv.read_text("utf-8")
    assert "spirv.EntryPoint" in text
    assert re.findall(r"GroupNonUniform\w*|ControlBarrier|, Workgroup>", text) == []
    assert set(re.findall(r"requires #spirv.vce<(v1.\d), \[([^]]*)\]", text)) == {
        ("v1.0", "Shader, Matrix")
    }


def test_one_module_compiles_to_the_same_bytes_anywhere(
    compiled: Callable[..., Path], tmp_path: Path
) -> None:
    source = compiled(SAMPLE)
    one = compiled(SAMPLE, "host")
    folder = tmp_path / "there/and/further"
    folder.mkdir(parents=True)
    other = folder / "other.vmfb"
    # By the compiler alone: an action would find the result of the first.
    words = command(of_tree("host"), str(source), str(other), (SERIAL,))
    subprocess.run([executable(words[0]), *words[1:]], cwd=ROOT, check=True)
    assert one.read_bytes() == other.read_bytes()
    # The first was made below this folder too.
    assert str(tmp_path.parent).encode() not in one.read_bytes()
