"""Actions run as they are, one folder each: no store, no sandbox, no memory."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from ingot.edges import toolchain
from ingot.values import Action, SourceFile, Text


def run(action: Action, folder: Path, made: dict[str, Path] | None = None) -> Path:
    """Run the action in the folder; `made` has the outputs of others, by name."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, source in action.inputs:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(source, Text):
            path.write_text(source.text, encoding="utf-8")
        elif isinstance(source, SourceFile):
            shutil.copy(source.path, path)
        else:
            shutil.copy((made or {})[source.path], path)
    done = subprocess.run(
        [toolchain.executable(action.argv[0]), *action.argv[1:]],
        cwd=folder,
        env=dict(action.env),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder / action.outputs[0]
