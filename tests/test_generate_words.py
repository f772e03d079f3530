"""Test the variables of `doit generate`: defaults, wrong values, wrong models."""

from __future__ import annotations

import pytest

from ingot.cli.generate_command import read_request
from ingot.cli.runnable_model import chosen
from ingot.errors import IngotError
from ingot.project.catalogue import read
from ingot.project.selection import select
from tests.project import ROOT


def test_the_default_is_greedy_with_128_tokens() -> None:
    request = read_request({"prompt": "once"})
    assert (request.prompt, request.tokens) == ("once", 128)
    assert request.sampling.greedy


@pytest.mark.parametrize("word", ["top_k=5", "top_p=0.5", "seed=3"])
def test_a_variable_that_only_sampling_needs_turns_it_on(word: str) -> None:
    name, _, value = word.partition("=")
    sampling = read_request({"prompt": "once", name: value}).sampling
    assert sampling.temperature == 1


def test_temperature_0_stays_greedy() -> None:
    words = {"prompt": "once", "temperature": "0", "top_k": "5", "seed": "1"}
    assert read_request(words).sampling.greedy


def test_all_variables_together() -> None:
    words = {"temperature": "0.7", "top_k": "40", "top_p": "0.9", "seed": "0"}
    sampling = read_request({"prompt": "", "tokens": "3", **words}).sampling
    assert (sampling.temperature, sampling.top_k) == (0.7, 40)
    assert (sampling.top_p, sampling.seed) == (0.9, 0)


def test_sampling_without_a_seed_differs_each_time() -> None:
    words = {"prompt": "once", "temperature": "1"}
    assert len({read_request(words).sampling.seed for _ in range(4)}) > 1


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("tokens=0", "tokens=0: expected an integer, 1 or more"),
        ("tokens=-5", "tokens=-5: expected an integer, 1 or more"),
        ("tokens=many", "tokens=many: expected an integer, 1 or more"),
        ("tokens=", "tokens=: expected an integer, 1 or more"),
        ("top_k=0", "top_k=0: expected an integer, 1 or more"),
        ("top_k=1.5", "top_k=1.5: expected an integer, 1 or more"),
        ("seed=-1", "seed=-1: expected an integer, 0 or more"),
        ("temperature=-1", "temperature=-1: expected a number, 0 or more"),
        ("temperature=hot", "temperature=hot: expected a number, 0 or more"),
        ("temperature=nan", "temperature=nan: expected a number, 0 or more"),
        ("temperature=inf", "temperature=inf: expected a number, 0 or more"),
        ("top_p=2", "top_p=2: expected a number, above 0 and at most 1"),
        ("top_p=0", "top_p=0: expected a number, above 0 and at most 1"),
    ],
)
def test_a_wrong_value_is_an_error(word: str, says: str) -> None:
    name, _, value = word.partition("=")
    with pytest.raises(IngotError) as caught:
        read_request({"prompt": "once", name: value})
    assert str(caught.value) == says


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"ids": "1,2"}, 'generate needs prompt="...", not both'),
        ({"template": "yes"}, "template=yes: expected own or none"),
    ],
)
def test_words_that_contradict_each_other_are_an_error(
    words: dict[str, str], says: str
) -> None:
    with pytest.raises(IngotError) as caught:
        read_request({"prompt": "once", **words})
    assert str(caught.value) == says


@pytest.mark.parametrize("ids", ["", "1,,2", "1 2", "-1", "x"])
def test_ids_are_numbers_with_commas_between(ids: str) -> None:
    with pytest.raises(IngotError) as caught:
        read_request({"ids": ids})
    text = f"ids={ids}: expected token ids with commas between: 1,2,3"
    assert str(caught.value) == text


def test_ids_are_a_prompt() -> None:
    assert read_request({"ids": "1, 2,3"}).ids == (1, 2, 3)


def test_a_prompt_is_needed() -> None:
    with pytest.raises(IngotError) as caught:
        read_request({"tokens": "3"})
    assert str(caught.value) == 'generate needs prompt="...", or ids=1,2,3'


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            {"model": "all-minilm-l6-v2", "target": "aarch64"},
            "all-minilm-l6-v2@aarch64: not a decoder; expected the entry points "
            "prefill and decode, found encode",
        ),
        (
            {"model": "clm-60m,gemma3-270m", "target": "aarch64"},
            "generate needs one model, found clm-60m, gemma3-270m",
        ),
        (
            {"model": "clm-60m", "target": "aarch64,vulkan"},
            "generate needs one target, found aarch64, vulkan",
        ),
    ],
)
def test_a_model_that_cannot_generate_is_an_error_before_a_build(
    words: dict[str, str], says: str
) -> None:
    catalogue = read(ROOT)
    with pytest.raises(IngotError) as caught:
        chosen("generate", catalogue, select(catalogue, words))
    assert str(caught.value) == says


def test_one_decoder_on_one_target_is_chosen() -> None:
    catalogue = read(ROOT)
    words = {"model": "clm-60m", "target": "aarch64"}
    found = chosen("generate", catalogue, select(catalogue, words))
    assert found.name == "clm-60m@aarch64"
