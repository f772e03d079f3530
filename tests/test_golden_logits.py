"""Test that golden logits find typical errors of a decoder, and accept a good one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingot.checks import oracle_decoder
from ingot.checks.compare import EXACT, Row
from ingot.checks.golden_files import Expected, GoldenLogits
from ingot.checks.golden_logits import (
    choose,
    forced_rows,
    greedy_items,
    logits_items,
    of_range,
    rows_a_call,
)
from ingot.checks.levels import Subject
from ingot.errors import IngotError
from ingot.model.graph import DynamicDim, EntryPoint, Port
from ingot.model.runner import Runner
from ingot.model.shapes import TensorType
from ingot.model.tolerance import Tolerance
from ingot.runtime.invoke import Call, Module
from tests import tiny_model

N_VOCAB = 300
LENGTHS = (1, 2, 7, 16, 33, 64, 90)
NATIVE, LLVMPIPE = Runner("local-task"), Runner("vulkan", emulated=True)
QEMU = Runner("local-sync", prefix=("qemu-aarch64",), emulated=True)

Array = Any


def following(tokens: list[int]) -> Array:
    """Logits after the tokens; each depends on every token and its position."""
    value = sum((place + 1) * (token + 1) for place, token in enumerate(tokens))
    return np.sin(value + 1.7 * np.arange(N_VOCAB)).astype(np.float32)


def draw(seed: int, count: int) -> list[int]:
    drawn: list[int] = np.random.default_rng(seed).integers(1, N_VOCAB, count).tolist()
    return drawn


def golden(window: int | None = 80) -> GoldenLogits:
    """What an independent implementation of `following` gives."""
    ids = np.arange(0, N_VOCAB, 3, dtype=np.int32)

    def expected(tokens: list[int]) -> Expected:
        logits = following(tokens)
        return Expected(logits[ids], float(np.ptp(logits)), int(logits.argmax()))

    prompts = [draw(length, length) for length in LENGTHS]
    greedy = draw(0, 16)
    while len(greedy) < 80:
        greedy.append(int(following(greedy).argmax()))
    return GoldenLogits(
        ids=ids,
        prompts=tuple(map(tuple, prompts)),
        expected=tuple(map(expected, prompts)),
        greedy=tuple(greedy),
        prompt_length=16,
        steps=tuple((i, expected(greedy[: 16 + i])) for i in (0, 1, 2, 4, 8, 63)),
        window=window,
    )


def entry_point(name: str, roles: tuple[str, ...]) -> EntryPoint:
    ids = TensorType(("batch", "seq"), "i32")
    cache = TensorType((1, "batch", "ctx", 1), "f32")
    logits = TensorType(("batch", 1, N_VOCAB), "f32")
    one = TensorType(("batch",), "i32")
    return EntryPoint(
        name,
        (
            *(Port(r, ids if r == "tokens" else one, r, r) for r in roles),
            Port("cache", cache, "cache", "cache"),
        ),
        (),
        (
            Port("logits", logits, "logits", "logits"),
            Port("cache", cache, "cache", "cache", updates="cache"),
        ),
    )


GRAPH = replace(
    tiny_model.GRAPH,
    model="toy",
    dynamic=(DynamicDim("batch", 1, 64),),
    instances=(),
    parameters=(),
    entry_points=(
        entry_point("prefill", ("tokens", "start", "last_index")),
        entry_point("decode", ("tokens", "start")),
    ),
)


class Toy:
    """A target that computes `following` with a cache of tokens, or has a defect."""

    def __init__(self, defect: str = "") -> None:
        self.defect = defect
        self.calls: list[Call] = []

    def __call__(self, runner: Runner, module: Module, what: Call) -> tuple[Array, ...]:
        self.calls.append(what)
        tokens, start, *rest, given = what.tensors
        cache = given.copy()
        last = rest[0] if rest else np.zeros_like(start)
        if self.defect == "padding is read":
            last = np.full_like(start, tokens.shape[1] - 1)
        rows = []
        for row in range(len(tokens)):
            first, stop = start[row], start[row] + tokens.shape[1]
            if self.defect != "cache is not written" or what.function == "prefill":
                cache[0, row, first:stop, 0] = tokens[row]
            seen = first + last[row] + 1
            if self.defect == "what comes later is seen":
                seen = cache.shape[2]
            held = cache[0, row, :seen, 0].astype(int).tolist()
            rows.append(following(held)[None])
        return np.stack(rows), cache


def rows_of(
    monkeypatch: pytest.MonkeyPatch,
    toy: Toy,
    runner: Runner = NATIVE,
    tokens: Tolerance = EXACT,
) -> list[Row]:
    monkeypatch.setattr(oracle_decoder, "call", toy)
    subject = Subject(
        graph=GRAPH,
        oracles={},
        parameters={},
        runner=runner,
        model=Module(Path("model.vmfb")),
        tolerances={
            "golden": Tolerance(2e-4, None, "t.yaml:1", of_range=True),
            "tokens": tokens,
        },
    )
    return [
        row
        for item in [*logits_items(subject, golden()), *greedy_items(subject, golden())]
        for row in item()
    ]


def test_a_right_decoder_passes_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    toy = Toy()
    rows = rows_of(monkeypatch, toy)
    assert all(row.passed for row in rows)
    assert {row.place.level for row in rows} == {"golden", "tokens"}
    # Prompts alone and four together, each with its best token; greedy at once with 6
    # steps known, and 9 one by one with 5 known.
    assert len(rows) == 2 * len(LENGTHS) + 2 * 4 + (1 + 6) + (1 + 5)
    batches = [len(c.tensors[0]) for c in toy.calls if c.function == "decode"]
    assert batches == [64, *[1] * 8]
    assert all(row.max_abs_error == 0 for row in rows)


@pytest.mark.parametrize(
    ("defect", "wrong", "right"),
    [
        ("padding is read", {"prompt 2", "prompt 3", "prompt 4"}, {"prompt 6"}),
        ("cache is not written", {"9 greedy tokens one by one"}, {"prompt 6"}),
        ("what comes later is seen", {"64 greedy tokens at once"}, set()),
    ],
)
def test_a_typical_defect_is_found(
    monkeypatch: pytest.MonkeyPatch, defect: str, wrong: set[str], right: set[str]
) -> None:
    rows = rows_of(monkeypatch, Toy(defect))
    failed = {row.place.name for row in rows if not row.passed}
    assert wrong <= failed
    assert not right & failed


@pytest.mark.parametrize(
    ("share", "wrong"), [(0.0, True), (0.009, True), (0.011, False)]
)
def test_the_best_token_may_lie_as_far_below_as_rounding_costs(
    share: float, wrong: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = following

    def rounded(tokens: list[int]) -> Array:
        # Another token is best, by 1 % of the range.
        logits = exact(tokens)
        logits[(logits.argmax() + 1) % N_VOCAB] = logits.max() + 0.01 * np.ptp(logits)
        return logits

    # What rounds is the target; the file was made before.
    judged = golden()
    monkeypatch.setitem(globals(), "golden", lambda: judged)
    monkeypatch.setitem(globals(), "following", rounded)
    tolerance = Tolerance(share, None, "rounded", of_range=True)
    rows = rows_of(monkeypatch, Toy(), tokens=tolerance)
    found = {row.passed for row in rows if row.place.level == "tokens"}
    assert found == {not wrong}


def test_an_emulated_target_gets_less(monkeypatch: pytest.MonkeyPatch) -> None:
    toy = Toy()
    rows = rows_of(monkeypatch, toy, QEMU)
    assert all(row.passed for row in rows)
    # A prompt alone, two in a padded batch, and one token by token.
    shapes = [(call.function, call.tensors[0].shape) for call in toy.calls]
    assert shapes == [
        ("prefill", (1, 7)),
        ("prefill", (2, 2)),
        ("prefill", (1, 1)),
        ("decode", (1, 1)),
    ]
    assert rows[-1].place.name == "prompt 1 token by token"


@pytest.mark.parametrize(
    ("runner", "alone", "together"),
    [
        (NATIVE, (90, 64, 33, 16, 7, 2, 1), (64, 33, 16, 7)),
        (LLVMPIPE, (90, 7), (2, 1)),
        (QEMU, (7,), (2, 1)),
    ],
)
def test_prompts_are_chosen_by_what_the_target_can_do(
    runner: Runner, alone: tuple[int, ...], together: tuple[int, ...]
) -> None:
    chosen = choose(golden(), runner)
    assert tuple(LENGTHS[index] for index in chosen[0]) == alone
    assert tuple(LENGTHS[index] for index in chosen[1]) == together


def test_a_row_decodes_the_token_before_the_one_it_makes() -> None:
    judged = golden()
    rows = forced_rows(judged, 64)
    assert len(rows) == 64
    assert rows[0] == (judged.greedy[15], 15)
    assert rows[-1] == (judged.greedy[78], 78)
    assert forced_rows(judged, 8) == rows[:8]
    for token, position in rows:
        assert judged.greedy[position] == token


def test_large_caches_are_decoded_in_several_calls() -> None:
    small, large = np.zeros(10, np.float32), np.zeros(1 << 24, np.float32)
    assert rows_a_call(GRAPH, {"k": small}) == 64
    assert rows_a_call(GRAPH, {"k": large, "v": large}) == 4


def test_a_share_is_of_the_range_of_the_whole_vocabulary() -> None:
    expected = Expected(np.zeros(2), 8.0, 0)
    share = Tolerance(2e-4, 0.9, "t.yaml:1", of_range=True)
    assert of_range(share, expected) == Tolerance(1.6e-3, 0.9, "t.yaml:1")
    plain = Tolerance(2e-4, None, "t.yaml:1")
    assert of_range(plain, expected) == plain


def test_inputs_are_padded_with_the_last_token_named() -> None:
    given = oracle_decoder.Given(((5, 6, 7), (8,)), (0, 4), ctx=9)
    tokens, start, last, cache = oracle_decoder.decoder_inputs(
        GRAPH.entry_points[0], given, {}
    )
    assert tokens.tolist() == [[5, 6, 7], [8, 0, 0]]
    assert (start.tolist(), last.tolist()) == ([0, 4], [2, 0])
    assert (tokens.dtype, start.dtype, last.dtype) == (np.int32,) * 3
    assert (cache.shape, cache.dtype, cache.any()) == ((1, 2, 9, 1), np.float32, False)
    assert given.sizes() == (("batch", 2), ("seq", 3), ("ctx", 9), ("padded", 2))


def test_an_input_without_a_rule_is_an_error() -> None:
    entry = entry_point("prefill", ("tokens", "mask"))
    with pytest.raises(IngotError, match=r"prefill\.mask: no rule for role 'mask'"):
        oracle_decoder.decoder_inputs(entry, oracle_decoder.Given(((1,),), (0,), 4), {})
