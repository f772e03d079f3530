"""Run a vmfb for any target with iree-run-module, passing arrays as .npy files.

A Runner describes how a target runs, and a Call which function to call on which arrays.
This module does not use the Python runtime, because that cannot run under an emulator.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import sys
import sysconfig
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from ingot.engine import process
from ingot.errors import IngotError
from ingot.model.runner import Runner

Array: TypeAlias = Any
"""A NumPy array; NumPy is imported where it is used, because plans are made without
it."""


# How iree-run-module reports a result of a type that .npy does not have, and how it
# prints its shape: 3x7x13xbf16=[...
_UNNAMED = "unsupported data encoding"
_BF16 = re.compile(r"((?:\d+x)*)bf16=")


@dataclass(frozen=True, slots=True)
class Module:
    """A compiled module and the parameters that it reads."""

    vmfb: Path
    irpa: Path | None = None
    scope: str = "model"


@dataclass(frozen=True, slots=True)
class Call:
    """One call of an exported function: tensors, then scalars."""

    function: str
    tensors: tuple[Array, ...]
    scalars: tuple[float | int, ...] = ()
    results: int = 1


def program(runner: Runner, name: str) -> str:
    """Return the path of one of the runtime's programs, for the target's CPU.

    Raises: IngotError if the runtime is not installed.
    """
    root = Path(sysconfig.get_path("purelib"))
    if runner.runtime == "iree-base-runtime-aarch64":
        default = str(Path(sys.prefix) / "share/ingot/aarch64-runtime")
        root = Path(os.environ.get("INGOT_AARCH64_RUNTIME", default))
    path = root / "iree/_runtime_libs" / name
    if not path.exists():
        raise IngotError(f"tool '{name}' of {runner.runtime} is not installed")
    return str(path)


def module_argv(runner: Runner, tool: str, module: Module) -> tuple[str, ...]:
    """Return a command line without a function: emulator, program, module, device."""
    argv = (
        *runner.prefix,
        program(runner, tool),
        f"--module={module.vmfb}",
        f"--device={runner.device}",
    )
    if module.irpa is None:
        return argv
    return (*argv, f"--parameters={module.scope}={module.irpa}")


def run(argv: tuple[str, ...], runner: Runner, folder: Path) -> bytes:
    """Return the output of the program.

    Raises: IngotError with the program's unaltered message if it fails.
    """
    env = {**os.environ, **variables(runner)}
    # The program that calls this one runs in the sandbox already.
    done = process.run(argv, folder, env)
    if done.exit_code == 0:
        return done.output
    words = done.output.decode(errors="replace").rstrip()
    name = Path(argv[len(runner.prefix)]).name
    how = f"exit code {done.exit_code}"
    if done.exit_code < 0:
        how = f"signal {-done.exit_code}"
    raise IngotError(f"{name} failed with {how}\n{words}")


def variables(runner: Runner) -> dict[str, str]:
    """Return the variables that a runner adds to this process's environment."""
    made = dict(runner.env)
    if runner.device == "vulkan" and "MESA_SHADER_CACHE_DIR" not in os.environ:
        made.setdefault("MESA_SHADER_CACHE_DIR", shaders())
    return made


@cache
def shaders() -> str:
    """Return a folder of this process in which Mesa's drivers cache shaders.

    Each module starts the driver again; without the folder, half of a model's first
    call is compilation.
    """
    folder = tempfile.mkdtemp(prefix="shaders-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def call(runner: Runner, module: Module, what: Call) -> tuple[Array, ...]:
    """Return the results of one call, with the target's shapes and types.

    Raises: IngotError if the call fails.
    """
    with tempfile.TemporaryDirectory(prefix="call-") as name:
        folder = Path(name)
        words = []
        for index, tensor in enumerate(what.tensors):
            words.append(_input(folder / f"in{index}.npy", tensor))
        # repr: the shortest text that reads back as the same number.
        words += [f"--input={scalar!r}" for scalar in what.scalars]
        argv = module_argv(runner, "iree-run-module", module)
        argv = (*argv, f"--function={what.function}", *words)
        try:
            return _results(argv, runner, folder, what.results)
        except IngotError as error:
            shapes = ", ".join(f"{t.dtype}{list(t.shape)}" for t in what.tensors)
            raise IngotError(
                f"@{what.function} of {module.vmfb.name} does not run\n{error.message}",
                f"with inputs {shapes or 'none'}",
            ) from error


def _results(
    argv: tuple[str, ...], runner: Runner, folder: Path, count: int
) -> tuple[Array, ...]:
    """Run a call, and return its results."""
    import numpy as np

    outputs = [folder / f"out{index}.npy" for index in range(count)]
    try:
        run((*argv, *(f"--output=@{path}" for path in outputs)), runner, Path.cwd())
    except IngotError as error:
        if _UNNAMED not in error.message:
            raise
        return _unnamed_results(argv, runner, folder)
    return tuple(np.load(path) for path in outputs)


def _unnamed_results(
    argv: tuple[str, ...], runner: Runner, folder: Path
) -> tuple[Array, ...]:
    """Return results of which some are bfloat16.

    A first run prints their shapes, because their files do not contain them.
    """
    import ml_dtypes
    import numpy as np

    printing = (*argv, "--output_max_element_count=1")
    printed = run(printing, runner, Path.cwd()).decode().split("result[")[1:]
    found = [_BF16.search(text) for text in printed]
    paths = [
        folder / f"out{index}{'.bin' if match else '.npy'}"
        for index, match in enumerate(found)
    ]
    run((*argv, *(f"--output=@{path}" for path in paths)), runner, Path.cwd())
    return tuple(
        np.fromfile(path, ml_dtypes.bfloat16).reshape(
            [int(size) for size in match.group(1).split("x") if size]
        )
        if match
        else np.load(path)
        for path, match in zip(paths, found, strict=True)
    )


def _input(path: Path, tensor: Array) -> str:
    """Write a tensor to a file; return the argument that makes it an input."""
    import numpy as np

    # NumPy writes a transposed array in Fortran order, which iree-run-module rejects.
    content = np.asarray(tensor, order="C")
    if content.dtype.name != "bfloat16":
        np.save(path, content)
        return f"--input=@{path}"
    # .npy has no such type.
    content.view(np.uint16).tofile(path.with_suffix(".bin"))
    shape = "x".join(map(str, content.shape))
    return f"--input={shape}xbf16=@{path.with_suffix('.bin')}"
