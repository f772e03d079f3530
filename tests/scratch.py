"""Actions run as they are, one folder each: no store, no sandbox, no memory."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from ingot.engine import toolchain
from ingot.engine.actions import Action, InlineText, Output, SourceFile
from ingot.model.target import Target
from ingot.stages.compile import SERIAL, command


def compiled(
    target: Target,
    source: Path,
    folder: Path,
    output: str = "model.vmfb",
    steps: tuple[str, ...] = (),
) -> Path:
    """Compile a module for a target, all of the way or as the steps say."""
    inputs = {path: SourceFile(place) for path, place in target.compile_inputs}
    action = Action(
        task="compile",
        argv=command(target, source.name, output, (SERIAL, *steps)),
        inputs=((source.name, Output("", source.name)), *inputs.items()),
        outputs=(output,),
        tools=("iree-base-compiler",),
        exported_to=(),
    )
    return run(action, folder, {source.name: source})


def run(action: Action, folder: Path, made: dict[str, Path] | None = None) -> Path:
    """Run the action in the folder; `made` has the outputs of others, by name."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, source in action.inputs:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(source, InlineText):
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
