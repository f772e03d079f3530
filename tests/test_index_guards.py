"""Test that entry points reject inputs that components would use as wrong indices.

A component alone does not check them: tests/test_undefined.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ingot.errors import IngotError
from ingot.model.component import TensorFormal, parse_component, read_component
from ingot.model.manifest import read_manifest
from ingot.model.oracle import load_oracles, run_entry_point
from ingot.model.target import read_target
from ingot.model.yaml_nodes import format_errors
from ingot.runtime.calls import call
from ingot.runtime.invoke import Call
from ingot.runtime.session import is_native, open_session
from ingot.stages.link import plan_link
from tests.built import Built, build, lowered, random_weights
from tests.component_cases import COMPONENTS
from tests.project import ROOT, with_architecture

# Of two sequences; what follows the first one's last token is padding.
RIGHT = {
    "tokens": [[0, 23, 7], [5, 1, 2]],
    "start": [13, 0],
    "last": [1, 2],
    "block_table": [[1, 2, 3, 4], [5, 6, 7, 8]],
    "experts": [[[0, 4], [1, 2], [3, 3]], [[4, 0], [2, 1], [0, 0]]],
}
POOL = np.zeros((1, 9, 4, 16), np.float32)
WRONG = [
    ("tokens", (0, 0), 24, "tokens must be in [0, 24)"),
    ("tokens", (1, 2), -1, "tokens must be in [0, 24)"),
    ("tokens", (0, 2), 2**31 - 1, "tokens must be in [0, 24)"),
    ("start", (0,), 14, "start must be in [0, 16 - seq]"),
    ("start", (1,), -1, "start must be in [0, 16 - seq]"),
    ("last", (1,), 3, "last must be in [0, seq)"),
    ("block_table", (1, 3), 9, "block_table must be in [0, n_block)"),
    ("block_table", (0, 0), -1, "block_table must be in [0, n_block)"),
    ("experts", (0, 1, 1), 5, "experts must be in [0, 5)"),
    ("experts", (1, 2, 0), -(2**31), "experts must be in [0, 5)"),
]


TARGETS = [
    "x86_64",
    pytest.param("aarch64", marks=[pytest.mark.aarch64, pytest.mark.nightly]),
    pytest.param("vulkan-llvmpipe", marks=pytest.mark.vulkan),
]


@pytest.fixture(scope="module", params=TARGETS)
def built(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Built:
    folder = tmp_path_factory.mktemp("indices")
    target = read_target(ROOT / f"targets/{request.param}.yaml", ROOT)
    graph = lowered(read_manifest(with_architecture("indices", folder), folder), target)
    weights = random_weights(graph)
    module = build(graph, target, plan_link(graph), weights, folder)
    return Built(graph, weights, target.runner, module)


def called(built: Built, given: dict[str, Any]) -> Any:
    """Return what the entry point computes from an empty pool."""
    inputs = (*(np.array(value, np.int32) for value in given.values()), POOL)
    return call(built.runner, built.module, Call("run", inputs, (), 2))[0]


def test_an_entry_point_computes_with_the_indices_that_it_compared(
    built: Built,
) -> None:
    inputs = (*(np.array(value, np.int32) for value in RIGHT.values()), POOL.copy())
    entry, oracles = built.graph.entry_points[0], load_oracles(built.graph)
    expected, _ = run_entry_point(built.graph, oracles, entry, inputs, built.weights)
    np.testing.assert_allclose(called(built, RIGHT), expected[0], atol=1e-5)


@pytest.mark.parametrize(("name", "place", "value", "words"), WRONG)
def test_an_entry_point_says_which_input_is_out_of_range(
    built: Built, name: str, place: tuple[int, ...], value: int, words: str
) -> None:
    wrong = np.array(RIGHT[name])
    wrong[place] = value
    with pytest.raises(IngotError, match="does not run") as caught:
        called(built, {**RIGHT, name: wrong})
    assert words in caught.value.message


def test_a_rejected_call_leaves_the_cache_as_it_was(built: Built) -> None:
    if not is_native(built.runner):
        pytest.skip("an emulator starts a process for each call, with a copy")
    session = open_session(built.runner, built.module)
    pool = session.zeros((1, 9, 4, 16))
    right = tuple(np.array(value, np.int32) for value in RIGHT.values())
    _, pool = session.call("run", (*right, pool), 2)
    before = session.array(pool)
    assert before.any()
    for name, place, value, _ in WRONG:
        wrong = np.array(RIGHT[name], np.int32)
        wrong[place] = value
        given = {**RIGHT, name: wrong}
        tensors = tuple(np.asarray(item, np.int32) for item in given.values())
        with pytest.raises(IngotError, match=f"{name} must be in"):
            session.call("run", (*tensors, pool), 2)
    np.testing.assert_array_equal(session.array(pool), before)


def test_every_component_that_trusts_an_index_says_where_it_must_be() -> None:
    silent = []
    for component in COMPONENTS:
        text = (ROOT / f"components/{component}.mlir").read_text("utf-8")
        formals = read_component(component, ROOT).arguments
        limits = [x for x in formals if isinstance(x, TensorFormal) and x.limit]
        if "not checked here" in text.replace("\n//", "") and not limits:
            silent.append(component)
    # An offset and a rank are no values of a tensor.
    assert silent == ["indexing/masked_scatter", "shape/slice"]


def test_a_limit_speaks_of_dims_that_the_component_has() -> None:
    path = ROOT / "components/moe/mul_mat_id.mlir"
    text = path.read_text("utf-8").replace("in [0, n_expert)", "in [0, n_experts)")
    with pytest.raises(ExceptionGroup) as caught:
        parse_component(text, "moe/mul_mat_id")
    assert format_errors(caught.value) == (
        "components/moe/mul_mat_id.mlir:19:7: dim 'n_experts' is not in the header's"
        " Dims"
    )
