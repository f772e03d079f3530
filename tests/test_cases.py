"""Test the inputs of checks: their sizes are in range, and their values meaningful."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingot.checks.cases import (
    CACHED,
    FAINT,
    FAINTEST,
    LONGEST,
    Case,
    block_cases,
    chain_cases,
    chooses,
    component_cases,
    entry_inputs,
    faint,
    faint_cases,
    make_case,
    model_cases,
    np_rng,
    resampled,
    shuffled,
    traced_calls,
)
from ingot.checks.oracle_runs import (
    ComponentCall,
    Recorded,
    component_file,
    record_components,
    unread,
    without_alike,
)
from ingot.errors import IngotError
from ingot.model.graph import Graph, Port
from ingot.model.manifest import read_manifest
from ingot.model.oracle import load_oracles
from tests.project import ROOT
from tests.tiny_model import GRAPH
from tests.toy_decoder import read

ENCODE = GRAPH.entry_points[0]


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    return read(tmp_path_factory.mktemp("toy-decoder"))


def test_cases_have_one_token_odd_sizes_padding_and_the_longest() -> None:
    cases = component_cases(GRAPH, ENCODE, emulated=False)
    assert Case(1, 1, (1,)) in cases
    assert any(case.seq % 2 for case in cases[1:])
    assert any(case.batch > 1 and min(case.valid) < case.seq for case in cases)
    assert max(case.seq for case in cases) == 32
    for case in (*cases, *block_cases(GRAPH, ENCODE, emulated=False)):
        assert all(1 <= valid <= case.seq for valid in case.valid)


def test_an_emulated_target_runs_the_longest_in_pieces_and_few_tokens_as_a_whole(
    decoder: Graph,
) -> None:
    for graph, longest in ((GRAPH, 32), (decoder, 24)):
        entry = graph.entry_points[0]
        for cases in (component_cases, block_cases):
            assert max(case.seq for case in cases(graph, entry, True)) == longest
        for cases in (model_cases, chain_cases):
            found = cases(graph, entry, True)
            assert sum(case.batch * case.seq for case in found) <= 7
            assert any(min(case.valid) < case.seq for case in found)
        assert chain_cases(graph, entry, False) == block_cases(graph, entry, False)


def test_cases_stay_in_the_ranges_of_the_model() -> None:
    assert make_case(GRAPH, ENCODE, 9, 99).seq == 32
    assert make_case(GRAPH, ENCODE, 9, 99).batch == 4


def test_a_cache_holds_the_sequence_and_some_before_it(decoder: Graph) -> None:
    prefill, decode = decoder.entry_points
    case = make_case(decoder, prefill, 3, 7)
    assert (case.seq, case.ctx) == (7, 7 + CACHED)
    assert ("ctx", case.ctx) in case.inputs()
    assert make_case(decoder, prefill, 1, 99).ctx == 24 + CACHED
    # One token, and a cache of the length that was asked for.
    case = make_case(decoder, decode, 3, 7)
    assert (case.seq, case.valid, case.ctx) == (1, (1, 1, 1), 7 + CACHED)
    for entry in decoder.entry_points:
        for case in model_cases(decoder, entry, emulated=False):
            assert case.seq <= case.ctx <= 32


def test_windows_end_within_a_cache_that_a_single_token_is_behind(
    decoder: Graph,
) -> None:
    for entry in decoder.entry_points:
        (far, size), (alone, less) = faint_cases(decoder, entry, False).items()
        # The longest cache that the model allows, and the token in its last position.
        assert (far.batch, far.seq, far.ctx) == (1, 1, 32)
        assert (alone.batch, alone.seq, alone.ctx) == (1, 1, 1)
        assert (size, less) == (FAINT, FAINTEST)
        inputs = entry_inputs(decoder, entry, far)
        roles = [port.role for port in entry.inputs]
        assert inputs[roles.index("start")].tolist() == [31]
        *_, longest = model_cases(decoder, entry, emulated=False)
        assert longest.valid == (longest.seq,)
    assert faint_cases(GRAPH, ENCODE, False) == {}


def test_a_cache_is_as_long_as_the_context_where_that_is_cheap() -> None:
    for model, emulated, ctx in (
        ("smollm2-135m", False, 2048),
        ("smollm2-135m", True, LONGEST + 1),
        # Of 32768 positions it would have 3 GB.
        ("qwen3-0.6b", False, LONGEST + 1),
    ):
        graph = read_manifest(ROOT / f"models/{model}.yaml", ROOT).graph
        far, _ = faint_cases(graph, graph.entry_points[0], emulated)
        assert far.ctx == ctx


def test_faint_numbers_are_those_that_an_eps_is_as_large_as() -> None:
    made = faint(np.array([9723.0, -1.0, 0.0]), 1e-4)
    assert np.sqrt(np.square(made).mean()) == pytest.approx(1e-4)
    assert (made[1] < 0, made[2]) == (True, 0)
    for kept in (np.array([3, 1], np.int32), np.zeros(2)):
        np.testing.assert_array_equal(faint(kept, 1e-4), kept)


def test_blocks_with_a_router_choose() -> None:
    def chosen(model: str) -> set[str]:
        graph = read_manifest(ROOT / f"models/{model}.yaml", ROOT).graph
        blocks = graph.entry_points[0].blocks
        return {block.name for block in blocks if chooses(block)}

    assert chosen("toy-moe") == {"layer.0", "layer.1"}
    assert chosen("gemma3-270m") == set()


def test_a_model_without_a_cache_has_no_ctx() -> None:
    assert make_case(GRAPH, ENCODE, 1, 5).inputs() == (
        *(("batch", 1), ("seq", 5)),
        ("padded", 1),
    )


def test_inputs_are_the_same_every_time_and_of_the_declared_types() -> None:
    case = make_case(GRAPH, ENCODE, 3, 14)
    first = entry_inputs(GRAPH, ENCODE, case)
    again = entry_inputs(GRAPH, ENCODE, case)
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, b)
    tokens, mask = first
    assert (tokens.dtype, mask.dtype) == (np.int32, np.int32)
    assert (tokens.min() >= 0, tokens.max() < 30522) == (True, True)
    assert tuple(mask.sum(1)) == case.valid


def test_sequences_start_where_their_cache_ends_or_earlier(decoder: Graph) -> None:
    prefill, decode = decoder.entry_points
    for entry in (prefill, decode):
        for case in model_cases(decoder, entry, emulated=False):
            tokens, start, *rest = entry_inputs(decoder, entry, case)
            assert tokens.shape == (case.batch, case.seq)
            assert start[0] + case.seq == case.ctx
            assert (start >= 0).all()
            assert (start + case.seq <= case.ctx).all()
            assert rest[-1].shape == (3, case.batch, case.ctx, 8)
            if entry is prefill:
                assert tuple(rest[0] + 1) == case.valid
            # What a sequence has not written is there too, and must not be seen.
            assert np.count_nonzero(rest[-1]) == rest[-1].size


def test_an_integer_input_without_a_rule_is_an_error() -> None:
    port = Port("places", ENCODE.inputs[0].type, "positions", "places")
    with pytest.raises(IngotError, match="no rule for integers of role 'positions'"):
        entry_inputs(GRAPH, replace(ENCODE, inputs=(port,)), Case(1, 3, (3,)))


def test_rows_keep_their_values_in_another_order() -> None:
    operand = np.exp(np_rng("e").normal(size=(3, 2, 40)) * 9).astype(np.float32)
    made = shuffled("hidden", operand, "f32", np_rng("x"))
    np.testing.assert_array_equal(np.sort(made), np.sort(operand))
    assert (made != operand).mean() > 0.9
    again = shuffled("hidden", operand, "f32", np_rng("x"))
    np.testing.assert_array_equal(made, again)
    # Of a sum of its own, so that others say how large one may be.
    drawn = resampled("hidden", operand, "f32", np_rng("x"))
    assert set(drawn.ravel()) <= set(operand.ravel())
    assert drawn.sum() != pytest.approx(operand.sum(), rel=1e-3)


@pytest.mark.parametrize("value", [1.0, -2.5])
def test_values_that_are_all_equal_differ_a_little_towards_0(value: float) -> None:
    made = shuffled("hidden", np.full((2, 50), value), "f32", np_rng("x"))
    share = made / value
    assert len(set(share.ravel())) > 90
    assert share.max() <= 1
    assert share.min() >= 0.999


@pytest.mark.parametrize("draw", [shuffled, resampled])
def test_parameters_and_what_is_no_number_stay_as_they_are(draw: Any) -> None:
    operand = np.arange(100.0).reshape(10, 10)
    for name, kept in (("param:w", operand), ("ids", operand.astype(np.int32))):
        np.testing.assert_array_equal(draw(name, kept, "f32", np_rng("x")), kept)
    for few in (np.float64(3), np.zeros((0, 4)), np.ones((2, 0))):
        assert draw("x", np.asarray(few), "f32", np_rng("x")).shape == few.shape


def test_parameters_of_the_right_type_are_not_copied() -> None:
    # A decoder's head is most of a gigabyte, and taken by hundreds of calls.
    weight = np.ones((4, 8), np.float32)
    assert shuffled("param:w", weight, "f32", np_rng("x")) is weight


def test_of_layers_that_differ_in_their_number_alone_the_last_is_called(
    decoder: Graph, tmp_path: Path
) -> None:
    prefill, _ = decoder.entry_points
    parameters = {
        item.name: np_rng(item.name).normal(size=item.type.shape)
        for item in decoder.parameters
    }
    case = make_case(decoder, prefill, 2, 5)
    inputs = entry_inputs(decoder, prefill, case)
    traced = traced_calls(decoder, load_oracles(decoder), parameters, prefill, inputs)
    attention = [call for call, _ in traced if call.name == "attn"]
    # One for each window: layer 2 stands for layer 0 too.
    assert sorted(call.scalars for call in attention) == [(1, 32, 0.5), (2, 3, 0.5)]
    # Written once, whichever of keys and values.
    kept = [call for call, _ in traced if call.instance.startswith("kv_cache")]
    assert [call.scalars for call in kept] == [(2,)]


def test_components_are_recorded_without_layers_between_and_without_logits() -> None:
    graph = read_manifest(ROOT / "models/gemma3-270m.yaml", ROOT).graph
    prefill = graph.entry_points[0]
    few = without_alike(prefill)
    # Local and global layers, the first and the last of each.
    names = "embed layer.0 layer.5 layer.16 layer.17 select head"
    assert [block.name for block in few.blocks] == names.split()
    instances = {use.instance for block in few.blocks for use in block.calls}
    assert instances == {use.instance for x in prefill.blocks for use in x.calls}
    (head,) = unread(few)
    assert prefill.blocks[-1].calls[-1].instance == head


def test_every_call_of_a_component_is_recorded(decoder: Graph, tmp_path: Path) -> None:
    parameters = {
        item.name: np_rng(item.name).normal(size=item.type.shape)
        for item in decoder.parameters
    }
    record_components(decoder, load_oracles(decoder), parameters, False, tmp_path)
    for instance in decoder.instances:
        recorded = Recorded(tmp_path / component_file(instance.name))
        calls = recorded.calls(ComponentCall)
        assert {call.entry_point for call in calls} <= {"prefill", "decode"}
        assert calls
        for call in calls:
            assert all(recorded.array(name).size for name in call.arrays if name)
