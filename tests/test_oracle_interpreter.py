from __future__ import annotations

import sys
import types
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from ingot.checks.golden_files import read_sentences
from ingot.checks.golden_sentences import pad
from ingot.engine.actions import SourceFile
from ingot.errors import IngotError
from ingot.model.manifest import read_manifest
from ingot.model.oracle import (
    load_oracles,
    run_block,
    run_entry_point,
    run_instance,
    token_limit,
)
from tests.project import builds
from tests.tiny_model import GRAPH, ORACLES, ROOT, WEIGHT, expected

ENCODE = GRAPH.entry_points[0]
COUNT, SCALE = GRAPH.instances
TOKENS = np.array([[101, 7592, 102], [101, 102, 999]], np.int32)
MASK = np.array([[1, 1, 1], [1, 1, 0]], np.int32)


@pytest.fixture
def oracles(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    module = types.ModuleType("oracles.tiny")
    exec(ORACLES, module.__dict__)
    monkeypatch.setitem(sys.modules, "oracles.tiny", module)
    return load_oracles(GRAPH)


def test_an_entry_point_is_its_blocks_one_after_the_other(
    oracles: dict[str, Any],
) -> None:
    outputs, steps = run_entry_point(
        GRAPH, oracles, ENCODE, (TOKENS, MASK), {"w": WEIGHT}, keep=True
    )
    np.testing.assert_allclose(outputs[0], expected(TOKENS, MASK), rtol=1e-6)
    assert [step.block.name for step in steps] == ["counting", "scaling"]
    assert steps[1].inputs[0] is steps[0].outputs[0]
    assert steps[1].outputs[0] is outputs[0]


def test_a_block_takes_its_inputs_in_its_own_order(oracles: dict[str, Any]) -> None:
    block = ENCODE.blocks[1]
    (scaled,) = run_block(GRAPH, oracles, block, (np.ones((1, 2)),), {"w": WEIGHT})
    np.testing.assert_array_equal(scaled, [WEIGHT.astype(np.float64)])


def test_an_oracle_gets_tensors_scalars_and_bound_indices_by_name() -> None:
    seen: dict[str, Any] = {}

    def oracle(**arguments: Any) -> Any:
        seen.update(arguments)
        return TOKENS

    run_instance(COUNT, oracle, (TOKENS, MASK), (0.001,))
    assert seen.pop("tokens") is TOKENS
    assert seen.pop("mask") is MASK
    assert seen == {"unit": 0.001, "n_out": 2}


def test_every_call_is_shown_with_its_operands(oracles: dict[str, Any]) -> None:
    seen: list[tuple[str, int]] = []
    run_entry_point(
        GRAPH,
        oracles,
        ENCODE,
        (TOKENS, MASK),
        {"w": WEIGHT},
        lambda call, operands: seen.append((call.name, len(operands))),
    )
    assert seen == [("sums", 2), ("scaled", 2)]


def test_an_oracle_with_other_results_than_the_signature_is_an_error() -> None:
    with pytest.raises(IngotError) as caught:
        run_instance(SCALE, lambda x, weight: (x, x), (TOKENS, WEIGHT), ())
    assert str(caught.value) == (
        "oracles/tiny.py: scale returned 2 results; expected 1, as toy/scale does"
    )


def test_a_missing_oracle_names_file_and_component(oracles: dict[str, Any]) -> None:
    wrong = replace(SCALE, oracle=("oracles/tiny.py", "scales"))
    with pytest.raises(IngotError) as caught:
        load_oracles(replace(GRAPH, instances=(wrong,)))
    assert str(caught.value) == (
        "oracles/tiny.py: no function 'scales', the oracle of toy/scale"
    )


def test_token_ids_stay_below_the_rows_that_they_index() -> None:
    assert token_limit(GRAPH, ENCODE, "tokens") == 30522
    assert token_limit(GRAPH, ENCODE, "nothing") is None


@pytest.mark.reads("tests/data/tiny/*")
@builds("all-minilm-l6-v2")
def test_the_graph_of_all_minilm_gives_what_transformers_gives() -> None:
    manifest = read_manifest(ROOT / "models/all-minilm-l6-v2.yaml", ROOT)
    source = manifest.weights.source.files[0].source
    assert isinstance(source, SourceFile)
    assert isinstance(manifest.golden, Path)
    tensors = safetensors.numpy.load_file(source.path)
    graph = manifest.graph
    parameters = {item.name: tensors[item.source_name] for item in graph.parameters}
    golden = read_sentences(manifest.golden)
    (entry,) = graph.entry_points
    group = tuple(range(16, 24))
    inputs = pad(entry, tuple(golden.tokens[index] for index in group))
    outputs, _ = run_entry_point(graph, load_oracles(graph), entry, inputs, parameters)
    # The reference is float32, its own error is as large.
    np.testing.assert_allclose(outputs[0], golden.batched[list(group)], atol=1e-6)
