from __future__ import annotations

import json
from pathlib import Path

import pytest

from ingot.checks.golden_files import read_logits
from ingot.checks.oracle_judge import judged_prompts
from ingot.codec import from_json
from ingot.engine.actions import Action, InlineText, Output
from ingot.model import judge
from ingot.model.component import Components
from ingot.model.judge import PACKAGES
from ingot.model.manifest import Manifest, read_manifest
from ingot.programs.check.main import report_json, report_text
from ingot.programs.check.spec import CheckSpec
from ingot.programs.golden.spec import GoldenSpec
from ingot.stages.golden import plan_golden
from ingot.stages.plan import plan_model
from tests.import_cases import TINY, bring, checkout, write_as_gguf, write_hf
from tests.judged_checkpoints import DATA
from tests.project import ROOT

VERSIONS = {"torch": "2.13.0", "transformers": "5.23.0"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout without models."""
    return checkout(tmp_path)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The packages of the judge, as if they were installed."""

    def wheels(names: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
        known = {**VERSIONS, "accelerate": "1.15.0", "gguf": "0.19.0"}
        return tuple((name, known[name]) for name in sorted(names))

    monkeypatch.setattr(judge, "wheels", wheels)
    monkeypatch.setattr("ingot.stages.golden.wheels", wheels)


def planned(manifest: Manifest, root: Path) -> dict[str, Action]:
    """The actions of the judge, by task."""
    return {action.task: action for action in plan_golden(manifest, root)}


def spec_of(action: Action) -> bytes:
    """The specification that an action gets."""
    (text,) = (
        given.text
        for name, given in action.inputs
        if name == "spec.json" and isinstance(given, InlineText)
    )
    return text.encode()


@pytest.mark.usefixtures("installed")
def test_transformers_judges_a_checkpoint_by_its_own_config(root: Path) -> None:
    _, manifest = bring(root, write_hf(root.parent / "tiny", TINY["llama"]))
    actions = planned(manifest, root)
    assert list(actions) == ["check-golden:tiny"]
    action = actions["check-golden:tiny"]
    assert {"weights/config.json", "weights/model.safetensors"} <= {
        name for name, _ in action.inputs
    }
    assert "models/tiny.yaml" not in str(action.inputs)
    assert action.tools == ("python", *PACKAGES)
    assert ("network", "yes") not in action.platform
    assert judge.judge_name(manifest) == "transformers 5.23.0, torch 2.13.0"


@pytest.mark.usefixtures("installed")
def test_a_gguf_file_is_judged_by_its_metadata(root: Path) -> None:
    _, manifest = bring(root, write_as_gguf(root.parent / "m.gguf", TINY["llama"]))
    action = planned(manifest, root)["check-golden:m"]
    assert from_json(GoldenSpec, spec_of(action)).gguf == "m.gguf"
    assert {"accelerate", "gguf", *PACKAGES} < set(action.tools)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("family", "head_dim", "is_judged"),
    [("qwen3", 16, False), ("gemma3", 16, False), ("gemma3", 256, True)],
)
def test_a_gguf_file_that_transformers_misreads_has_no_judge(
    family: str, head_dim: int, is_judged: bool, root: Path
) -> None:
    config = {**TINY[family], "head_dim": head_dim}
    _, manifest = bring(root, write_as_gguf(root.parent / "m.gguf", config))
    assert dict(manifest.dims)["head_dim"] == head_dim
    assert (judge.judge_name(manifest) is not None) == is_judged


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("model", ["stories15m", "gemma3-270m"])
def test_real_weights_of_this_project_are_judged(model: str) -> None:
    manifest = read_manifest(ROOT / f"models/{model}.yaml", ROOT, accepted={"gemma"})
    assert judge.judge_name(manifest) == "transformers 5.23.0, torch 2.13.0"
    names = {
        name for name, _ in planned(manifest, ROOT)[f"check-golden:{model}"].inputs
    }
    assert names & {"weights/config.json", "weights/gemma-3-270m-q4_k_m.gguf"}


@pytest.mark.usefixtures("installed")
def test_where_weights_are_rounded_the_judge_looks_at_the_oracle(root: Path) -> None:
    source = write_hf(root.parent / "tiny", TINY["llama"])
    imported, _ = bring(root, source)
    path = root / imported.path
    path.write_text(path.read_text().replace("stored: f32", "stored: i8"))
    manifest = read_manifest(path, root)
    actions = planned(manifest, root)
    assert list(actions) == ["check-golden:tiny", "check-oracle:tiny"]
    inputs = dict(actions["check-oracle:tiny"].inputs)
    assert inputs["model.irpa"] == Output("bake:tiny@plain", "model.irpa")
    assert inputs["golden.npz"] == Output("check-golden:tiny", "golden.npz")


@pytest.mark.usefixtures("installed")
def test_a_golden_file_is_the_judge_of_its_model() -> None:
    manifest = read_manifest(ROOT / "models/clm-60m.yaml", ROOT)
    assert judge.judge_name(manifest) == "golden file clm-60m.npz"
    assert planned(manifest, ROOT) == {}


def test_without_the_packages_nothing_judges_a_checkpoint(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge, "wheels", lambda names: ())
    _, manifest = bring(root, write_hf(root.parent / "tiny", TINY["llama"]))
    assert judge.judge_name(manifest) is None
    actions = plan_model(manifest, {}, (), Components(root))
    assert not [action.task for action in actions if "golden" in action.task]


@pytest.mark.parametrize("known", [None, "transformers 5.23.0"])
def test_every_report_names_the_judge_or_says_that_there_is_none(
    known: str | None,
) -> None:
    spec = CheckSpec(
        task="check tiny@here",
        model="tiny",
        target="here",
        device="local-sync",
        emulated=False,
        judge=known,
        has_tokenizer=False,
        is_rounded=False,
        is_quantised=False,
        unmeasured=None,
        gates={},
        pieces=(),
    )
    manifest = read_manifest(ROOT / "tests/data/toy.yaml", ROOT)
    first = report_text(spec, (), manifest.graph).splitlines()[0]
    told = "judged by transformers 5.23.0" if known else "no independent judge"
    assert first == f"check tiny@here: 0 comparisons, {told}"
    report = json.loads(json.dumps(report_json(spec, ())))
    assert report["judge"] == (known or "no independent judge")


def test_a_wheel_is_found_with_all_that_it_needs() -> None:
    found = dict(judge.wheels(("jsonschema",)))
    assert {"attrs", "jsonschema", "referencing"} <= found.keys()
    assert judge.wheels(("jsonschema", "no-such-wheel")) == ()


def test_short_prompts_and_one_beyond_the_window_judge_the_oracle() -> None:
    golden = read_logits(DATA / "gemma3.npz")
    lengths = [len(golden.prompts[index]) for index in judged_prompts(golden)]
    assert golden.window == 8
    assert lengths == [1, 2, 7, 16, 33]
