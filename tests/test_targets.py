"""Test how target files are read, their errors, and that each target computes."""

from __future__ import annotations

import platform
from dataclasses import replace
from pathlib import Path

import pytest

from ingot.engine import machine as processor
from ingot.engine.actions import Limits, Output, SourceFile
from ingot.model.component import Components
from ingot.model.graph import Graph
from ingot.model.limits import LimitsSection
from ingot.model.manifest import read_manifest
from ingot.model.runner import Runner
from ingot.model.select_kernels import select_kernels
from ingot.model.target import Target, read_target
from ingot.model.tolerance import Tolerance
from ingot.model.yaml_nodes import format_errors
from ingot.stages.compile import plan_compile, plan_compile_pieces
from ingot.stages.plan import plan_model
from tests.two_norms import NORM

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
  component: {times_float32: 100, reason: so}
"""


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """This machine as an x86-64 of 2013, whatever it is."""
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(processor, "cpu_features", lambda: V3)
    return monkeypatch


def of_tree(name: str) -> Target:
    return read_target(ROOT / f"targets/{name}.yaml", ROOT)


PLAIN = "layout: plain\nsummary: row by row\ntile_n: 1\n"


def toy(folder: Path, text: str) -> Target:
    path = folder / "targets/toy.yaml"
    (path.parent / "layouts").mkdir(parents=True, exist_ok=True)
    (path.parent / "layouts/plain.yaml").write_text(PLAIN, encoding="utf-8")
    path.write_text(text, encoding="utf-8")
    return read_target(path, folder)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_target_of_the_tree_is_read(
    path: Path, machine: pytest.MonkeyPatch
) -> None:
    target = read_target(path, ROOT)
    assert target.name == path.stem
    # What float32 loses is enough for all of them.
    assert not target.tolerances
    assert target.summary


def test_a_target_is_read_whole(tmp_path: Path, machine: pytest.MonkeyPatch) -> None:
    target = toy(tmp_path, GOOD)
    assert target.path == "targets/toy.yaml"
    assert target.compile_flags == ("--iree-hal-target-device=local",)
    assert target.runner == Runner(device="local-task")
    loose = Tolerance.losses(100, "targets/toy.yaml:9")
    assert target.tolerances == {"component": loose}


def test_host_is_the_first_target_that_runs_here(machine: pytest.MonkeyPatch) -> None:
    host, x86_64 = of_tree("host"), of_tree("x86_64")
    summary = "this machine: x86_64"
    assert host == replace(x86_64, name="host", summary=summary)
    assert host.resolved == "x86_64"
    wide = f"{V3} avx512f avx512bw avx512cd avx512dq avx512vl"
    machine.setattr(processor, "cpu_features", lambda: wide)
    assert of_tree("host").resolved == "x86_64-v4"
    machine.setattr(platform, "machine", lambda: "aarch64")
    machine.setattr(processor, "cpu_features", lambda: "asimd fp")
    assert of_tree("host").resolved == "aarch64"


def test_a_machine_that_no_target_suits_is_told_why(
    machine: pytest.MonkeyPatch,
) -> None:
    machine.setattr(processor, "cpu_features", lambda: "sse2")
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
    machine.setattr(platform, "machine", lambda: "aarch64")
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
    machine.setattr(platform, "machine", lambda: "aarch64")
    machine.setattr(processor, "cpu_features", lambda: "asimd")
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
            "targets/toy.yaml:5:9: layout: no layout named 'plan'\n"
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
            ", reason: so",
            "",
            "targets/toy.yaml:9:14: tolerances.component: missing key 'reason'\n"
            "  reason: why the target loses more than float32",
        ),
        (
            "times_float32: 100",
            "max_abs_error: 1.0e-5",
            "targets/toy.yaml:9:14: tolerances.component: missing key 'times_float32'\n"
            "  times_float32: largest difference allowed, in multiples of what float32"
            " loses\n"
            "targets/toy.yaml:9:15: tolerances.component.max_abs_error: unknown key\n"
            "  known keys: reason, times_float32",
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


@pytest.mark.parametrize(
    ("first", "second", "circle"),
    [("b", "a", "a -> b -> a"), ("a", "a", "a -> a")],
)
def test_names_of_targets_that_lead_to_each_other_are_an_error(
    tmp_path: Path, first: str, second: str, circle: str
) -> None:
    (tmp_path / "targets").mkdir()
    for name, other in (("a", first), ("b", second)):
        text = f"target: {name}\nsummary: s\nfirst_of: [{other}]\n"
        (tmp_path / f"targets/{name}.yaml").write_text(text)
    with pytest.raises(ExceptionGroup) as group:
        read_target(tmp_path / "targets/a.yaml", tmp_path)
    place = "b" if first == "b" else "a"
    assert format_errors(group.value) == (
        f"targets/{place}.yaml:3:12: first_of[0]: a circle of names: {circle}"
    )


@pytest.mark.usefixtures("machine")
def test_target_and_manifest_limit_what_actions_use(tmp_path: Path) -> None:
    assert toy(tmp_path, GOOD).limits == LimitsSection()
    limited = toy(tmp_path, f"{GOOD}limits: {{time_s: 60, processes: 9}}\n")
    assert (limited.limits.time_s, limited.limits.processes) == (60, 9)
    manifest = read_manifest(ROOT / "models/toy-moe.yaml", ROOT)
    assert manifest.limits == LimitsSection()
    manifest = replace(manifest, limits=LimitsSection(time_s=5, memory_gib=2))
    target = replace(of_tree("x86_64"), limits=limited.limits)
    stored, layout = manifest.weights.stored, target.layout
    components = Components(ROOT)
    graph = select_kernels(manifest.graph, stored, layout, components)
    lowered = {layout.name: replace(manifest, graph=graph)}
    planned = plan_model(manifest, lowered, [target], components)
    limits = {action.task: action.limits for action in planned}
    both, own = Limits(5, 2 << 30, 9), Limits(5, 2 << 30, 0)
    assert {n for task, n in limits.items() if task.endswith("@x86_64")} == {both}
    assert {n for task, n in limits.items() if not task.endswith("@x86_64")} == {own}


def test_a_list_of_targets_names_only_targets(tmp_path: Path) -> None:
    with pytest.raises(ExceptionGroup) as group:
        toy(tmp_path, "target: toy\nsummary: s\nfirst_of: [x86]\n")
    assert format_errors(group.value) == (
        "targets/toy.yaml:3:12: first_of[0]: no target named 'x86'\n"
        "  known targets: none"
    )


ODD = Graph("odd", "plain", (), (), (), ())


def test_compile_plans_are_values(machine: pytest.MonkeyPatch) -> None:
    first, plan = plan_compile(ODD, of_tree("vulkan"))
    kernels = "targets/vulkan.kernels.mlir"
    assert first.task == "compile-configured:odd@vulkan"
    assert first.inputs == (
        ("linked.mlir", Output("link:odd@plain", "linked.mlir")),
        (kernels, SourceFile(ROOT / kernels)),
    )
    phase = "executable-configurations"
    assert first.argv[:6] == (
        "iree-compile",
        "linked.mlir",
        "--mlir-disable-threading",
        f"--compile-to={phase}",
        "--iree-vm-bytecode-module-strip-source-map",
        "--iree-llvmcpu-debug-symbols=false",
    )
    assert first.exported_to == ("build/odd/vulkan/configured.mlir",)
    assert plan.task == "compile:odd@vulkan"
    assert plan.inputs[0][1] == Output(first.task, "configured.mlir")
    assert plan.argv[1:3] == ("configured.mlir", f"--compile-from={phase}")
    assert "--mlir-disable-threading" not in plan.argv
    assert plan.argv[-2:] == ("-o", "model.vmfb")
    assert plan.exported_to == ("build/odd/vulkan/model.vmfb",)


def test_pieces_are_compiled_with_the_flags_of_the_model() -> None:
    target = of_tree("x86_64")
    graph = replace(ODD, instances=(NORM,))
    first, model = plan_compile(graph, target)
    pieces = tuple(plan_compile_pieces(graph, target))
    for piece, name in zip(pieces, ("component-all", "block-all"), strict=True):
        linked = Output(f"link-{name}:odd@plain", "piece.linked.mlir")
        assert piece.task == f"compile-{name}:odd@x86_64"
        assert piece.inputs[0][1] == linked
        shared = set(model.argv) & set(first.argv) - {"configured.mlir"}
        assert shared <= set(piece.argv)
        assert "--mlir-disable-threading" in piece.argv
        assert piece.outputs == ("piece.vmfb",)


def test_host_compiles_as_the_target_that_it_means(machine: pytest.MonkeyPatch) -> None:
    here = tuple(plan_compile(ODD, of_tree("host")))
    assert here == tuple(plan_compile(ODD, of_tree("x86_64")))
    assert here[-1].task == "compile:odd@x86_64"
