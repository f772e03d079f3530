"""Test that an ablation finds the block and the kind of matrix that add the error."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingot.ablation import ablate
from ingot.ablation.experiment import Subject, measure
from ingot.ablation.measure import agreement, error
from ingot.ablation.modes import (
    MODES,
    Mode,
    kind,
    matrices,
    matrix_schemes,
    modes,
    read_modes,
    read_scheme,
)
from ingot.ablation.prompt import prompt, reading_tokens
from ingot.errors import IngotError
from ingot.model.oracle import run_entry_point
from tests import two_norms
from tests.toy_ablation import TOKENS, reported, toy_subject


@pytest.fixture(scope="module")
def subject(tmp_path_factory: pytest.TempPathFactory) -> Subject:
    return toy_subject(tmp_path_factory.mktemp("ablate"))


def test_errors_are_hand_worked_numbers() -> None:
    found = error(np.array([[3.0, 4.0]]), np.array([[3.0, 5.0]]))
    assert (found.max_abs, found.mse, found.close) == (1.0, 0.5, (0.5, 0.5))
    assert found.cosine == pytest.approx(29 / (5 * math.sqrt(34)))
    assert found.relative == pytest.approx(0.2)  # sqrt(0.5) / sqrt(12.5)


def test_close_is_relative_and_absolute() -> None:
    exact = np.array([[0.0, 10.0, 10.0, 0.0]])
    found = error(exact, exact + np.array([[0.01, 0.1, 0.12, 0.0009]]))
    assert found.close == (0.75, 0.25)


def test_what_is_not_finite_is_an_infinite_error() -> None:
    found = error(np.array([[1.0, 2.0]]), np.array([[math.nan, 2.0]]))
    assert (found.max_abs, found.mse, found.relative) == (math.inf,) * 3
    assert found.close == (0.5, 0.5)


def test_agreement_is_a_hand_worked_divergence() -> None:
    exact = np.array([[[0.0, math.log(3.0)]], [[1.0, 0.0]]])
    got = np.array([[[0.0, 0.0]], [[1.0, 0.0]]])
    found = agreement(exact, got)
    assert found.top_1 == 0.5
    of_first = 0.25 * math.log(0.25 / 0.5) + 0.75 * math.log(0.75 / 0.5)
    assert found.kl == pytest.approx(of_first / 2)


def test_nothing_rounded_is_no_error(subject: Subject) -> None:
    found = measure(subject, (Mode("none", {}),))
    assert {(row.error.relative, row.own_error) for row in found.rows} == {(0.0, 0.0)}
    assert [row.block for row in found.rows] == [b.name for b in subject.entry.blocks]
    assert found.agreements["none"].top_1 == 1


def test_the_logits_of_every_position_are_compared(subject: Subject) -> None:
    seen: list[Any] = []

    def keep(value: Any) -> Any:
        seen.append(value)
        return value

    measure(subject, (Mode("seen", {}, keep),), alone=False)
    ports = [port.role for port in subject.entry.inputs]
    assert seen[-1].shape[:2] == (TOKENS, 1)
    for last in range(TOKENS):
        inputs = list(subject.inputs)
        inputs[ports.index("last_index")] = np.array([last], np.int32)
        outputs, _ = run_entry_point(
            subject.graph,
            subject.oracles,
            subject.entry,
            tuple(inputs),
            subject.parameters,
        )
        np.testing.assert_allclose(seen[-1][last], outputs[0][0], rtol=1e-12)


def test_a_coarse_matrix_makes_its_block_the_one_that_is_named(
    subject: Subject,
) -> None:
    planted = Mode("planted", {"blk.1.attn_v.weight": "i4_block32"})
    found = measure(subject, (planted,))
    own = {row.block: row.own_error for row in found.rows}
    grown = {row.block: row.error.relative for row in found.rows}
    assert found.most_error("planted").block == "layer.1"
    assert {block for block, made in own.items() if made} == {"layer.1"}
    assert grown["layer.0"] == 0
    assert min(grown["layer.1"], grown["layer.2"], grown["head"]) > 1e-3


def test_a_coarse_kind_of_matrix_is_the_one_that_is_named(subject: Subject) -> None:
    schemes = dict.fromkeys(matrices(subject.graph), "bf16")
    coarse = {name: "i4_block32" for name in schemes if kind(name) == "attn_v"}
    report = reported(subject, ("weights",), schemes | coarse)
    worst = report.worst_kind()
    assert worst
    assert worst.mode == "attn_v"
    assert list(report.kinds) == [
        "token_embd",
        "attn_q",
        "attn_k",
        "attn_v",
        "attn_output",
    ]


def test_each_mode_rounds_what_it_says(subject: Subject) -> None:
    schemes = dict.fromkeys(matrices(subject.graph), "i8")
    found = measure(subject, modes(tuple(MODES), schemes))
    size = {name: found.last(name).error.relative for name in MODES}
    # Unit round-off is 2^-24, 2^-9 and 2^-4: 3 digits of E4M3 behind the point.
    assert 1e-9 < size["f32"] < 1e-6
    assert 1e-4 < size["activations"] < 2e-2
    assert size["f32"] < size["activations"] < size["both"] < size["hardware"]
    assert size["weights"] == pytest.approx(size["both"], rel=0.5)
    embedded = {row.mode: row for row in found.rows if row.block == "embed"}
    assert embedded["f32"].error.max_abs == 0  # rows of an f32 table
    assert 2.0**-4 > embedded["hardware"].error.relative > 2.0**-7


def test_vectors_and_tables_stay(subject: Subject) -> None:
    names = matrices(subject.graph)
    assert "token_embd.weight" in names
    assert not [name for name in names if "norm" in name or "rope" in name]
    value = np.ones((3, 4), np.float32) / 3
    assert Mode("m", {"w": "i8"}).parameter("v", value) is value


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("blk.3.attn_q.weight", "attn_q"),
        ("blk.10.ffn_down.weight", "ffn_down"),
        ("token_embd.weight", "token_embd"),
        ("output.weight", "output"),
    ],
)
def test_a_matrix_is_of_a_kind(name: str, expected: str) -> None:
    assert kind(name) == expected


def test_unasked_matrices_are_rounded_as_they_are_stored() -> None:
    stored = {"a": "f32", "b": "bf16"}
    assert matrix_schemes(("a", "b"), stored.__getitem__, None) == stored
    assert matrix_schemes(("a",), stored.__getitem__, None) == {"a": "i8"}
    assert matrix_schemes(("b",), stored.__getitem__, "mxfp8") == {"b": "mxfp8"}


def test_modes_come_in_their_own_order() -> None:
    assert read_modes(None) == tuple(MODES)
    assert read_modes("hardware, f32") == ("f32", "hardware")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: read_modes("weigths"),
            "modes=weigths: no mode named 'weigths'\n  did you mean 'weights'?",
        ),
        (
            lambda: read_scheme("mxfp4"),
            "weights=mxfp4: no scheme named 'mxfp4'\n  did you mean 'mxfp8'?",
        ),
        (
            lambda: read_scheme("odd"),
            "weights=odd: no scheme named 'odd'\n  known schemes: bf16, f16, "
            "i4_block32, i4_block32_hqq, i8, i8_block32, mxfp8, q4_0, q4_1, q4_k, q5_0,"
            " q6_k, q8_0",
        ),
        (
            lambda: reading_tokens(two_norms.GRAPH),
            "two-norms: no entry point reads a prompt, found run\n  ablate needs one "
            "with an input of role 'tokens' and the dim 'seq'",
        ),
    ],
)
def test_what_is_wrong_is_said(call: Any, message: str) -> None:
    with pytest.raises(IngotError) as caught:
        call()
    assert str(caught.value) == message


@pytest.mark.parametrize("tokens", [0, 25])
def test_a_prompt_that_the_model_does_not_take_is_refused(
    subject: Subject, tokens: int
) -> None:
    with pytest.raises(IngotError) as caught:
        prompt(subject.graph, subject.entry, tokens, 0)
    assert str(caught.value) == (f"tokens={tokens}: expected 1 to 24, for toy-decoder")


def test_a_seed_makes_the_prompt(subject: Subject) -> None:
    def tokens(seed: int) -> list[int]:
        first = prompt(subject.graph, subject.entry, TOKENS, seed)[0]
        return [int(number) for number in first[0]]

    assert tokens(1) == tokens(1) != tokens(2)


def test_the_largest_error_of_a_check_is_read(tmp_path: Path) -> None:
    path = tmp_path / "check.json"
    assert ablate.checked(path, "prefill") == {}
    row = {"level": "propagated", "entry_point": "prefill", "name": "head"}
    rows = [row | {"max_abs_error": size} for size in (0.25, 0.5, 0.125)]
    rows.append(rows[1] | {"entry_point": "decode", "max_abs_error": 9})
    rows.append(rows[1] | {"name": "embed", "max_abs_error": "inf"})
    path.write_text(json.dumps({"rows": rows}))
    assert ablate.checked(path, "prefill") == {"head": 0.5, "embed": math.inf}
    path.write_text("{")
    assert ablate.checked(path, "prefill") == {}
