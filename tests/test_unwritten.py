"""Test that what a cache holds where nothing was written reaches no result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ingot.model.manifest import read_manifest
from ingot.model.oracle import load_oracles, run_entry_point
from ingot.model.target import read_target
from ingot.runtime.calls import call
from ingot.runtime.invoke import Call
from ingot.stages.link import plan_link
from tests.built import Built, build, lowered, random_weights
from tests.project import ROOT, with_architecture

N_EMBD, N_EMBD_KV, BLOCK, CTX = 128, 64, 8, 40
TARGETS = [
    "x86_64",
    pytest.param("aarch64", marks=[pytest.mark.aarch64, pytest.mark.nightly]),
    pytest.param("vulkan-llvmpipe", marks=[pytest.mark.vulkan, pytest.mark.nightly]),
]
# Of two sequences, of which the second is shorter; the rest is not written.
TABLE = [[1, 2, 3, 4, 0], [5, 6, 0, 0, 0]]


@pytest.fixture(scope="module", params=TARGETS)
def built(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Built:
    folder = tmp_path_factory.mktemp("unwritten")
    target = read_target(ROOT / f"targets/{request.param}.yaml", ROOT)
    manifest = read_manifest(with_architecture("unwritten", folder), folder)
    graph = lowered(manifest, target)
    weights = random_weights(graph)
    module = build(graph, target, plan_link(graph), weights, folder)
    return Built(graph, weights, target.runner, module)


def inputs(name: str, unwritten: tuple[float, ...]) -> tuple[Any, ...]:
    """Return the inputs of an entry point, whose caches are written up to start."""
    rest = np.resize(np.array(unwritten, np.float32), N_EMBD_KV)
    rng = np.random.default_rng(4)
    seq = 1 if name.endswith("decode") else 9
    start = np.array([17, 3], np.int32)
    x = rng.standard_normal((2, seq, N_EMBD), np.float32)
    kv = rng.standard_normal((2, seq, N_EMBD_KV), np.float32)
    dense = rng.standard_normal((2, 1, 2, CTX, N_EMBD_KV), np.float32)
    for sequence, end in enumerate(start):
        dense[:, :, sequence, end:] = rest
    if name.startswith("dense"):
        return (x, kv, start, *dense)
    pool = np.empty((2, 1, 8, BLOCK, N_EMBD_KV), np.float32)
    pool[:] = rest
    for sequence, blocks in enumerate(TABLE):
        for place, block in enumerate(blocks):
            if block:
                rows = slice(place * BLOCK, (place + 1) * BLOCK)
                pool[:, 0, block] = dense[:, 0, sequence, rows]
    return (x, kv, start, np.array(TABLE, np.int32), *pool)


@pytest.mark.parametrize(
    "name", ["dense_prefill", "dense_decode", "paged_prefill", "paged_decode"]
)
def test_what_was_never_written_reaches_no_result(built: Built, name: str) -> None:
    def found(given: tuple[Any, ...]) -> Any:
        return call(built.runner, built.module, Call(name, given, (), 3))[0]

    entry = next(x for x in built.graph.entry_points if x.name == name)
    oracles = load_oracles(built.graph)
    given = inputs(name, (np.nan, np.inf, -np.inf, 3e38))
    exact, _ = run_entry_point(built.graph, oracles, entry, given, built.weights)
    result = found(given)
    np.testing.assert_array_equal(result, found(inputs(name, (0.0,))))
    np.testing.assert_allclose(result, exact[0], atol=2e-5)
