"""The good manifest and the bad ones of `bad_manifests`, placed in a checkout."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ingot.readers.manifest import Manifest, read_manifest
from ingot.readers.yaml import format_errors

ROOT = Path(__file__).resolve().parent.parent
CASES = Path(__file__).parent / "bad_manifests"
GOOD = "small"


def defects(kind: str) -> list[str]:
    """The names of the bad "manifests" or "architectures"."""
    return sorted(p.stem for p in (CASES / kind).glob("*.yaml") if p.stem != GOOD)


def place(root: Path, manifest: str, architecture: str = GOOD) -> Path:
    """Copy what a manifest needs below `root`; return the manifest's path."""
    shutil.copytree(CASES / "components", root / "components")
    (root / "models/architectures").mkdir(parents=True)
    shutil.copy(
        CASES / f"architectures/{architecture}.yaml", root / "models/architectures"
    )
    path = root / f"models/{manifest}.yaml"
    shutil.copy(CASES / f"manifests/{manifest}.yaml", path)
    if architecture != GOOD:
        text = path.read_text("utf-8")
        old = f"architecture: {GOOD}"
        path.write_text(text.replace(old, f"architecture: {architecture}"), "utf-8")
    return path


def message(path: Path, root: Path) -> str:
    """What the user reads of a manifest that is refused."""
    with pytest.raises(ExceptionGroup) as caught:
        read_manifest(path, root)
    return format_errors(caught.value) + "\n"


def expected(defect: str) -> str:
    """What the user has to read."""
    return (CASES / f"expected/{defect}.txt").read_text("utf-8")


def good(root: Path, *edits: tuple[str, str, str]) -> Manifest:
    """Read the good manifest with texts replaced: (folder, old, new)."""
    path = place(root, GOOD)
    files = {"manifests": path, "architectures": root / "models/architectures"}
    files["architectures"] /= f"{GOOD}.yaml"
    for folder, old, new in edits:
        text = files[folder].read_text("utf-8")
        assert old in text, old
        files[folder].write_text(text.replace(old, new), "utf-8")
    return read_manifest(path, root)
