"""Test how the sampler chooses the next token."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingot.bundles import sampler
from ingot.bundles.sampler import Sampler, Sampling, largest, narrow
from ingot.errors import IngotError

# Probabilities 0.5, 0.25, 0.125, 0.125 of ids 1, 3, 0, 2.
LOGITS = np.log(np.array([0.125, 0.5, 0.125, 0.25], np.float32))


def drawn(sampling: Sampling, count: int = 4000) -> np.ndarray:
    """The share of each id among many draws."""
    made = Sampler(sampling, np.arange(4))
    return np.bincount([made.pick(LOGITS) for _ in range(count)], minlength=4) / count


def test_without_options_the_most_likely_token_is_taken() -> None:
    assert Sampler(Sampling(), np.arange(4)).pick(LOGITS) == 1


def test_of_equal_logits_the_lowest_id_is_taken() -> None:
    logits = np.array([0, 2, 1, 2], np.float32)
    assert Sampler(Sampling(), np.arange(4)).pick(logits) == 1


def test_temperature_0_is_greedy_whatever_else_is_asked() -> None:
    asked = Sampling(temperature=0, top_k=3, top_p=0.5, seed=7)
    assert {Sampler(asked, np.arange(4)).pick(LOGITS) for _ in range(50)} == {1}


def test_temperature_1_draws_by_probability() -> None:
    shares = drawn(Sampling(temperature=1, seed=1))
    # 4 standard deviations of 4,000 draws.
    assert shares == pytest.approx([0.125, 0.5, 0.125, 0.25], abs=0.032)


def test_a_temperature_divides_the_logits() -> None:
    shares = drawn(Sampling(temperature=0.5, seed=2))
    squares = np.array([1, 16, 1, 4]) / 22
    assert shares == pytest.approx(squares, abs=0.032)


def test_a_temperature_near_0_is_greedy_and_overflows_nowhere() -> None:
    # The least float among them: what is divided by it is endless.
    with np.errstate(over="raise", invalid="raise"):
        for temperature in (1e-30, 1e-310, 5e-324):
            assert drawn(Sampling(temperature=temperature), 100)[1] == 1


def test_top_k_alone_keeps_the_most_likely() -> None:
    shares = drawn(Sampling(temperature=1, top_k=2, seed=3))
    assert shares == pytest.approx([0, 2 / 3, 0, 1 / 3], abs=0.032)


def test_top_k_of_1_is_greedy() -> None:
    assert drawn(Sampling(temperature=1, top_k=1), 100)[1] == 1


def test_top_k_keeps_the_lower_ids_of_equal_ones() -> None:
    shares = drawn(Sampling(temperature=1, top_k=3, seed=4))
    assert shares[0] > 0
    assert shares[2] == 0


def test_a_top_k_beyond_the_vocabulary_keeps_all() -> None:
    assert (drawn(Sampling(temperature=1, top_k=9, seed=5)) > 0).all()


@pytest.mark.parametrize(
    ("top_p", "ids"),
    [(0.4, {1}), (0.5, {1}), (0.6, {1, 3}), (0.75, {1, 3}), (0.8, {1, 3, 0})],
)
def test_top_p_alone_keeps_the_fewest_that_reach_it(
    top_p: float, ids: set[int]
) -> None:
    # float64, so that the sums are exact.
    exact = np.log(np.array([0.125, 0.5, 0.125, 0.25])) - np.log(0.5)
    kept, _ = narrow(exact, Sampling(temperature=1, top_p=top_p - 1e-9))
    assert set(kept.tolist()) == ids


def test_top_p_counts_only_what_top_k_left() -> None:
    # Of ids 1 and 3, renormalised to 2/3 and 1/3, 0.6 is reached by id 1.
    assert drawn(Sampling(temperature=1, top_k=2, top_p=0.6), 200)[1] == 1
    shares = drawn(Sampling(temperature=1, top_k=2, top_p=0.7, seed=6))
    assert shares == pytest.approx([0, 2 / 3, 0, 1 / 3], abs=0.032)


def test_temperature_comes_before_top_p() -> None:
    # Squared and renormalised, id 1 has 16/22 of the probability.
    assert drawn(Sampling(temperature=0.5, top_p=0.7), 200)[1] == 1


def test_one_seed_gives_the_same_tokens_and_another_gives_others() -> None:
    def tokens(seed: int) -> list[int]:
        made = Sampler(Sampling(temperature=1, top_k=3, top_p=0.99, seed=seed), ids)
        return [made.pick(LOGITS) for _ in range(64)]

    ids = np.arange(4)
    assert tokens(11) == tokens(11)
    assert tokens(11) != tokens(12)


def test_unknown_ids_are_never_drawn() -> None:
    known = np.array([0, 2])
    assert Sampler(Sampling(), known).pick(LOGITS) == 0
    made = Sampler(Sampling(temperature=5, seed=8), known)
    assert {made.pick(LOGITS) for _ in range(200)} == {0, 2}


def test_an_unknown_id_may_have_any_logit() -> None:
    logits = np.array([0, np.nan, 1, np.inf], np.float32)
    assert Sampler(Sampling(), np.array([0, 2])).pick(logits) == 2


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_logits_that_are_no_numbers_are_an_error(wrong: float) -> None:
    with pytest.raises(IngotError) as caught:
        Sampler(Sampling(), np.arange(2)).pick(np.array([0, wrong], np.float32))
    assert str(caught.value) == (
        "the model's logits are not finite numbers\n"
        "  its weights, or its target's code, are broken: see `doit check`"
    )


@given(
    values=st.lists(st.integers(-3, 3), min_size=1, max_size=40),
    top_k=st.none() | st.integers(1, 50),
    top_p=st.floats(0.01, 1),
    first=st.integers(1, 9),
)
def test_narrowing_is_what_a_whole_sort_gives(
    values: list[int], top_k: int | None, top_p: float, first: int
) -> None:
    logits = np.array(values, np.float32)
    scaled = np.array(values, np.float64) - max(values)
    order = sorted(range(len(values)), key=lambda place: (-values[place], place))
    order = order[:top_k]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampler, "FIRST_SORTED", first)
        kept, weights = narrow(logits, Sampling(1.0, top_k, top_p))
    assert sorted(kept.tolist()) == sorted(order[: len(kept)])
    assert weights == pytest.approx(np.exp(scaled[kept]))
    total = np.exp(scaled[order]).sum()
    assert weights.sum() >= top_p * total * (1 - 1e-12)
    if top_p < 1:
        assert weights[:-1].sum() < top_p * total * (1 + 1e-12)


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=30), st.integers(1, 40))
def test_the_largest_are_those_of_a_stable_sort(values: list[int], count: int) -> None:
    order = sorted(range(len(values)), key=lambda place: (-values[place], place))
    assert largest(np.array(values), count).tolist() == order[:count]
