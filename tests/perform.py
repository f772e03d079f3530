"""An action's command, run in a folder that has what earlier actions made."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from ingot.edges import toolchain
from ingot.values import Action, SourceFile, Text


def perform(action: Action, folder: Path) -> None:
    """Lay out the action's own inputs in the folder, and run it there."""
    for name, source in action.inputs:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(source, Text):
            path.write_text(source.text, encoding="utf-8")
        elif isinstance(source, SourceFile):
            shutil.copy(source.path, path)
    tool(folder, *action.argv)


def tool(folder: Path, name: str, *words: str | Path) -> None:
    """Run a program that actions may start, in a folder."""
    subprocess.run([toolchain.executable(name), *words], cwd=folder, check=True)
