"""Test the parts of a mixture's layer, in all variants, against papers' formulas.

`doit check` judges them by the components' oracles one after the other; the formulas
here share nothing with these. Nightly, on all kinds of targets, and checked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ingot.model.manifest import Manifest, read_manifest
from ingot.model.target import Target, read_target
from ingot.runtime.calls import call
from ingot.runtime.invoke import Call, Module
from ingot.stages.link import plan_link
from oracles.blocks import attention_block, moe_ffn_block
from tests.built import build, lowered, random_weights
from tests.project import ROOT, Project, builds

pytestmark = builds("attention-block", "moe-ffn-block")

# Matrices are packed for one, and as they are for the other.
VULKAN = pytest.param(
    "vulkan-llvmpipe", marks=[pytest.mark.vulkan, pytest.mark.nightly]
)
TARGETS = ["x86_64", VULKAN]
# f32 in sums of up to n_ff products and softmaxes; 4e-7 to 8e-7 is what is found.
CLOSE: Any = {"rtol": 0, "atol": 5e-6}
ATTENTION = read_manifest(ROOT / "models/attention-block.yaml", ROOT)
EXPERTS = read_manifest(ROOT / "models/moe-ffn-block.yaml", ROOT)
# Tokens of each sequence: those of prefill, then those of decode.
LENGTHS = ((17, 3), (4, 3), (33, 3))
Run = Callable[..., tuple[Any, ...]]


def plain_weights(manifest: Manifest) -> dict[str, Any]:
    """Return random weights, as a checkpoint has them."""
    return random_weights(manifest.graph)


def packed(manifest: Manifest, target: Target) -> dict[str, Any]:
    """Return the same weights as the target's layout stores them."""
    values, found = plain_weights(manifest), {}
    for item in lowered(manifest, target).parameters:
        if not item.packing:
            found[item.name] = values[item.name]
            continue
        value, tile_n = values[item.packing.matrix], item.packing.tile_n
        *outer, rows, columns = value.shape
        tiles = value.reshape(*outer, rows // tile_n, tile_n, columns)
        shape = tuple(map(int, item.type.shape))
        found[item.name] = np.moveaxis(tiles, -2, -1).reshape(shape)
    return found


def runner(manifest: Manifest, name: str, folder: Any) -> Run:
    """Return what calls the entry points of a model that is compiled for a target."""
    target = read_target(ROOT / f"targets/{name}.yaml", ROOT)
    graph = lowered(manifest, target)
    weights = packed(manifest, target)
    module: Module = build(graph, target, plan_link(graph), weights, folder)
    results = {entry.name: len(entry.outputs) for entry in graph.entry_points}

    def run(entry: str, *tensors: Any) -> tuple[Any, ...]:
        return call(target.runner, module, Call(entry, tensors, (), results[entry]))

    return run


@pytest.fixture(scope="module", params=TARGETS)
def attention(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Run:
    return runner(ATTENTION, request.param, tmp_path_factory.mktemp("attention"))


@pytest.fixture(scope="module", params=TARGETS)
def experts(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Run:
    return runner(EXPERTS, request.param, tmp_path_factory.mktemp("experts"))


def hidden(*shape: int) -> Any:
    return np.random.default_rng(5).standard_normal(shape, dtype=np.float32)


def exact_attention(rows: Any, *, causal: bool, biases: bool) -> Any:
    """Return what the formula makes of one sequence."""
    dims = dict(ATTENTION.dims)
    return attention_block(
        rows,
        plain_weights(ATTENTION),
        (dims["n_head"], dims["n_head_kv"]),
        dict(ATTENTION.hyperparameters),
        causal=causal,
        biases=biases,
    )


@pytest.mark.parametrize("biases", [False, True], ids=["plain", "biases"])
def test_attention_over_whole_sequences_is_its_formula(
    attention: Run, biases: bool
) -> None:
    x, lengths = hidden(3, 19, 64), (19, 1, 12)
    mask = (np.arange(19) < np.array(lengths)[:, None]).astype(np.int32)
    start = np.zeros(3, np.int32)
    (made,) = attention("full_bias" if biases else "full", x, mask, start)
    for row, y, length in zip(x, made, lengths, strict=True):
        expected = exact_attention(row[:length], causal=False, biases=biases)
        np.testing.assert_allclose(y[:length], expected, **CLOSE)


@pytest.mark.parametrize("biases", [False, True], ids=["plain", "biases"])
def test_attention_over_a_paged_cache_is_that_of_the_whole_sequence(
    attention: Run, biases: bool
) -> None:
    suffix = "_bias" if biases else ""
    longest = max(first for first, _ in LENGTHS)
    x = hidden(3, longest + 3, 64)
    table = 1 + np.random.default_rng(6).permutation(9).reshape(3, 3).astype(np.int32)
    start = np.zeros(3, np.int32)
    pools = [np.zeros((1, 10, 16, 32), np.float32) for _ in range(2)]
    # Behind the end of each is padding, which the next tokens overwrite.
    made, *pools = attention(f"prefill{suffix}", x[:, :longest], start, table, *pools)
    found = [[made[row, :first]] for row, (first, _) in enumerate(LENGTHS)]
    for step in range(3):
        places = np.array([first + step for first, _ in LENGTHS], np.int32)
        token = x[np.arange(3), places][:, None]
        made, *pools = attention(f"decode{suffix}", token, places, table, *pools)
        for row in range(3):
            found[row].append(made[row])
    for row, parts in enumerate(found):
        count = sum(LENGTHS[row])
        expected = exact_attention(x[row, :count], causal=True, biases=biases)
        np.testing.assert_allclose(np.concatenate(parts), expected, **CLOSE)


@pytest.mark.parametrize("shared", [False, True], ids=["routed", "shared"])
@pytest.mark.parametrize("routing", ["raw", "normalized", "chosen"])
def test_a_mixture_of_experts_is_its_formula(
    experts: Run, routing: str, shared: bool
) -> None:
    weights, used = plain_weights(EXPERTS), dict(EXPERTS.dims)["n_expert_used"]
    entry = f"{routing}_shared" if shared else routing
    for x in (hidden(2, 9, 64), hidden(1, 1, 64)):
        (made,) = experts(entry, x)
        for row, y in zip(x.reshape(-1, 64), made.reshape(-1, 64), strict=True):
            expected = moe_ffn_block(row, weights, used, routing=routing, shared=shared)
            np.testing.assert_allclose(y, expected, **CLOSE)


def test_no_two_variants_are_one() -> None:
    weights, used = plain_weights(EXPERTS), dict(EXPERTS.dims)["n_expert_used"]
    made = [
        moe_ffn_block(hidden(64), weights, used, routing=routing, shared=shared)
        for routing in ("raw", "normalized", "chosen")
        for shared in (False, True)
    ]
    # What Jiang et al. write is what Databricks and Mistral compute.
    np.testing.assert_allclose(made[2], made[4], rtol=1e-12)
    distinct = [made[place] for place in (0, 1, 2, 3)]
    for place, one in enumerate(distinct):
        assert all(np.abs(one - other).max() > 0.01 for other in distinct[:place])


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("model", ["attention-block", "moe-ffn-block"])
def test_the_parts_are_checked_alone_on_every_target(
    model: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    base = tmp_path_factory.mktemp("parts")
    project = Project.create(base / "checkout", models=(model,))
    run = project.doit("check", f"model={model}", "target=all")
    assert run.code == 0, run.err
