"""Test small mixtures of experts on all kinds of targets, and compile the full ones.

Each takes half a minute and more, so here a model has one target. The nightly run has
all of them, and compiles the models of full size.
"""

from __future__ import annotations

import json
import re

import pytest

from ingot.model.architecture import FOLDER, read_architecture
from ingot.project.catalogue import read
from tests import source_tree as tree
from tests.moe_in_motion import compare_in_motion
from tests.project import ROOT, Project, builds, skipped

MARKS = {"x86_64": [], "aarch64": [pytest.mark.aarch64]}
MARKS["vulkan-llvmpipe"] = [pytest.mark.vulkan]
# transformers has no class for Grok-1, so only the oracle checks its graph.
JUDGED = ("dbrx-tiny", "mixtral-tiny", "qwen2-moe-tiny")
MODELS = (*JUDGED, "grok-tiny", "toy-moe")
NIGHTLY = [pytest.mark.nightly]
SETTINGS = read(ROOT, ()).settings
SAMPLED = {
    ("dbrx-tiny", "x86_64"),
    ("qwen2-moe-tiny", "x86_64"),
    ("grok-tiny", "aarch64"),
    ("toy-moe", "vulkan-llvmpipe"),
}
CASES = [
    pytest.param(
        model,
        target,
        marks=[
            pytest.mark.slow,
            *MARKS[target],
            *skipped(SETTINGS.unrunnable, target),
            *([] if (model, target) in SAMPLED else [pytest.mark.nightly]),
        ],
    )
    for model in MODELS
    for target in MARKS
]
HUGE = ("dbrx", "grok-1", "mixtral-8x7b", "qwen2-moe")
pytestmark = builds(*MODELS, *HUGE)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A checkout with the shipped models; nothing is built yet."""
    base = tmp_path_factory.mktemp("mixtures")
    return Project.create(base / "checkout", models=(*MODELS, *HUGE))


@pytest.mark.parametrize(("model", "target"), CASES)
def test_a_mixture_says_what_its_judges_say(
    project: Project, model: str, target: str
) -> None:
    run = project.doit("check", f"model={model}", f"target={target}")
    assert run.code == 0, run.err
    path = project.root / "build" / model / target / "check.json"
    rows = json.loads(path.read_text())["rows"]
    levels = {"component", "block", "propagated", "model"}
    if model in JUDGED:
        levels |= {"golden", "tokens"}
    assert {row["level"] for row in rows} == levels
    assert all(row["passed"] for row in rows)
    assert {row["entry_point"] for row in rows} == {"prefill", "decode"}
    # Sequences of different lengths that come and go in one cache.
    folder = project.root / "build" / model
    assert compare_in_motion(folder, model, target) < 2e-5
    golden = [row for row in rows if row["level"] == "golden"]
    if golden and target == "x86_64":
        assert max(row["inputs"].get("seq", 0) for row in golden) == 300
        assert {row["inputs"]["batch"] for row in golden} >= {1, 4}


def layer_nodes(architecture: str) -> list[str]:
    """The names of a layer's nodes, in order."""
    found = read_architecture(ROOT / FOLDER / f"{architecture}.yaml", ROOT)
    return [item.name for item in found.declared.blocks["layer"].nodes]


@pytest.mark.reads("docs/writing-a-manifest.md")
def test_the_guide_says_where_the_parts_of_a_layer_are() -> None:
    inner = {"attention_block": "attn", "moe_ffn_block": "route"}
    told: dict[str, dict[str, set[str]]] = {part: {} for part in inner}
    for row in tree.table("docs/writing-a-manifest.md", "part"):
        part, ends = tree.code_words(row[0])[0], tree.code_words(row[1])
        for architecture in tree.code_words(row[3]):
            nodes = layer_nodes(architecture)
            first, middle, last = map(nodes.index, (ends[0], inner[part], ends[1]))
            assert first < middle < last, architecture
            found = told[part].setdefault(architecture, set())
            found |= set(tree.code_words(row[2])) - {"prefill", "decode", "seq"}
    assert told["attention_block"].keys() == told["moe_ffn_block"].keys()
    for architecture, variants in told["moe_ffn_block"].items():
        special = {"expert_share", "shared_opening"} & set(layer_nodes(architecture))
        assert variants == special, architecture


I8_POLICY = """\
  policy:
    - {match: "*ffn_gate_inp.weight", source: f32, stored: f32, compute: f32}
    - {match: "*", source: f32, stored: i8, compute: f32}
"""


# 9 and 11 tiles of 8 columns, which IREE's own tiling leaves unwritten in part.
ODD_DIMS = {"n_embd": 72, "n_head": 6, "head_dim": 12, "n_ff": 88, "n_expert": 8}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "stored"),
    [
        pytest.param("aarch64", "i8", marks=pytest.mark.aarch64),
        pytest.param("aarch64", "f32", marks=[*NIGHTLY, pytest.mark.aarch64]),
        pytest.param("x86_64", "i8", marks=NIGHTLY),
    ],
)
def test_experts_may_be_integers_and_have_any_number_of_columns(
    project: Project, target: str, stored: str
) -> None:
    name = f"toy-moe-odd-{stored}"
    text = (ROOT / "models/toy-moe.yaml").read_text("utf-8")
    text = text.replace("model: toy-moe", f"model: {name}")
    for dim, size in ODD_DIMS.items():
        text = re.sub(rf"^  {dim}: .*", f"  {dim}: {size}", text, flags=re.MULTILINE)
    if stored == "i8":
        before, _, after = text.partition("  policy:\n")
        text = before + I8_POLICY + after.partition("\n")[2]
    (project.root / f"models/{name}.yaml").write_text(text)
    run = project.doit("check", f"model={name}", f"target={target}")
    assert run.code == 0, run.err
    folder = project.root / "build" / name
    rows = json.loads((folder / target / "check.json").read_text())["rows"]
    found = {row["name"] for row in rows if row["level"] == "component"}
    kernels = {word for word in found if word.startswith("mul_mat_id_")}
    tiles = {int(n) for n in re.findall(r"mul_mat_id\S*?__n_tile_(\d+)", str(found))}
    assert tiles == {9, 11}
    expected = {"mul_mat_id_packed", "mul_mat_id_per_expert_x_packed"}
    if stored == "i8":
        expected = {f"{kernel}_i8" for kernel in expected}
        baked = json.loads(next(folder.rglob("bake.json")).read_text())["parameters"]
        types = {item["name"]: (item["type"], item["shape"]) for item in baked}
        weight = "blk.0.ffn_down_exps.weight"
        assert types[weight] == ("i8", [8, 9, 88, 8])
        assert types[f"{weight}.scale"] == ("f32", [8, 9, 8])
    assert {kernel.partition("__")[0] for kernel in kernels} == expected


@pytest.mark.nightly
@pytest.mark.parametrize("target", ["x86_64", "aarch64"])
@pytest.mark.parametrize("model", HUGE)
def test_a_model_of_full_size_is_compiled(
    project: Project, model: str, target: str
) -> None:
    run = project.doit("build", f"model={model}", f"target={target}")
    assert run.code == 0, run.err
    assert "compiled only, their weights are splats" in run.err
    folder = project.root / "build" / model
    # A layer is one function, however many there are.
    assert (folder / target / "model.vmfb").stat().st_size > 100_000
    assert next(folder.rglob("model.irpa")).stat().st_size < 1_000_000
