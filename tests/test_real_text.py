"""Test that decoders with trained weights write the text that they should.

The weights come from package registries, as those of a user do. The text of SmolLM2 is
the README's; transformers is asked where the extra `golden` is installed:

    INGOT_ACCEPT=gemma pytest -n1 -s -m nightly tests/test_real_text.py
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ingot.bundles.target_runner import runner_for
from ingot.cli.runnable_model import chosen, unchecked_bundle
from ingot.model.manifest import read_manifest
from ingot.project.accepted_terms import VARIABLE, accepted
from ingot.project.catalogue import read
from ingot.project.selection import select
from tests.project import ROOT, Project, builds, skipped
from tests.real_text import PROMPTS, continued, judge_of, steps

SMOLLM2, GEMMA, STORIES = "smollm2-135m-instruct", "gemma3-270m", "stories15m"
QUESTION = "What is the capital of France?"
TEXTS = {
    SMOLLM2: (QUESTION, "The capital of France is Paris.\n"),
    GEMMA: ("Paris is the capital of", " France and is the most visited city in\n"),
}

# What a logit may be wrong by, as a share of their range; two of them may change places
# that are no further apart than twice as much.
TOLERANCE = 2e-4

V4 = skipped(read(ROOT, []).settings.unrunnable, "x86_64-v4")


def project_of(model: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Return a checkout of a model whose weights are the real ones."""
    monkeypatch.setenv(VARIABLE, os.environ.get("INGOT_TEST_ACCEPT", ""))
    if model == GEMMA and not os.environ[VARIABLE]:
        pytest.skip(f"{model} has synthetic weights until its terms are accepted")
    return Project.create(folder / "checkout", models=(model,))


def answer(project: Project, model: str, target: str, *words: str) -> str:
    """Return what an unchecked model writes."""
    run = project.doit(
        "generate", f"model={model}", f"target={target}", "--unchecked", *words
    )
    assert run.code == 0, run.out + run.err
    assert "\nunchecked: this model is not checked\n" in run.err
    assert "] check" not in run.err
    assert "] bench" not in run.err
    return run.out


def test_the_readme_has_the_command_that_is_tested() -> None:
    command = f'doit generate model={SMOLLM2} prompt="{QUESTION}"'
    assert command in (ROOT / "README.md").read_text("utf-8")


@builds(SMOLLM2)
def test_the_command_of_the_readme_answers_paris(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = project_of(SMOLLM2, tmp_path, monkeypatch)
    prompt, text = TEXTS[SMOLLM2]
    assert answer(project, SMOLLM2, "x86_64", f"prompt={prompt}") == text


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("model", "target"),
    [
        pytest.param(SMOLLM2, "x86_64-v4", marks=V4),
        pytest.param(SMOLLM2, "aarch64", marks=pytest.mark.aarch64),
        pytest.param(SMOLLM2, "vulkan-llvmpipe", marks=pytest.mark.vulkan),
        pytest.param(GEMMA, "aarch64", marks=pytest.mark.aarch64),
    ],
)
def test_every_target_writes_the_same_text(
    model: str, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = project_of(model, tmp_path, monkeypatch)
    prompt, text = TEXTS[model]
    assert answer(project, model, target, f"prompt={prompt}", "tokens=8") == text


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("model", "target"),
    [
        (STORIES, "x86_64"),
        (SMOLLM2, "x86_64"),
        pytest.param(SMOLLM2, "x86_64-v4", marks=V4),
        (GEMMA, "x86_64"),
    ],
)
def test_20_prompts_go_on_as_transformers_goes_on(
    model: str, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("transformers", reason="needs the extra golden")
    project = project_of(model, tmp_path, monkeypatch)
    answer(project, model, target, "prompt=Hello", "tokens=1")
    catalogue = read(project.root, [model])
    words = {"model": model, "target": target}
    plan = chosen("generate", catalogue, select(catalogue, words))
    path = project.root / f"models/{model}.yaml"
    manifest = read_manifest(path, project.root, accepted=accepted())
    n_ctx = dict(manifest.dims)["n_ctx"]
    judge = judge_of(project.root, manifest.weights.source, tmp_path, n_ctx)
    wrong, worst, equal = [], 0.0, 0
    with unchecked_bundle(project.root, plan) as bundle:
        runner = runner_for(bundle, project.root)
        assert not isinstance(runner, str)
        for prompt in PROMPTS:
            found = list(steps(judge, *continued(bundle, runner, prompt)))
            worst = max(worst, *(step.error for step in found))
            others = [step for step in found if not step.same]
            equal += not others
            if others:
                place = found.index(others[0])
                print(f"{prompt!r}: token {place} differs, gap {others[0].gap:.1e}")
            wrong += [x for x in found if max(x.error, x.gap / 2) > TOLERANCE]
    print(
        f"{model}@{target}: {equal} of {len(PROMPTS)} equal, logits within {worst:.1e}"
    )
    assert wrong == []
