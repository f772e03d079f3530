"""Test the decoders at full size against transformers, and small ones when emulated.

Full size takes an emulated processor a quarter of an hour a model: there, and for the
kernels of wider vectors, a model gets its real widths with few layers and a small
vocabulary. The nightly run checks all decoders at full size on all targets, for hours.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ingot.model.manifest import read_manifest
from ingot.model.target import read_target
from ingot.project.catalogue import read
from ingot.runtime.invoke import Call, Module, call
from tests.project import ROOT, Project, builds, edit, skipped

SETTINGS = read(ROOT, ()).settings
EMULATED = [
    pytest.param("aarch64", marks=[pytest.mark.slow, pytest.mark.aarch64]),
    pytest.param("vulkan-llvmpipe", marks=[pytest.mark.slow, pytest.mark.vulkan]),
]
NATIVE = [
    pytest.param(name, marks=[pytest.mark.slow, *skipped(SETTINGS.unrunnable, name)])
    for name in ("x86_64", "x86_64-v4")
]
GEMMA = "gemma3-270m"
KINDS = "layer.local, layer.global"
MODELS = (GEMMA, "smollm2-135m", "clm-60m", "qwen2-0.5b", "qwen3-0.6b")
CASES = [
    pytest.param(
        model,
        *target.values,
        marks=[
            *target.marks,
            *([] if (model, target) == (GEMMA, NATIVE[0]) else [pytest.mark.nightly]),
        ],
    )
    for model in MODELS
    for target in (*NATIVE, *EMULATED)
]
pytestmark = builds(*MODELS)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A checkout with the shipped models; nothing is built yet."""
    base = tmp_path_factory.mktemp("decoders")
    return Project.create(base / "checkout", models=MODELS)


def report(project: Project, model: str, target: str) -> list[dict[str, Any]]:
    path = project.root / "build" / model / target / "check.json"
    rows: list[dict[str, Any]] = json.loads(path.read_text())["rows"]
    return rows


@pytest.mark.parametrize(("model", "target"), CASES)
def test_a_decoder_says_what_transformers_says(
    project: Project, model: str, target: str
) -> None:
    run = project.doit("check", f"model={model}", f"target={target}")
    assert run.code == 0, run.err
    rows = report(project, model, target)
    assert {row["level"] for row in rows} == {
        "component",
        "block",
        "propagated",
        "model",
        "golden",
        "tokens",
    }
    assert all(row["passed"] for row in rows)
    golden = [row for row in rows if row["level"] == "golden"]
    lengths = {row["inputs"].get("seq", 0) for row in golden}
    if target.startswith("x86_64"):
        # Beyond the window of 512 positions.
        assert max(lengths) >= (640 if model == "gemma3-270m" else 300)
        assert {row["inputs"].get("batch") for row in golden} >= {1, 4}
    assert {row["entry_point"] for row in golden} == {"prefill", "decode"}


@pytest.fixture(scope="module")
def small(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A checkout whose Gemma has a layer of each kind, and a small vocabulary."""
    root = tmp_path_factory.mktemp("few-layers") / "checkout"
    made = Project.create(root, models=(GEMMA,))
    manifest = made.root / "models/gemma3-270m.yaml"
    edit(manifest, "n_layer: 18", "n_layer: 2")
    architecture = made.root / "models/architectures/gemma3.yaml"
    edit(architecture, f"[{'layer.local, ' * 5}layer.global]", f"[{KINDS}]")
    edit(manifest, "n_vocab: 262144", "n_vocab: 4096")
    text = manifest.read_text().replace("golden: golden/gemma3-270m.npz", "")
    manifest.write_text(text.replace("check:\n  \n", "").replace("check: {}\n", ""))
    return made


@pytest.mark.parametrize("target", [*EMULATED, NATIVE[1]])
def test_a_decoder_of_few_layers_is_right_at_its_real_widths(
    small: Project, target: str
) -> None:
    run = small.doit("check", "model=gemma3-270m", f"target={target}")
    assert run.code == 0, run.err
    rows = report(small, "gemma3-270m", target)
    blocks = {row["name"] for row in rows if row["level"] == "block"}
    assert blocks == {"embed", "layer.0", "layer.1", "select", "head"}
    assert {row["entry_point"] for row in rows} == {"prefill", "decode", "tokenizer"}
    assert all(row["passed"] for row in rows)


def logits(project: Project, model: str, target: str) -> list[NDArray[np.float32]]:
    """The logits of a prompt of 16 tokens, and of 4 more, each after the others."""
    built = project.root / "build" / model
    manifest = read_manifest(project.root / f"models/{model}.yaml", project.root)
    of_target = read_target(ROOT / f"targets/{target}.yaml", ROOT)
    layout = of_target.layout.name
    # Of the stage `compile`, only the model itself.
    run = project.doit(f"compile:{model}@{target}", f"bake:{model}@{layout}")
    assert run.code == 0, run.err
    weights = built / "weights" / layout / "model.irpa"
    module = Module(built / target / "model.vmfb", weights)
    dims = dict(manifest.dims)
    shape = (dims["n_layer"], 1, 32, dims["n_head_kv"] * dims["head_dim"])
    kept = [np.zeros(shape, np.float32)] * 2
    tokens = np.random.default_rng(3).integers(0, dims["n_vocab"], 20, dtype=np.int32)
    zero, last = np.zeros(1, np.int32), np.full(1, 15, np.int32)
    given: tuple[Any, ...] = (tokens[None, :16], zero, last, *kept)
    found: list[NDArray[np.float32]] = []
    for number in range(16, 21):
        function = "decode" if found else "prefill"
        made, *kept = call(of_target.runner, module, Call(function, given, (), 3))
        found.append(made)
        given = (tokens[None, number : number + 1], np.array([number], np.int32), *kept)
    return found


@pytest.mark.slow
@pytest.mark.aarch64
@pytest.mark.parametrize(
    ("size", "model"),
    [
        ("small", GEMMA),
        *(pytest.param("project", m, marks=pytest.mark.nightly) for m in MODELS),
    ],
)
def test_two_processors_say_the_same(
    size: str, model: str, request: pytest.FixtureRequest
) -> None:
    checkout: Project = request.getfixturevalue(size)
    ours, theirs = (logits(checkout, model, name) for name in ("x86_64", "aarch64"))
    for one, other in zip(ours, theirs, strict=True):
        # Both sum in f32, in orders of their own: rounding, and nothing else.
        assert np.abs(one - other).max() <= 1e-5 * np.ptp(one)
        assert one.argmax() == other.argmax()
