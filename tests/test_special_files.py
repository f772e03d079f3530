"""Test that pipes, sockets, devices and folders in place of files are reported."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from ingot.errors import IngotError
from ingot.imports.checkpoint import import_checkpoint
from ingot.project.catalogue import read
from ingot.project.selection import select
from tests.project import edit, one_model

SELECTED = {"model": "toy-moe", "target": "x86_64"}


def bind(path: Path) -> None:
    # The name of a socket has 107 characters.
    folder = os.getcwd()
    os.chdir(path.parent)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)
    os.chdir(folder)


KINDS: dict[str, Callable[[Path], None]] = {
    "is a named pipe": lambda path: os.mkfifo(path),
    "is a socket": bind,
    "is a device": lambda path: path.symlink_to("/dev/zero"),
    "is a directory": lambda path: path.mkdir(),
    "no such file or directory": lambda path: path.symlink_to("nowhere"),
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a checkout of one model."""
    return one_model(tmp_path)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "name",
    [
        "models/toy-moe.yaml",
        "models/architectures/mixtral.yaml",
        "targets/x86_64.yaml",
        "targets/layouts/packed_n8.yaml",
        "components/normalization/rms_norm.mlir",
        "components/linear/linear_packed.mlir",
    ],
)
def test_a_path_that_is_not_a_file_is_reported_at_once(
    name: str, kind: str, root: Path
) -> None:
    (root / name).unlink()
    KINDS[kind](root / name)
    with pytest.raises(IngotError) as caught:
        select(read(root, ("toy-moe",)), SELECTED)
    assert str(caught.value).startswith(f"{name}:1:1: cannot be read: {kind}")


@pytest.mark.parametrize("kind", KINDS)
def test_an_oracle_that_is_not_a_file_is_reported_at_once(
    kind: str, root: Path
) -> None:
    (root / "oracles/normalization.py").unlink()
    KINDS[kind](root / "oracles/normalization.py")
    with pytest.raises(IngotError) as caught:
        select(read(root, ("toy-moe",)), SELECTED)
    found = f"'oracles/normalization.py' cannot be read: {kind}"
    if kind == "no such file or directory":
        found = "no file 'oracles/normalization.py'"
    assert f"Oracle: {found}" in str(caught.value)


def test_a_wrong_kernel_is_an_error_only_of_its_target(root: Path) -> None:
    kernel = "components/linear/linear_packed.mlir"
    edit(root / kernel, "// Oracle:", "// Orakel:")
    with pytest.raises(IngotError) as caught:
        select(read(root, ("toy-moe",)), SELECTED)
    assert kernel in str(caught.value)


@pytest.mark.parametrize("kind", ["is a named pipe", "is a socket", "is a device"])
def test_a_checkpoint_that_is_not_a_file_is_reported_at_once(
    kind: str, root: Path
) -> None:
    source = root / "tiny.gguf"
    KINDS[kind](source)
    with pytest.raises(IngotError) as caught:
        import_checkpoint(root, str(source))
    assert "expected a checkpoint's folder or a .gguf file" in str(caught.value)
    folder = root / "tiny"
    folder.mkdir()
    for name in ("config.json", "generation_config.json", "README.md"):
        KINDS[kind](folder / name)
    with pytest.raises(IngotError) as caught:
        import_checkpoint(root, str(folder))
    assert f"config.json: cannot be read; {kind}" in str(caught.value)
