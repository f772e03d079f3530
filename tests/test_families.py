"""Test that checkpoints of every family are read right: transformers is the judge."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingot.checks.golden_files import read_logits
from ingot.checks.oracle_judge import judge_rows
from ingot.model.manifest import read_manifest
from ingot.model.oracle import load_oracles
from ingot.model.yaml_nodes import format_errors
from tests.family_checkpoints import CASES, DATA, write_case
from tests.import_cases import bring, checkout
from tests.judged_checkpoints import baked


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout without models."""
    return checkout(tmp_path)


@pytest.mark.parametrize("name", CASES)
def test_a_checkpoint_computes_what_transformers_does(name: str, root: Path) -> None:
    case = CASES[name]
    source = write_case(root.parent / "tiny", name)
    _, manifest = bring(root, source, n_ctx=case.n_ctx)
    assert manifest.architecture == case.architecture
    parameters = baked(root, manifest, source)
    graph = manifest.graph
    golden = read_logits(DATA / f"{name}.npz")
    rows = judge_rows(graph, load_oracles(graph), parameters, golden)
    assert [row for row in rows if not row.passed] == []
    # Below and above windows of 8 and 16 positions before a scaling.
    assert {len(prompt) for prompt in golden.prompts} >= {1, 2, 7, 16, 33}
    assert len(rows) >= 5


MISTAKES = {
    "layers: [layer.far]": "layers[0]: architecture 'mistral' has no layer"
    " 'layer.far'\n  did you mean 'layer.local'?",
    "layers: [layer.local, layer.local, layer.local, layer.local]": "layers: more than"
    " n_layer = 3, found 4",
    "rope_scaling: {rope.tabel: {kind: linear, factor: 2}}": "rope_scaling.rope.tabel:"
    " architecture 'mistral' has no such table\n  did you mean 'rope.table'?",
    "rope_scaling: {rope.table: {kind: linear, factor: -2}}": "rope_scaling.rope.table"
    ".factor: expected numbers above 0, found -2.0",
    "rope_scaling: {rope.table: {kind: divisors, divisors: [1, 2]}}": "rope_scaling"
    ".rope.table.divisors: expected a number for each of 8 pairs, found 2",
    "rope_scaling: {rope.table: {kind: llama3, factor: 2, low_freq_factor: 4,"
    " high_freq_factor: 1, n_ctx_trained: 16}}": "rope_scaling.rope.table"
    ".high_freq_factor: expected more than low_freq_factor = 4, found 1",
}


@pytest.mark.parametrize("line", MISTAKES)
def test_a_wrong_layer_or_scaling_is_told_where_it_stands(
    line: str, root: Path
) -> None:
    imported, _ = bring(root, write_case(root.parent / "tiny", "ministral"))
    path = root / imported.path
    text = path.read_text()
    right = next(x for x in text.splitlines() if x.startswith("layers: "))
    path.write_text(text.replace(right, line))
    with pytest.raises(ExceptionGroup) as caught:
        read_manifest(path, root)
    number = text.splitlines().index(right) + 1
    place, _, message = format_errors(caught.value).partition(": ")
    assert place.startswith(f"models/tiny.yaml:{number}:")
    assert message == MISTAKES[line]
