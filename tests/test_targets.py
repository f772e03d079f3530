"""Target files: what is read, what is refused, and that each computes right."""

from __future__ import annotations

import importlib
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ingot.edges.invoke import Call, Module, call
from ingot.graph import Argument, DynamicDim, Graph, Instance, TensorType
from ingot.readers import target as reader
from ingot.readers.manifest_forms import CHECK_LEVELS
from ingot.readers.target import Target, read_target
from ingot.readers.yaml import format_errors
from ingot.stages.compile import plan_compile, plan_compile_probe
from ingot.stages.link import plan_link_probe
from ingot.stages.specialize import plan_specialize
from ingot.values import Output, Runner, SourceFile
from tests import scratch

ROOT = Path(__file__).resolve().parent.parent
FILES = sorted(ROOT.glob("targets/*.yaml"))
V3 = "avx avx2 bmi1 bmi2 f16c fma abm movbe xsave"

GOOD = """\
target: toy
summary: a toy
machine: x86_64
compile_flags: [--iree-hal-target-device=local]
layout: plain
run: {device: local-task}
emulator: {argv: [qemu], device: local-sync, runtime: iree-base-runtime}
tolerances:
  component: {max_abs_error: 1.0e-5, reason: so}
  block: {max_abs_error: 1.0e-5, reason: so}
  propagated: {max_abs_error: 1.0e-5, reason: so}
  model: {max_abs_error: 1.0e-5, reason: so}
  golden: {max_abs_error: 1.0e-5, min_cosine: 0.99, reason: so}
"""


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """This machine as an x86-64 of 2013, whatever it is."""
    monkeypatch.setattr(reader.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(reader, "_cpu_features", lambda: frozenset(V3.split()))
    return monkeypatch


def of_tree(name: str) -> Target:
    return read_target(ROOT / f"targets/{name}.yaml", ROOT)


def toy(folder: Path, text: str) -> Target:
    path = folder / "targets/toy.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return read_target(path, folder)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_target_of_the_tree_is_read(
    path: Path, machine: pytest.MonkeyPatch
) -> None:
    target = read_target(path, ROOT)
    assert target.name == path.stem
    assert tuple(item.level for item in target.tolerances) == CHECK_LEVELS
    assert target.summary


def test_a_target_is_read_whole(tmp_path: Path, machine: pytest.MonkeyPatch) -> None:
    target = toy(tmp_path, GOOD)
    assert target.path == "targets/toy.yaml"
    assert target.compile_flags == ("--iree-hal-target-device=local",)
    assert target.runner == Runner(device="local-task")
    golden = target.tolerance("golden")
    assert (golden.max_abs_error, golden.min_cosine) == (1e-5, 0.99)
    assert golden.source == "targets/toy.yaml:13"


def test_host_is_the_first_target_that_runs_here(machine: pytest.MonkeyPatch) -> None:
    host, x86_64 = of_tree("host"), of_tree("x86_64")
    summary = "this machine: x86_64"
    assert host == replace(x86_64, name="host", summary=summary)
    assert host.resolved == "x86_64"
    wide = f"{V3} avx512f avx512bw avx512cd avx512dq avx512vl"
    machine.setattr(reader, "_cpu_features", lambda: frozenset(wide.split()))
    assert of_tree("host").resolved == "x86_64-v4"
    machine.setattr(reader.platform, "machine", lambda: "aarch64")
    machine.setattr(reader, "_cpu_features", lambda: frozenset(("asimd", "fp")))
    assert of_tree("host").resolved == "aarch64"


def test_a_machine_that_no_target_suits_is_told_why(
    machine: pytest.MonkeyPatch,
) -> None:
    machine.setattr(reader, "_cpu_features", lambda: frozenset(("sse2",)))
    with pytest.raises(ExceptionGroup) as group:
        of_tree("host")
    (line, *reasons) = format_errors(group.value).splitlines()
    assert line == "targets/host.yaml:4:11: first_of: none of these runs here"
    assert reasons[1].startswith("  x86_64: the processor lacks avx, avx2")
    assert reasons[2] == "  aarch64: would be emulated"


def test_a_processor_that_cannot_run_a_target_says_why(
    machine: pytest.MonkeyPatch,
) -> None:
    assert of_tree("x86_64").unrunnable_reason() is None
    assert of_tree("x86_64-v4").unrunnable_reason() == (
        "the processor lacks avx512f, avx512bw, avx512cd, avx512dq, avx512vl"
    )
    assert of_tree("vulkan").unrunnable_reason() is None
    machine.setattr(reader.platform, "machine", lambda: "aarch64")
    reason = of_tree("x86_64").unrunnable_reason()
    assert reason == "the processor is aarch64, not x86_64"


