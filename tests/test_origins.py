"""Test that values of a plan are located in manifests and targets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ingot.cli.source_lookup import locate, sources
from ingot.engine.actions import Action, InlineText
from tests.checkout import Checkout
from tests.test_why import told

FILES = {
    "models/toy.yaml": """\
architecture: small
dims: {n_embd: 8}
dynamic:
  batch: {min: 1, max: 4}
weights:
  source: {kind: synthetic, seed: 1}
generation: {end_tokens: [7, 9]}
""",
    "models/architectures/small.yaml": """\
tolerances:
  block: {max_abs_error: 1.0e-5}
""",
    "targets/here.yaml": """\
layout: rows
tolerances:
  block: {times_float32: 20}
  golden: {times_float32: 3}
""",
    "targets/layouts/rows.yaml": "tile_n: 8\n",
}
BLOCK = "tolerances.block.max_abs_error"
TIMES = "tolerances.block.times_float32"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout's files, as far as they are looked at."""
    for name, text in FILES.items():
        path = tmp_path / "a" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return tmp_path / "a"


def test_sources_include_the_architectures_that_one_extends(root: Path) -> None:
    folder = root / "models/architectures"
    (folder / "small.yaml").rename(folder / "base.yaml")
    (folder / "small.yaml").write_text("architecture: small\nextends: base\n")
    found = [path.relative_to(root).as_posix() for path in sources(root, "bake:toy@x")]
    assert found == [
        "models/toy.yaml",
        "models/architectures/small.yaml",
        "models/architectures/base.yaml",
    ]
    told = locate(root, "check:toy@here", BLOCK, 1e-5)
    assert told == f"models/architectures/base.yaml:2: {BLOCK}"


def test_sources_of_a_task_follow_from_its_name(root: Path) -> None:
    found = {
        task: [path.relative_to(root).as_posix() for path in sources(root, task)]
        for task in ("check:toy@here", "bake:toy@rows", "fetch:abc", "specialize:toy_8")
    }
    model = ["models/toy.yaml", "models/architectures/small.yaml"]
    assert found == {
        "check:toy@here": [*model, "targets/here.yaml", "targets/layouts/rows.yaml"],
        "bake:toy@rows": [*model, "targets/layouts/rows.yaml"],
        "fetch:abc": [],
        "specialize:toy_8": [],
    }


@pytest.mark.parametrize(
    ("key", "value", "where"),
    [
        ("seed", 1, "models/toy.yaml:6: weights.source.seed"),
        ("contract.dims.n_embd", 8, "models/toy.yaml:2: dims.n_embd"),
        ("dynamic[batch].max", 4, "models/toy.yaml:4: dynamic.batch.max"),
        (
            "contract.generation.end_tokens[1]",
            9,
            "models/toy.yaml:7: generation.end_tokens[1]",
        ),
        (BLOCK, 1e-5, f"models/architectures/small.yaml:2: {BLOCK}"),
        (TIMES, 20.0, f"targets/here.yaml:3: {TIMES}"),
        (
            "tolerances.golden.times_float32",
            3.0,
            "targets/here.yaml:4: tolerances.golden.times_float32",
        ),
        ("tile_n", 8, "targets/layouts/rows.yaml:1: tile_n"),
        # Another value, another key, a part of a name, and no number.
        ("seed", 2, ""),
        ("weights.target.seed", 1, ""),
        ("eed", 1, ""),
        ("seed", True, ""),
    ],
)
def test_a_value_is_located_by_key_and_value(
    root: Path, key: str, value: object, where: str
) -> None:
    assert locate(root, "check:toy@here", key, value) == where


def test_an_edited_file_is_read_again(root: Path) -> None:
    manifest = root / "models/toy.yaml"
    assert locate(root, "bake:toy@rows", "seed", 12) == ""
    manifest.write_text(f"# First.\n{FILES[manifest.relative_to(root).as_posix()]}")
    assert locate(root, "bake:toy@rows", "seed", 1).startswith("models/toy.yaml:7: ")
    manifest.write_text("architecture: [")
    assert locate(root, "bake:toy@rows", "seed", 1) == ""


def test_why_shows_the_line_or_at_least_the_files(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkout = Checkout(root, tmp_path / "cache")

    def spec(value: object) -> Action:
        inputs = (("spec.json", InlineText(json.dumps(value))),)
        return Action("bake:toy@rows", ("cp", "spec.json", "out"), inputs, ("out",))

    checkout.build(spec({"seed": 5, "cases": [1]}))
    assert told(checkout, capsys, spec({"seed": 1, "cases": [1]})) == [
        "bake:toy@rows would run:",
        "  input spec.json: seed: 5 -> 1 (models/toy.yaml:6: weights.source.seed)",
    ]
    assert told(checkout, capsys, spec({"seed": 1, "cases": [2]})) == [
        "bake:toy@rows would run:",
        "  input spec.json: seed: 5 -> 1 (models/toy.yaml:6: weights.source.seed)",
        "  input spec.json: cases[0]: 1 -> 2",
        "  input spec.json comes from models/toy.yaml, models/architectures/small.yaml,"
        " targets/layouts/rows.yaml",
    ]
