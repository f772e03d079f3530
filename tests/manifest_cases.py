"""Place the good manifest and the bad ones of `bad_manifests` in a checkout."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from ingot.model.manifest import Manifest, read_manifest
from ingot.model.yaml_nodes import format_errors

ROOT = Path(__file__).resolve().parent.parent
CASES = Path(__file__).parent / "bad_manifests"
GOOD = "small"
GOOD_DECODER = "small-decoder"


def defects(kind: str) -> list[str]:
    """The names of the bad "manifests", "architectures" or "decoders"."""
    stems = (path.stem for path in (CASES / kind).glob("*.yaml"))
    return sorted(stem for stem in stems if stem not in (GOOD, GOOD_DECODER))


def place(root: Path, manifest: str, architecture: str = "") -> Path:
    """Copy what a manifest needs below `root`; return the manifest's path.

    An architecture that is named takes the place of the manifest's own; what it
    extends comes with it.
    """
    for part in ("components", "oracles"):
        shutil.copytree(CASES / part, root / part)
    (root / "models/architectures").mkdir(parents=True)
    shutil.copytree(ROOT / "models/licences", root / "models/licences")
    path = root / f"models/{manifest}.yaml"
    shutil.copy(CASES / f"manifests/{manifest}.yaml", path)
    text = path.read_text("utf-8", errors="replace")
    found = re.search(r"^architecture: (\S+)$", text, re.MULTILINE)
    own = found[1] if found else GOOD
    if architecture:
        text = text.replace(f"architecture: {own}", f"architecture: {architecture}")
        path.write_text(text, "utf-8")
    named: str | None = architecture or own
    while named and not (root / f"models/architectures/{named}.yaml").exists():
        source = _architecture(named)
        shutil.copy(source, root / "models/architectures")
        extended = re.search(
            r"^extends: (\S+)$", source.read_text("utf-8"), re.MULTILINE
        )
        named = extended[1] if extended else None
    return path


def _architecture(name: str) -> Path:
    folders = (CASES / "architectures", CASES / "decoders")
    files = [folder / f"{name}.yaml" for folder in folders]
    return next((file for file in files if file.is_file()), folders[0] / f"{GOOD}.yaml")


def message(path: Path, root: Path) -> str:
    """Return the errors of a manifest as the user reads them."""
    with pytest.raises(ExceptionGroup) as caught:
        read_manifest(path, root)
    return format_errors(caught.value) + "\n"


def expected(defect: str) -> str:
    """What the user has to read."""
    return (CASES / f"expected/{defect}.txt").read_text("utf-8")


def good(root: Path, *edits: tuple[str, str, str], name: str = GOOD) -> Manifest:
    """Read a good manifest with texts replaced: (folder, old, new)."""
    path = place(root, name)
    architecture = root / f"models/architectures/{name}.yaml"
    files = {"manifests": path, "architectures": architecture}
    for folder, old, new in edits:
        text = files[folder].read_text("utf-8")
        assert old in text, old
        files[folder].write_text(text.replace(old, new), "utf-8")
    return read_manifest(path, root)
