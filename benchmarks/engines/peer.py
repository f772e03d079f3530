"""Describe an engine: where it is installed, and how it gets a model.

A module of this package declares a `Peer`, and a class `Engine` that
`engine_process.py` loads inside the engine's own environment. So such a module imports
the engine's packages only inside that class.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

BENCHMARKS = Path(__file__).resolve().parent.parent


class Engine(Protocol):
    """A model that is loaded in this process, with a cache for one sequence."""

    def reset(self, positions: int) -> None:
        """Begin another sequence, of at most so many tokens."""

    def prefill(self, tokens: Sequence[int]) -> Any:
        """Read a prompt; return the next logits, [n_vocab]."""

    def decode(self, token: int) -> Any:
        """Read one more token; return the next logits, [n_vocab]."""


class CannotBuild(Exception):
    """An engine or its model could not be built; the text says why."""


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment with packages of the registry."""

    name: str
    packages: tuple[str, ...]
    no_binary: str = ""  # the package that pip compiles for this machine
    unwanted: str = ""  # a package that another one brings, and that is removed
    variables: Mapping[str, str] = field(default_factory=dict)  # of that compilation

    def python(self, cache: Path) -> Path:
        """Return the environment's interpreter, installed below `cache` if necessary.

        Raises: CannotBuild with the end of pip's words.
        """
        folder = cache / "environments" / self.name
        record = folder / "installed.json"
        wanted = [*self.packages, self.no_binary, self.unwanted, dict(self.variables)]
        if not record.exists() or json.loads(record.read_text("utf-8")) != wanted:
            shutil.rmtree(folder, ignore_errors=True)
            venv.create(folder, with_pip=True)
            pip = [str(folder / "bin/python"), "-m", "pip"]
            install = [*pip, "install", "--progress-bar", "off"]
            if self.no_binary:
                install += ["--no-binary", self.no_binary]
            run([*install, *self.packages], folder / "log", self.variables)
            if self.unwanted:
                run([*pip, "uninstall", "--yes", self.unwanted], folder / "removal.log")
            record.write_text(json.dumps(wanted), encoding="utf-8")
        return folder / "bin/python"


@dataclass(frozen=True, slots=True)
class Form:
    """A stored type of an engine, and how the engine computes with it."""

    width: str  # the type to compare with: "f32", "bf16", "i8", "i4"
    name: str  # "q8_0", "int8, f32 compute"
    model: str  # the name of its file or folder; forms may share one
    options: Mapping[str, str] = field(default_factory=dict)  # of the class Engine
    variables: Mapping[str, str] = field(default_factory=dict)  # of its process


@dataclass(frozen=True, slots=True)
class Peer:
    """An engine other than ingot."""

    name: str
    module: str  # of this package
    environment: Environment
    forms: tuple[Form, ...]
    lacks: Mapping[str, str]  # why it is not compared, by width
    # The command that writes a model of a form: (python, form, checkpoint, path).
    convert: Callable[[Path, Form, Checkpoint, Path], Sequence[str]]

    def model(self, form: Form, checkpoint: Checkpoint, cache: Path) -> Path:
        """Return the model of a form, converted from the checkpoint if necessary.

        Raises: CannotBuild.
        """
        path = checkpoint.folder.parent / form.model
        if not path.exists():
            python = self.environment.python(cache)
            part = path.with_name(f"part-{path.name}")
            shutil.rmtree(part, ignore_errors=True)
            argv = self.convert(python, form, checkpoint, part)
            run(argv, path.with_name(f"{path.name}.log"))
            part.rename(path)
        return path


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The weights that all engines get, as transformers saves them."""

    model: str  # in the folder models/
    folder: Path


def run(
    argv: Sequence[str], log: Path, variables: Mapping[str, str] | None = None
) -> None:
    """Run a command with its output in a file.

    Raises: CannotBuild with the last line of the output.
    """
    path = f"{Path(argv[0]).parent}:/usr/local/bin:/usr/bin:/bin"
    # Unbuffered, so that an error is the last line of the output.
    own = {"PATH": path, "HOME": str(Path.home()), "PYTHONUNBUFFERED": "1"}
    env = {**own, **(variables or {})}
    print(f"  {' '.join(map(str, argv))[:160]}", file=sys.stderr)
    with log.open("wb") as output:
        done = subprocess.run(argv, stdout=output, stderr=output, env=env, check=False)
    if done.returncode:
        words = log.read_text("utf-8", errors="replace").strip().splitlines()
        raise CannotBuild(f"{words[-1] if words else 'no output'} ({log})")
