"""A target in, whether it compiles and runs a small function on this machine out.

The function is compiled with the target's own flags and run as its artifacts are run,
so that the compiler, the CPU's features, the emulator and the driver all have to work.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ingot.cli.findings import Finding, Level, last_line, start
from ingot.engine import toolchain
from ingot.errors import IngotError
from ingot.model.runner import Runner
from ingot.runtime import invoke

if TYPE_CHECKING:
    from ingot.model.target import Target

SOURCE = """\
func.func @double(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = arith.addf %x, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
"""
INPUT, OUTPUT = "4xf32=1 2 3 4", "4xf32=2 4 6 8"

AARCH64_RUNTIME = "iree-base-runtime-aarch64"
AARCH64_ROOT = Path("/usr/aarch64-linux-gnu")
# What the aarch64 runtime's programs load, and the Debian package of each.
AARCH64_LIBRARIES = {
    "libc.so.6": "libc6-arm64-cross",
    "libgcc_s.so.1": "libgcc-s1-arm64-cross",
    "libstdc++.so.6": "libstdc++6-arm64-cross",
}


def target_finding(target: Target) -> Finding:
    """Return whether the target compiles and runs; a warning where the CPU cannot."""
    subject = f"target {target.name}"
    reason = target.unrunnable_reason()
    if reason:
        return Finding(subject, Level.WARNING, f"cannot run here: {reason}")
    missing = runner_problem(target.runner)
    if missing is not None:
        return Finding(subject, Level.ERROR, missing.found, missing.remedy)
    with tempfile.TemporaryDirectory(prefix="ingot-doctor-") as name:
        folder = Path(name)
        for relative, path in target.compile_inputs:
            (folder / relative).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, folder / relative)
        return _trial(subject, target.compile_flags, target.runner, folder)


def _trial(
    subject: str, flags: tuple[str, ...], runner: Runner, folder: Path
) -> Finding:
    """Return how compiling and running the function in `folder` went."""
    source, vmfb = folder / "double.mlir", folder / "double.vmfb"
    source.write_text(SOURCE, encoding="utf-8")
    compiler = toolchain.executable("iree-compile")
    code, words = start(compiler, str(source), *flags, "-o", str(vmfb), folder=folder)
    if code != 0:
        return Finding(subject, Level.ERROR, f"does not compile: {last_line(words)}")
    argv = (
        *invoke.module_argv(runner, "iree-run-module", invoke.Module(vmfb)),
        "--function=double",
        f"--input={INPUT}",
    )
    env = {**os.environ, **dict(runner.env)}
    code, words = start(*argv, folder=folder, env=env)
    if code == -signal.SIGILL:
        return Finding(
            subject, Level.ERROR, "the processor lacks instructions that it compiles to"
        )
    if code != 0:
        return Finding(subject, Level.ERROR, f"does not run: {last_line(words)}")
    if OUTPUT not in words:
        return Finding(
            subject,
            Level.ERROR,
            f"computes wrong numbers: expected {OUTPUT!r}, got {last_line(words)!r}",
            "a broken driver, or code for another device: see the target file",
        )
    return Finding(subject, Level.OK, f"compiles and runs on {runner.device}")


def runner_problem(runner: Runner) -> Finding | None:
    """Return the first thing that the runner needs and that is missing here."""
    findings: Iterator[Finding] = iter(())
    if runner.runtime == AARCH64_RUNTIME:
        findings = emulator_findings()
    elif runner.device.startswith("vulkan"):
        findings = vulkan_findings()
    return next((item for item in findings if item.level is Level.ERROR), None)


def emulator_findings() -> Iterator[Finding]:
    """Yield whether aarch64 programs of the runtime start here."""
    try:
        emulator = toolchain.executable("qemu-aarch64")
    except IngotError as error:
        yield _missing("qemu-aarch64", error.message, "qemu-user")
        return
    for name, package in AARCH64_LIBRARIES.items():
        if not (AARCH64_ROOT / "lib" / name).exists():
            yield _missing(name, f"the aarch64 {name} is not installed", package)
            return
    runner = Runner("local-sync", runtime=AARCH64_RUNTIME)
    try:
        program = invoke.program(runner, "iree-run-module")
    except IngotError as error:
        yield Finding(AARCH64_RUNTIME, Level.ERROR, error.message, "run: ./bootstrap")
        return
    code, words = start(emulator, "-L", str(AARCH64_ROOT), program, "--list_devices")
    if code != 0:
        found = f"aarch64 programs do not start: {last_line(words)}"
        yield Finding("qemu-aarch64", Level.ERROR, found, "run: ./bootstrap")
        return
    yield Finding("qemu-aarch64", Level.OK, "starts the aarch64 runtime")


def vulkan_findings() -> Iterator[Finding]:
    """Yield whether a Vulkan driver loads and shows a device."""
    program = invoke.program(Runner("vulkan"), "iree-run-module")
    code, words = start(program, "--list_devices=vulkan")
    if code != 0 or "vulkan://" not in words:
        found = f"no Vulkan device: {last_line(words)}"
        yield _missing("vulkan", found, "libvulkan1 mesa-vulkan-drivers")
        return
    count = words.count("vulkan://")
    yield Finding("vulkan", Level.OK, f"{count} device{'s' * (count != 1)}")


def _missing(subject: str, found: str, packages: str) -> Finding:
    return Finding(subject, Level.ERROR, found, f"run: apt-get install {packages}")
