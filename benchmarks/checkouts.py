"""Copy the checkout's sources, with a manifest that stores weights in another type.

Each copy is built by its own `doit` with the user's store, so that nothing in the store
is compiled again and no build output of the checkout is touched.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ingot.model.target import Target

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("ingot", "models", "components", "oracles", "targets")
FILES = ("dodo.py", "pyproject.toml")


@dataclass(frozen=True, slots=True)
class Checkout:
    """A copy of the sources, for one model and target."""

    root: Path
    model: str
    target: Target

    @property
    def vmfb(self) -> Path:
        """Return the path of the compiled module."""
        return self.root / "build" / self.model / self.target.resolved / "model.vmfb"

    @property
    def irpa(self) -> Path:
        """Return the path of the baked weights."""
        weights = self.root / "build" / self.model / "weights"
        return weights / self.target.layout.name / "model.irpa"

    def build(self) -> None:
        """Build the module and its weights."""
        tasks = [
            f"compile:{self.model}@{self.target.resolved}",
            f"bake:{self.model}@{self.target.layout.name}",
        ]
        argv = [sys.executable, "-m", "doit", *tasks]
        subprocess.run(argv, cwd=self.root, stdout=sys.stderr, check=True)


def copied(folder: Path, model: str, target: str) -> Checkout:
    """Return a copy of the sources with its manifest, but without build outputs."""
    from ingot.model.target import read_target

    folder.mkdir(parents=True, exist_ok=True)
    for name in SOURCES:
        shutil.rmtree(folder / name, ignore_errors=True)
        # With their times, because a build remembers digests by them.
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for name in FILES:
        shutil.copy2(ROOT / name, folder / name)
    read = read_target(ROOT / "targets" / f"{target}.yaml", ROOT)
    return Checkout(folder, model, read)


def store_as(checkout: Checkout, stored: str) -> None:
    """Change the type in which the manifest stores weights."""
    path = checkout.root / "models" / f"{checkout.model}.yaml"
    old, new = r"(stored: )f32\b", rf"\g<1>{stored}"
    text, count = re.subn(old, new, path.read_text(encoding="utf-8"))
    if count != 1:
        raise SystemExit(f"{path}: expected '{old}' once, found it {count} times")
    path.write_text(text, encoding="utf-8")
