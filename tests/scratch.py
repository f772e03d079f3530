"""Run single actions for tests, each in a folder of its own and without a checkout.

The results come from the store of the test run where it has them: a component or a
program that did not change is not compiled again.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

from ingot.engine.actions import Action, Output, SourceFile
from ingot.engine.executor import Executor
from ingot.engine.run_action import ActionFailed
from ingot.engine.store import Store
from ingot.model.target import Target
from ingot.stages.compile import SERIAL, command

COMPILER = ("iree-base-compiler",)


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
        inputs=((source.name, SourceFile(source)), *inputs.items()),
        outputs=(output,),
        tools=COMPILER,
    )
    return run(action, folder)


def run(action: Action, folder: Path, made: dict[str, Path] | None = None) -> Path:
    """Return the action's first output, in the folder; `made` has its inputs' files.

    Raises: AssertionError where the command fails, with all that it printed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    given = made or {}
    inputs = tuple(
        (name, SourceFile(given[source.path]) if isinstance(source, Output) else source)
        for name, source in action.inputs
    )
    run_by = executor()
    try:
        run_by.execute(replace(action, inputs=inputs, exported_to=()))
    except ActionFailed as error:
        raise AssertionError(str(error)) from None
    record = run_by.records.get(action.task)
    assert record is not None
    for name, digest in record.outputs:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(run_by.store.blob(digest), folder / name)
    return folder / action.outputs[0]


def executor() -> Executor:
    """Return what runs actions with the store of the test run."""
    return _executor(os.environ["INGOT_CACHE"])


@cache
def _executor(store: str) -> Executor:
    """Return an executor on a store; its records end with this process."""
    root = Path(tempfile.mkdtemp(prefix="scratch-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    return Executor(root, Store(Path(store), lambda _: None), lambda *_: None)
