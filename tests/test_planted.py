"""Test that a planted mistake fails the build and names the first wrong block."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.project import TOY, Project, builds, edit

pytestmark = builds(TOY)


@dataclass(frozen=True)
class Plant:
    """One mistake in one component."""

    component: str
    right: str
    wrong: str
    block: str  # the first that is wrong


PLANTS = {
    "eps": Plant(
        "normalization/layer_norm",
        "%guarded = arith.addf %variance, %eps : f32",
        "%planted = arith.constant 1.0e-3 : f32\n"
        "      %unplanted = arith.addf %eps, %planted : f32\n"
        "      %guarded = arith.addf %variance, %unplanted : f32",
        "embeddings",
    ),
    "mask": Plant(
        "attention/attention_bidirectional",
        "arith.cmpi eq, %real, %zero_i32",
        "arith.cmpi ne, %real, %zero_i32",
        "layer.0",
    ),
    "transposed weight": Plant(
        "linear/linear_bias",
        "affine_map<(r, o, i) -> (o, i)>",
        "affine_map<(r, o, i) -> (i, o)>",
        "layer.0",
    ),
}


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_mistake_fails_the_build_and_names_the_first_wrong_block(
    name: str, tmp_path: Path
) -> None:
    plant = PLANTS[name]
    project = Project.create(tmp_path / "checkout")
    # Square, so that a transposed weight still fits.
    edit(project.root / "models/toy.yaml", "n_ff: 64", "n_ff: 32")
    component = project.root / f"components/{plant.component}.mlir"
    edit(component, plant.right, plant.wrong)
    run = project.doit("build", "target=x86_64")
    assert run.code == 1
    assert run.done["check:toy@x86_64"] == "FAILED"
    assert "bundle:toy@x86_64" not in run.done
    assert f"first wrong block: {plant.block}" in run.err
    assert plant.component.rpartition("/")[2] in run.err
