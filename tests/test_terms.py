"""Test that a model's own weights are built only if its terms are accepted."""

from __future__ import annotations

import hashlib
import io
import json
import sys
from pathlib import Path

import pytest

from ingot.cli.weight_notes import offer_terms, weight_notes
from ingot.errors import IngotError
from ingot.model.manifest import Manifest, read_manifest
from ingot.model.terms import Terms
from ingot.project import accepted_terms
from ingot.project.accepted_terms import accepted, is_answered, remember
from ingot.project.catalogue import read
from ingot.project.catalogue_values import Model
from tests.manifest_cases import GOOD, ROOT, message, place

TEXT = "models/licences/LicenseRef-Gemma.txt"
SHA256 = hashlib.sha256((ROOT / TEXT).read_bytes()).hexdigest()
TERMS = Terms("gemma", TEXT, SHA256, False)

SECTION = """
terms:
  name: gemma
  otherwise:
    licence: Apache-2.0
    source: {kind: synthetic, seed: 1}
    policy: [{match: "*", stored: bf16, compute: f32}]
    tokenizer: {kind: file, path: bytes.json}
"""


def written(root: Path) -> Path:
    """Write a manifest of real weights with terms."""
    path = place(root, GOOD)
    (root / "models/real.safetensors").write_bytes(b"")
    (root / "models/bytes.json").write_text("{}")
    text = path.read_text("utf-8").replace(
        "{kind: synthetic, seed: 1}", "{kind: file, path: real.safetensors}"
    )
    text = text.replace("licence: Apache-2.0", "licence: LicenseRef-Gemma")
    path.write_text(text + SECTION, "utf-8")
    return path


def found(root: Path, *names: str) -> Manifest:
    return read_manifest(root / "models/small.yaml", root, accepted=names)


@pytest.fixture(autouse=True)
def configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use an empty folder for the user's answers."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("INGOT_ACCEPT", raising=False)
    monkeypatch.delenv("CI", raising=False)
    return tmp_path / "config/ingot/terms.json"


def test_without_acceptance_the_weights_are_synthetic(tmp_path: Path) -> None:
    written(tmp_path)
    manifest = found(tmp_path)
    source = manifest.weights.source
    assert (source.origin, source.note) == (
        "synthetic weights, seed 1",
        "synthetic weights",
    )
    assert manifest.licence == "Apache-2.0"
    assert manifest.tokenizer
    assert manifest.tokenizer.label == "bytes.json"
    assert manifest.terms == TERMS
    assert manifest.weights.stored("any") == "bf16"


@pytest.mark.parametrize("name", ["gemma", f"gemma:{SHA256}"])
def test_accepted_terms_give_the_models_own_weights(name: str, tmp_path: Path) -> None:
    written(tmp_path)
    manifest = found(tmp_path, "other", name)
    assert manifest.weights.source.origin == "file real.safetensors"
    assert manifest.weights.source.note == ""
    assert manifest.licence == "LicenseRef-Gemma"
    assert manifest.tokenizer is None
    assert manifest.weights.stored("any") == "f32"
    assert manifest.terms
    assert manifest.terms.accepted


def test_another_text_has_to_be_accepted_again(tmp_path: Path) -> None:
    written(tmp_path)
    with (tmp_path / TEXT).open("a") as file:
        file.write("One more clause.\n")
    assert found(tmp_path, f"gemma:{SHA256}").weights.source.seed == 1


def test_terms_without_a_text_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path)
    (tmp_path / TEXT).unlink()
    assert message(path, tmp_path) == (
        "models/small.yaml:4:10: licence: no text of 'LicenseRef-Gemma'\n"
        f"  a bundle carries it: save it as {TEXT}\n"
    )


def test_an_answer_is_kept_with_the_digest_of_the_text(configuration: Path) -> None:
    assert accepted() == ()
    remember(TERMS, accepts=True)
    assert json.loads(configuration.read_text()) == {"gemma": SHA256}
    assert accepted() == (f"gemma:{SHA256}",)
    assert is_answered(TERMS)
    assert not is_answered(Terms("gemma", TEXT, "0" * 64, False))
    remember(TERMS, accepts=False)
    assert SHA256 not in [name.partition(":")[2] for name in accepted()]
    assert is_answered(TERMS)


def test_the_variable_accepts_for_one_command(
    configuration: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INGOT_ACCEPT", "gemma, llama")
    assert accepted() == ("gemma", "llama")
    assert not configuration.exists()


@pytest.mark.parametrize("text", ["{", "[]", '{"gemma": 1}'])
def test_a_damaged_file_of_answers_is_an_error(text: str, configuration: Path) -> None:
    configuration.parent.mkdir(parents=True)
    configuration.write_text(text)
    with pytest.raises(IngotError) as caught:
        accepted()
    assert str(caught.value) == (
        f"{configuration}: cannot be read as accepted terms\n  rm {configuration}"
    )


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def offered(monkeypatch: pytest.MonkeyPatch, answer: str) -> tuple[bool, str]:
    """Offer the terms of a model on a terminal; return the result and the output."""
    shown = Terminal()
    monkeypatch.setattr(sys, "stdin", Terminal(f"{answer}\n"))
    monkeypatch.setattr(sys, "stderr", shown)
    model = Model(weights="synthetic weights", terms=TERMS)
    return offer_terms([model, model], ROOT), shown.getvalue()


def test_a_terminal_shows_the_terms_and_asks_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    accepts, shown = offered(monkeypatch, "yes")
    assert accepts
    assert shown.startswith("Gemma Terms of Use\n")
    words = (ROOT / TEXT).read_text().split()
    assert shown.split()[: len(words)] == words
    assert shown.count("Do you accept these terms") == 1
    assert accepted() == (f"gemma:{SHA256}",)
    assert offered(monkeypatch, "yes") == (False, "")


def test_a_no_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    accepts, shown = offered(monkeypatch, "")
    assert not accepts
    assert shown
    assert offered(monkeypatch, "yes") == (False, "")


@pytest.mark.parametrize("closed", ["stdin", "stderr", "CI"])
def test_nobody_is_asked_without_a_terminal_or_in_ci(
    closed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal("yes\n"))
    monkeypatch.setattr(sys, "stderr", Terminal())
    if closed == "CI":
        monkeypatch.setenv("CI", "true")
    else:
        monkeypatch.setattr(sys, closed, io.StringIO("yes\n"))
    assert not offer_terms([Model(terms=TERMS)], ROOT)
    assert accepted() == ()


def test_the_summary_says_which_weights_are_synthetic() -> None:
    synthetic = Model(weights="synthetic weights")
    models = {
        "a": synthetic,
        "b": Model(weights="synthetic weights", terms=TERMS),
        "c": synthetic,
    }
    assert list(weight_notes(models)) == [
        "synthetic weights: a, c",
        "synthetic weights until you accept the model's terms (INGOT_ACCEPT=gemma"
        f" accepts {TEXT}): b",
    ]


def test_a_plan_is_not_kept_when_the_terms_are_accepted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(accepted_terms, "file", lambda: tmp_path / "terms.json")
    before = read(ROOT, ["gemma3-270m"]).models["gemma3-270m"]
    assert before.weights == "synthetic weights"
    assert before.terms == TERMS
    remember(TERMS, accepts=True)
    after = read(ROOT, ["gemma3-270m"]).models["gemma3-270m"]
    assert after.weights == ""
    tasks = [action.task for action in after.actions]
    assert "fetch-join:gemma-3-270m-q4_k_m.gguf-a5fd3b62230a" in tasks
    assert "fetch:tokenizer.json-4667f2089529" in tasks
