"""Build models from Python, as `ingot build` does: `ingot.build(model="toy")`.

The build runs in a process of its own, because it handles signals and changes how
Python collects garbage, which a notebook must not notice.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from ingot.cli.installation import check_installation, project_root
from ingot.cli.variables import one_of_each
from ingot.engine import process
from ingot.errors import IngotError
from ingot.project.catalogue import read
from ingot.project.selection import check_runnable, select

# The exit code of a command line, manifest or store that is wrong.
_REJECTED = 3


class BuildFailed(IngotError):
    """An action failed, or a check found a difference; the text is the build's."""


@dataclass(frozen=True, slots=True)
class Built:
    """What the build of a model for a target has made; paths are absolute."""

    model: str
    target: str  # never an alias such as "host"
    bundle: Path  # the folder
    check: Path  # check.json
    bench: Path  # bench.json
    output: str  # what the build printed


def build(model: str = "", target: str = "", root: str | Path | None = None) -> Built:
    """Build a model for a target, check and time it, and return what was made.

    An empty name means the default of pyproject.toml. `root` is the project's folder,
    or one below it; by default the current one.

    Raises:
        IngotError: if the model, the target or a file of the project is wrong.
        BuildFailed: if an action fails, or a check finds a difference.
    """
    folder = Path(root or Path.cwd()).absolute()
    found = project_root(folder)
    if found is None:
        raise IngotError(f"no project in {folder}", "a project has a file dodo.py")
    check_installation(found)
    given = {"model": model, "target": target}
    variables = {name: value for name, value in given.items() if value}
    catalogue = read(found, {model})
    selection = select(catalogue, variables)
    one = one_of_each("ingot.build", selection.models, selection.targets)
    check_runnable(catalogue, selection)
    output = _run(found, *one)
    place = found / "build" / one[0] / one[1]
    return Built(
        *one,
        bundle=place / "bundle",
        check=place / "check.json",
        bench=place / "bench.json",
        output=output,
    )


def _run(root: Path, model: str, target: str) -> str:
    """Run the build in a process; return what it printed.

    Raises: IngotError, as `build`.
    """
    words = ("build", f"model={model}", f"target={target}")
    # Without -P, a module of the project could hide one of ingot or of Python.
    argv = (sys.executable, "-P", "-m", "ingot.cli.main", *words)
    path = os.pathsep.join(filter(None, sys.path))
    done = process.run(argv, root, {**os.environ, "PYTHONPATH": path})
    text = done.output.decode("utf-8", errors="replace")
    if done.exit_code == _REJECTED:
        raise IngotError(text.strip().removeprefix("ERROR: "))
    if done.exit_code:
        raise BuildFailed(f"{model}@{target} was not built\n{text.strip()}")
    return text
