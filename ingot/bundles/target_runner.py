"""Decide which files of a bundle to run, and how to run them on this machine."""

from __future__ import annotations

import platform
import shutil
from pathlib import Path

from ingot.bundles.reader import Bundle
from ingot.model.runner import Runner
from ingot.runtime.invoke import Module


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
    Without that file, only targets that this machine runs natively work.
    """
    declared = bundle.contract["target"]
    path = root / "targets" / f"{declared['name']}.yaml"
    if path.is_file():
        from ingot.model.target import read_target
        from ingot.model.yaml_nodes import format_errors

        try:
            target = read_target(path, root)
        except ExceptionGroup as group:
            return format_errors(group)
        reason = target.unrunnable_reason()
        if reason is not None:
            return reason
        if target.runner.prefix and shutil.which(target.runner.prefix[0]) is None:
            return f"{target.runner.prefix[0]} is not installed"
        return target.runner
    if declared["machine"] not in (None, platform.machine()):
        return f"the processor is {platform.machine()}, not {declared['machine']}"
    vulkan = "--iree-hal-target-device=vulkan" in declared["compile_flags"]
    return Runner(device="vulkan" if vulkan else "local-task")
