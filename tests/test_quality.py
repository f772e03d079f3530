from __future__ import annotations

import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingot.checks.compare import Place, Row
from ingot.checks.golden_files import read_logits
from ingot.checks.rounding_cost import measure, predict_by_oracle, windows
from ingot.codec import from_json
from ingot.engine.actions import Action, InlineText, Output, SourceFile
from ingot.model.component import Components
from ingot.model.manifest import read_manifest
from ingot.model.oracle import load_oracles
from ingot.model.select_kernels import select_kernels
from ingot.model.target import read_target
from ingot.programs.check.main import (
    failed_gates,
    quality_line,
    report_json,
    report_text,
)
from ingot.programs.check.spec import CheckSpec
from ingot.programs.quality.spec import TEXT, QualitySpec
from ingot.project.catalogue import Plan, Selection
from ingot.stages.check import plan_check
from ingot.stages.plan import plan_model
from ingot.stages.quality import plan_quality
from tests.import_cases import TINY, bring, checkout, write_hf
from tests.judged_checkpoints import DATA, FAMILIES, baked, write_judged
from tests.project import ROOT


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout without models."""
    return checkout(tmp_path)


def constant(*probabilities: float) -> Any:
    """A model that predicts the same after every token."""
    logits = np.log(np.array(probabilities, np.float32)) + 3
    return lambda tokens: np.tile(logits, (len(tokens), 1))


def test_a_text_is_cut_into_whole_windows_that_start_alike() -> None:
    assert windows(list(range(10, 20)), [1], 4) == [
        (1, 10, 11, 12),
        (1, 13, 14, 15),
        (1, 16, 17, 18),
    ]
    assert windows([5, 6], [], 4) == [(5, 6)]


def test_the_shipped_text_has_windows_enough() -> None:
    text = (ROOT / "ingot/programs/quality" / TEXT).read_text()
    found = windows(list(text.encode()), [0], 2048)
    assert [len(item) for item in found] == [256] * 8


def test_a_model_costs_nothing_against_itself() -> None:
    found = measure(constant(0.75, 0.25), constant(0.75, 0.25), [(0, 0, 1)])
    assert (found.tokens, found.kl, found.top_1) == (2, 0, 1)
    assert found.perplexity_ratio == 1
    assert found.perplexity == pytest.approx((0.75 * 0.25) ** -0.5)


def test_the_cost_of_another_model_is_what_the_formulas_say() -> None:
    found = measure(constant(0.75, 0.25), constant(0.4, 0.6), [(0, 0, 1), (1, 0)])
    assert found.tokens == 3
    assert found.kl == pytest.approx(
        0.75 * math.log(0.75 / 0.4) + 0.25 * math.log(0.25 / 0.6)
    )
    assert found.perplexity == pytest.approx((0.4 * 0.6 * 0.4) ** (-1 / 3))
    assert found.reference_perplexity == pytest.approx((0.75 * 0.25 * 0.75) ** (-1 / 3))
    assert found.top_1 == 0


@pytest.mark.parametrize("family", FAMILIES)
def test_the_reference_predicts_every_position_as_transformers_does(
    family: str, root: Path
) -> None:
    source = write_judged(root.parent / "tiny", family)
    _, manifest = bring(root, source)
    graph = manifest.graph
    predict = predict_by_oracle(
        graph, load_oracles(graph), baked(root, manifest, source)
    )
    golden = read_logits(DATA / f"{family}.npz")
    logits = predict(golden.greedy[:-1])
    for step, expected in golden.steps:
        found = logits[golden.prompt_length - 1 + step]
        error = np.abs(found[golden.ids] - expected.logits).max()
        assert error < 2e-4 * expected.range


def spec(**changes: Any) -> CheckSpec:
    """The specification of a check without comparisons."""
    given: dict[str, Any] = {
        "task": "check tiny@here",
        "model": "tiny",
        "target": "here",
        "device": "local-sync",
        "emulated": False,
        "judge": None,
        "has_tokenizer": True,
        "is_rounded": True,
        "is_quantised": False,
        "unmeasured": None,
        "gates": {},
        "pieces": (),
    }
    return CheckSpec(**{**given, **changes})


MEASURED = {
    "computed_by": "oracle",
    "source_quantised": False,
    "perplexity": 12.5,
    "perplexity_ratio": 1.04,
    "kl": 0.03,
    "top_1": 0.91,
    "tokens": 2040,
}


def test_a_gate_that_is_not_passed_is_named_with_both_numbers() -> None:
    gates = {"max_kl": 0.02, "min_top_1": 0.9, "max_perplexity_ratio": 1.03}
    assert failed_gates(spec(gates=gates), MEASURED) == [
        "check.quality.max_kl: expected at most 0.02, got 0.03",
        "check.quality.max_perplexity_ratio: expected at most 1.03, got 1.04",
    ]
    assert failed_gates(spec(gates={"min_top_1": 0.92}), MEASURED) == [
        "check.quality.min_top_1: expected at least 0.92, got 0.91"
    ]
    assert failed_gates(spec(), MEASURED) == []


def test_a_gate_without_a_measurement_fails() -> None:
    synthetic = spec(gates={"max_kl": 1.0}, unmeasured="the weights are synthetic")
    assert failed_gates(synthetic, None) == [
        "check.quality: not measured, because the weights are synthetic"
    ]
    exact = spec(gates={"max_kl": 1.0}, is_rounded=False)
    assert failed_gates(exact, None) == [
        "check.quality: not measured, because no weight is rounded"
    ]


def test_the_check_says_what_rounding_costs_or_why_it_is_unknown() -> None:
    assert quality_line(spec(), MEASURED) == (
        "quality: perplexity 12.5, 1.04 times that of f32; KL 0.03 nats; top-1 91.00%;"
        " 2040 tokens, computed by the oracle"
    )
    synthetic = spec(unmeasured="the weights are synthetic")
    assert quality_line(synthetic, None) == (
        "quality: not measured, because the weights are synthetic"
    )
    assert quality_line(spec(is_rounded=False), None) == ""


def test_a_source_that_is_quantised_already_is_said_to_be() -> None:
    kept = spec(is_rounded=False, is_quantised=True)
    assert quality_line(kept, None) == (
        "quality: the source is quantised already, and its blocks are kept; doit"
        " check-quality measures their perplexity"
    )
    assert quality_line(kept, {**MEASURED, "source_quantised": True}) == (
        "quality: perplexity 12.5, 1.04 times that of f32 with the same blocks: the"
        " source is quantised already; KL 0.03 nats; top-1 91.00%; 2040 tokens,"
        " computed by the oracle"
    )


def quality_input(actions: list[Action]) -> Output | None:
    """The measurement that a check reads."""
    found = dict(actions[-1].inputs).get("quality.json")
    assert found is None or isinstance(found, Output)
    return found


@pytest.mark.parametrize(
    ("target", "place", "by_target"),
    [("x86_64", "x86_64", True), ("aarch64", "packed_n8", False)],
)
def test_a_target_that_runs_here_measures_itself(
    target: str, place: str, by_target: bool, root: Path
) -> None:
    source = write_hf(root.parent / "tiny", TINY["llama"])
    shutil.copy(ROOT / "models/tokenizers/bytes.json", source / "tokenizer.json")
    imported, _ = bring(root, source)
    path = root / imported.path
    path.write_text(path.read_text().replace("stored: f32", "stored: i8"))
    manifest = read_manifest(path, root)
    chosen = read_target(ROOT / f"targets/{target}.yaml", ROOT)
    action = plan_quality(manifest, manifest, chosen, root)
    assert action.task == f"check-quality:tiny@{place}"
    inputs = dict(action.inputs)
    assert ("model.vmfb" in inputs) is by_target
    assert isinstance(inputs[TEXT], SourceFile)
    assert isinstance(inputs["spec.json"], InlineText)
    found = from_json(QualitySpec, inputs["spec.json"].text.encode())
    assert (found.runner is not None) is by_target
    taken = quality_input(list(plan_check(manifest, chosen, root)))
    assert taken == Output(action.task, "quality.json")


def test_the_check_measures_what_is_rounded_or_gated() -> None:
    chosen = read_target(ROOT / "targets/x86_64.yaml", ROOT)
    for name in ("clm-60m", "stories15m", "smollm2-135m-instruct"):
        manifest = read_manifest(ROOT / f"models/{name}.yaml", ROOT)
        assert quality_input(list(plan_check(manifest, chosen, ROOT))) is None
    gated = replace(manifest, quality={"max_perplexity_ratio": 1.01})
    assert quality_input(list(plan_check(gated, chosen, ROOT)))
    manifest = read_manifest(ROOT / "models/stories15m-i4.yaml", ROOT)
    assert manifest.quality["max_perplexity_ratio"] == 1.03
    assert quality_input(list(plan_check(manifest, chosen, ROOT)))


def test_every_decoder_with_trained_weights_can_be_measured() -> None:
    for name, said in (
        ("stories15m", False),
        ("stories15m-i4", False),
        ("smollm2-135m-instruct", True),
    ):
        action = planned(name)[f"check-quality:{name}@x86_64"]
        text = dict(action.inputs)["spec.json"]
        assert isinstance(text, InlineText)
        found = from_json(QualitySpec, text.text.encode())
        assert found.source_quantised == said
    tasks = planned("clm-60m")
    assert not any(task.startswith("check-quality:") for task in tasks)


@pytest.mark.parametrize(("model", "runs"), [("stories15m", 0), ("stories15m-i4", 1)])
def test_a_command_measures_only_what_a_bundle_needs(model: str, runs: int) -> None:
    plan = Plan(tuple(planned(model).values()))
    selected = plan.selected("check", Selection((model,), ("x86_64",)))
    assert f"check:{model}@x86_64" in selected
    assert selected.count(f"check-quality:{model}@x86_64") == runs


def planned(model: str) -> dict[str, Action]:
    """The actions of a model of this project on x86_64, by task."""
    manifest = read_manifest(ROOT / f"models/{model}.yaml", ROOT)
    target = read_target(ROOT / "targets/x86_64.yaml", ROOT)
    components = Components(ROOT)
    stored = manifest.weights.stored
    graph = select_kernels(manifest.graph, stored, target.layout, components)
    lowered = {target.layout.name: replace(manifest, graph=graph)}
    actions = plan_model(manifest, lowered, [target], components)
    return {action.task: action for action in actions}


def compared(value: str) -> Row:
    """The row of a tokenizer's comparison of this value."""
    place = Place("tokens", "2000 strings", "tokenizer", (), value)
    return Row(place, 0.0, (0,), 0.0, 0.0, None, 0.0, "exact", passed=True)


def test_a_tokenizer_that_nothing_judged_is_said_to_have_no_judge() -> None:
    graph = read_manifest(ROOT / "tests/data/toy.yaml", ROOT).graph
    for rows, judge in (
        ((compared("ids"), compared("text")), "the rules of its file, in plain Python"),
        ((compared("streamed text"),), "no independent judge"),
        ((), "no independent judge"),
    ):
        assert report_json(spec(), rows)["tokenizer_judge"] == judge
        told = report_text(spec(), rows, graph).splitlines()
        line = "no independent judge of the tokenizer: its ids are its own"
        assert (line in told) == (judge == "no independent judge")
    without = spec(has_tokenizer=False)
    assert report_json(without, ())["tokenizer_judge"] is None
