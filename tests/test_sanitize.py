"""Test that sanitizer builds check all values that components use as indices.

A release build computes with it as it is: tests/test_undefined.py.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingot.engine.actions import stage_of
from ingot.errors import IngotError
from ingot.model.component import TensorFormal, parse_component, read_component
from ingot.model.manifest import read_manifest
from ingot.model.oracle import load_oracles, run_entry_point
from ingot.model.target import read_target
from ingot.model.yaml_nodes import format_errors
from ingot.project.catalogue import read
from ingot.runtime.invoke import Call, call
from ingot.stages.link import plan_link_sanitize
from tests.built import build, lowered, random_weights
from tests.component_cases import COMPONENTS
from tests.project import ROOT, Project, copy_components

MODEL = "addresses"
# Of two sequences; what follows the first one's last token is padding.
RIGHT = {
    "tokens": [[0, 23, 7], [5, 1, 2]],
    "start": [13, 0],
    "last": [1, 2],
    "block_table": [[1, 2, 3, 4], [5, 6, 7, 8]],
    "experts": [[[0, 4], [1, 2], [3, 3]], [[4, 0], [2, 1], [0, 0]]],
}
WRONG = [
    ("tokens", (0, 0), 24, "token: ids must be in [0, n_"),
    ("tokens", (1, 2), -1, "token: ids must be in [0, n_"),
    ("start", (0,), 14, "rotated: start must be in [0, n_ctx - seq], n_ctx = 16"),
    ("last", (1,), 3, "row: last must be in [0, seq)"),
    ("block_table", (1, 3), 9, "pool: block_table must be in [0, n_block)"),
    ("block_table", (0, 0), -1, "pool: block_table must be in [0, n_block)"),
    ("experts", (0, 1, 1), 5, "product: ids must be in [0, n_expert), n_expert = 5"),
    ("experts", (1, 2, 0), -1, "product: ids must be in [0, n_expert), n_expert = 5"),
    ("experts", (0, 0, 0), 2**31 - 1, "product: ids must be in [0, n_expert), n_exp"),
]


def place(root: Path) -> Path:
    """Put the model into a folder; return its manifest."""
    (root / "models/architectures").mkdir(parents=True, exist_ok=True)
    data = ROOT / "tests/data/addresses"
    shutil.copy(data / "architecture.yaml", root / f"models/architectures/{MODEL}.yaml")
    return Path(shutil.copy(data / "model.yaml", root / f"models/{MODEL}.yaml"))


@pytest.fixture(
    scope="module",
    params=["x86_64", pytest.param("vulkan-llvmpipe", marks=pytest.mark.vulkan)],
)
def run(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[dict[str, Any]], tuple[Any, Any]]:
    """The sanitizer build for a target: inputs in, its result and the oracle's out."""
    folder = tmp_path_factory.mktemp("sanitize")
    for part in ("components", "oracles", "models/licences"):
        shutil.copytree(ROOT / part, folder / part)
    target = read_target(ROOT / f"targets/{request.param}.yaml", ROOT)
    graph = lowered(read_manifest(place(folder), folder), target)
    weights = random_weights(graph)
    action = plan_link_sanitize(graph)
    module = build(graph, target, action, weights, folder)
    entry, pool = graph.entry_points[0], np.zeros((1, 9, 4, 16), np.float32)

    def both(given: dict[str, Any]) -> tuple[Any, Any]:
        inputs = tuple(np.array(value, np.int32) for value in given.values())
        what = Call("run", (*inputs, pool), (), 2)
        found = call(target.runner, module, what)
        exact = (*inputs, pool)
        expected, _ = run_entry_point(graph, load_oracles(graph), entry, exact, weights)
        return found[0], expected[0]

    return both


def test_a_sanitizer_build_computes_what_the_model_computes(run: Any) -> None:
    found, expected = run(RIGHT)
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize(("name", "place", "value", "words"), WRONG)
def test_a_sanitizer_build_says_which_addresses_are_outside(
    run: Any, name: str, place: tuple[int, ...], value: int, words: str
) -> None:
    wrong = np.array(RIGHT[name])
    wrong[place] = value
    with pytest.raises(IngotError, match="does not run") as caught:
        run({**RIGHT, name: wrong})
    assert f"all: {words}" in caught.value.message


def test_every_component_that_trusts_an_address_says_where_it_must_be() -> None:
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


def test_no_bundle_needs_a_sanitizer_build(tmp_path: Path) -> None:
    project = Project.create(tmp_path / "checkout")
    copy_components(project.root, ROOT / "tests/data/addresses/architecture.yaml")
    place(project.root)
    plan = read(project.root, [MODEL]).plan
    needed = plan.needed([f"bundle:{MODEL}@x86_64"])
    assert not [task for task in needed if stage_of(task) == "sanitize"]
    action = plan.by_task[f"sanitize:{MODEL}@x86_64"]
    assert action.exported_to == (f"build/{MODEL}/x86_64/sanitize.vmfb",)
