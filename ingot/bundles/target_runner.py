"""Decide which files of a bundle to run, and how to run them on this machine."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from ingot.bundles.reader import Bundle
from ingot.engine.machine import processor_gap
from ingot.model.library import find
from ingot.model.runner import Runner
from ingot.runtime.invoke import Module

if TYPE_CHECKING:
    from ingot.model.target import Target


def module_of(bundle: Bundle) -> Module:
    """Return the bundle's compiled module with its parameters."""
    parameters = bundle.contract["parameters"]
    return Module(
        bundle.folder / "model.vmfb",
        bundle.folder / parameters["archive"],
        parameters["scope"],
    )


def runner_for(bundle: Bundle, root: Path) -> Runner | str:
    """Return the runner of the bundle's target, or the reason why it cannot run here.

    The runner comes from the checkout's target file and uses its emulator if necessary.
    Without that file, only targets that this machine runs natively work. What the
    processor must have is what the bundle states, because its module was compiled for
    that: the checkout's target may have changed since.
    """
    declared = bundle.contract["target"]
    target = _target(bundle, root)
    if isinstance(target, str):
        return target
    if target is not None and target.runner.prefix:
        if shutil.which(target.runner.prefix[0]) is None:
            return f"{target.runner.prefix[0]} is not installed"
        return target.runner
    gap = processor_gap(declared["machine"], tuple(declared["cpu_features"]))
    if gap is not None:
        return gap
    if target is not None:
        return target.runner
    vulkan = "--iree-hal-target-device=vulkan" in declared["compile_flags"]
    return Runner(device="vulkan" if vulkan else "local-task")


def tools_for(bundle: Bundle, root: Path) -> tuple[str, ...]:
    """Return the tools that the bundle's target needs besides the runtime."""
    target = _target(bundle, root)
    return () if target is None or isinstance(target, str) else target.tools


def _target(bundle: Bundle, root: Path) -> Target | str | None:
    """Return the target, or what is wrong with its file; None if there is no file."""
    path = find(root, f"targets/{bundle.contract['target']['name']}.yaml")
    if not path.is_file():
        return None
    from ingot.model.target import read_target
    from ingot.model.yaml_nodes import format_errors

    try:
        return read_target(path, root)
    except ExceptionGroup as group:
        return format_errors(group)
