"""Place the decoder of `data/toy-decoder` among a checkout's models."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ingot.model.graph import Graph
from ingot.model.manifest import read_manifest
from tests.project import (
    ROOT,
    TOY,
    builds,
    components_named,
    copy_components,
    edit,
)

DATA = ROOT / "tests/data/toy-decoder"
MODEL = "toy-decoder"

# Marks tests that build the decoder in a checkout, whose other model is the toy.
BUILDS = [
    builds(TOY),
    pytest.mark.reads(
        "tests/data/toy-decoder/*",
        files=lambda **_: components_named(DATA / "architecture.yaml"),
    ),
]


def place(root: Path) -> Path:
    """Copy the decoder below `root`; return its manifest's path."""
    (root / "models/architectures").mkdir(parents=True, exist_ok=True)
    licences = "models/licences"
    shutil.copytree(ROOT / licences, root / licences, dirs_exist_ok=True)
    copy_components(root, DATA / "architecture.yaml")
    shutil.copy(DATA / "architecture.yaml", root / f"models/architectures/{MODEL}.yaml")
    return Path(shutil.copy(DATA / "model.yaml", root / f"models/{MODEL}.yaml"))


def read(root: Path, *edits: tuple[str, str]) -> Graph:
    """Return the decoder's graph, read in an empty folder with its manifest edited."""
    shutil.copytree(ROOT / "oracles", root / "oracles")
    path = place(root)
    for old, new in edits:
        edit(path, old, new)
    return read_manifest(path, root).graph