def test_arm_code_is_emulated_only_elsewhere(machine: pytest.MonkeyPatch) -> None:
    emulated = of_tree("aarch64")
    assert emulated.runner == Runner(
        device="local-sync",
        prefix=("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"),
        runtime="iree-base-runtime-aarch64",
        emulated=True,
    )
    assert emulated.tools[0] == "qemu-aarch64"
    assert emulated.unrunnable_reason() is None
    machine.setattr(reader.platform, "machine", lambda: "aarch64")
    machine.setattr(reader, "_cpu_features", lambda: frozenset(("asimd",)))
    native = of_tree("aarch64")
    assert native.runner == Runner(device="local-task")
    assert native.tools == native.packages == ()
    assert native.compile_flags == emulated.compile_flags


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "target: toy",
            "target: toys",
            "targets/toy.yaml:1:9: target: expected the file's name 'toy'",
        ),
        (
            "layout: plain",
            "layout: plan",
            "targets/toy.yaml:5:9: layout: expected plain, found 'plan'\n"
            "  did you mean 'plain'?",
        ),
        (
            "[--iree-hal-target-device=local]",
            "[iree-hal-target-device=local]",
            "targets/toy.yaml:4:17: compile_flags[0]: expected a flag such as "
            "--iree-opt-level=O2, found 'iree-hal-target-device=local'",
        ),
        (
            "compile_flags:",
            "compile_inputs: [targets/kernels.mlir]\ncompile_flags:",
            "targets/toy.yaml:4:18: compile_inputs[0]: no file 'targets/kernels.mlir'\n"
            "  write it relative to the checkout: targets/<name>",
        ),
        (
            "machine: x86_64\n",
            "",
            "targets/toy.yaml:6:1: emulator: 'machine' is missing\n"
            "  machine: the processor that needs no emulator",
        ),
        (
            "  block: {max_abs_error: 1.0e-5, reason: so}\n",
            "",
            "targets/toy.yaml:9:3: tolerances: no tolerance for block",
        ),
        (
            "  block: {max_abs_error: 1.0e-5, reason: so}\n",
            "  block: {max_abs_error: 1.0e-5}\n",
            "targets/toy.yaml:10:10: tolerances.block: missing key 'reason'\n"
            "  reason: why this much is right, and no more is needed",
        ),
    ],
    ids=lambda text: text.split(":")[0].strip() or "none",
)
def test_a_defect_is_named_at_its_place(
    tmp_path: Path, machine: pytest.MonkeyPatch, old: str, new: str, message: str
) -> None:
    assert old in GOOD
    with pytest.raises(ExceptionGroup) as group:
        toy(tmp_path, GOOD.replace(old, new))
    assert format_errors(group.value) == message


def test_a_list_of_targets_names_only_targets(tmp_path: Path) -> None:
    with pytest.raises(ExceptionGroup) as group:
        toy(tmp_path, "target: toy\nsummary: s\nfirst_of: [x86]\n")
    assert format_errors(group.value) == (
        "targets/toy.yaml:3:12: first_of[0]: no target named 'x86'\n"
        "  known targets: none"
    )


ODD = Graph(
    model="odd",
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


def test_compile_plans_are_values(machine: pytest.MonkeyPatch) -> None:
    plan = plan_compile(ODD, of_tree("vulkan"))
    kernels = "targets/vulkan.kernels.mlir"
    assert plan.task == "compile:odd@vulkan"
    assert plan.inputs == (
        ("linked.mlir", Output("link:odd", "linked.mlir")),
        (kernels, SourceFile(ROOT / kernels)),
    )
    assert plan.argv[:4] == (
        "iree-compile",
        "linked.mlir",
        "--iree-vm-bytecode-module-strip-source-map",
        "--iree-llvmcpu-debug-symbols=false",
    )
    assert plan.argv[-2:] == ("-o", "model.vmfb")
    assert plan.shown == ("build/odd/vulkan/model.vmfb",)
    probe = plan_compile_probe(ODD, of_tree("vulkan"))
    assert probe.task == "compile-probe:odd@vulkan"
    assert probe.inputs[0][1] == Output("link-probe:odd", "probe.linked.mlir")
    assert probe.shown == ("build/odd/vulkan/probe.vmfb",)


def test_host_compiles_as_the_target_that_it_means(machine: pytest.MonkeyPatch) -> None:
    assert plan_compile(ODD, of_tree("host")) == plan_compile(ODD, of_tree("x86_64"))
    assert plan_compile(ODD, of_tree("host")).task == "compile:odd@x86_64"
