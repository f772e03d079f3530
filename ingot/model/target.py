"""Read a target's YAML: how to compile for it, and how to run the result here.

The reader finds in /proc/cpuinfo what this machine can run, and starts no process.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ingot.engine.machine import processor_gap
from ingot.errors import ManifestError, did_you_mean
from ingot.model.layout import FOLDER, Layout, read_layout
from ingot.model.library import find, names
from ingot.model.limits import LimitsSection
from ingot.model.renamed import error_text
from ingot.model.runner import Runner
from ingot.model.schema_types import (
    Boolean,
    Choice,
    ListOf,
    MapOf,
    Number,
    Section,
    Text,
    key,
    optional,
    read,
)
from ingot.model.tolerance import CHECK_LEVELS, Tolerance
from ingot.model.yaml_nodes import collected, load, raise_all

MACHINES = ("x86_64", "aarch64")
RUNTIMES = ("iree-base-runtime", "iree-base-runtime-aarch64")

_NAME = Text("a target's name", "[a-z0-9_]+(-[a-z0-9_]+)*")
_FLAG = Text("a flag such as --iree-opt-level=O2", "--[a-z0-9-]+(=.+)?")
_TARGET = "the target's name: this file's, without .yaml"
_SUMMARY = "what it is for, in a few words"
_DEVICE = "what --device= is given"
_TOOLS = ListOf(Text("a tool that `doit doctor` knows"))
_TOOLS_DOC = "what runs the code and therefore changes its results"
_PACKAGES_DOC = "Debian packages that bring the tools"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run(Section):
    """How the compiled module runs on its own processor."""

    device: str = key(Text(), _DEVICE)
    env: Mapping[str, str] = optional(MapOf(Text()), "environment of the program")
    emulated: bool = optional(Boolean(), "its times say nothing of hardware")
    tools: tuple[str, ...] = optional(_TOOLS, _TOOLS_DOC)
    packages: tuple[str, ...] = optional(ListOf(Text()), _PACKAGES_DOC)

    def runner(self) -> Runner:
        """Return how a module is run on this processor."""
        env = tuple(sorted(self.env.items()))
        return Runner(device=self.device, env=env, emulated=self.emulated)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Emulator(Section):
    """How the compiled module runs on another processor."""

    device: str = key(Text(), _DEVICE)
    argv: tuple[str, ...] = key(ListOf(Text(), min=1), "the emulator and its flags")
    runtime: str = key(Choice(RUNTIMES), "the wheel that it runs")
    tools: tuple[str, ...] = optional(_TOOLS, _TOOLS_DOC)
    packages: tuple[str, ...] = optional(ListOf(Text()), _PACKAGES_DOC)

    def runner(self) -> Runner:
        """Return how a module is run on another processor."""
        return Runner(self.device, self.argv, self.runtime, emulated=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tolerance(Section):
    """What a level of the check may differ by, if not by as much as usual."""

    times_float32: float = key(
        Number(), "largest difference allowed, in multiples of what float32 loses"
    )
    reason: str = key(Text(), "why the target loses more than float32")


@dataclass(frozen=True, slots=True, kw_only=True)
class _TargetFile(Section):
    """A target as its file describes it."""

    target: str = key(_NAME, _TARGET)
    summary: str = key(Text(), _SUMMARY)
    machine: str | None = optional(Choice(MACHINES), "the processor", default=None)
    cpu_features: tuple[str, ...] = optional(
        ListOf(Text()), "what the processor must have, as /proc/cpuinfo spells it"
    )
    compile_flags: tuple[str, ...] = key(ListOf(_FLAG, min=1), "flags of iree-compile")
    compile_inputs: tuple[str, ...] = optional(
        ListOf(Text("a path")), "files that the flags name, relative to the checkout"
    )
    layout: str = key(_NAME, "how weights are stored: targets/layouts/<name>.yaml")
    run: _Run = key(_Run, "how the compiled module is run")
    emulator: _Emulator | None = optional(
        _Emulator, "how it is run where the processor is another", default=None
    )
    limits: LimitsSection = optional(
        LimitsSection, "when an action is stopped", default=LimitsSection()
    )
    tolerances: Mapping[str, _Tolerance] = optional(
        MapOf(_Tolerance, Choice(CHECK_LEVELS)),
        "where the target loses more than float32 does, by check level",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _AliasFile(Section):
    """Another name for the first of some targets that runs here."""

    target: str = key(_NAME, _TARGET)
    summary: str = key(Text(), _SUMMARY)
    first_of: tuple[str, ...] = key(
        ListOf(_NAME, min=1),
        "targets: the first that runs here without an emulator is meant",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A way to compile and run models, complete.

    `name` is the name in the command, `resolved` the target it means: they differ for
    `host`. Every task is named after `resolved`.
    """

    name: str
    resolved: str
    path: str  # "targets/aarch64.yaml", relative to the checkout
    summary: str
    machine: str | None  # None where any processor runs it
    cpu_features: tuple[str, ...]  # that the processor must have
    compile_flags: tuple[str, ...]
    compile_inputs: tuple[tuple[str, Path], ...]  # files that the flags name, and where
    layout: Layout
    runner: Runner
    tools: tuple[str, ...]  # whose identity is in the key of what runs here
    packages: tuple[str, ...]  # Debian packages that bring the tools
    limits: LimitsSection  # of each action of the target
    tolerances: Mapping[str, Tolerance]  # by check level, of those that are unusual

    def unrunnable_reason(self) -> str | None:
        """Return why this machine's processor cannot run it, None where it can.

        A missing emulator or driver is no such reason: it can be installed.
        """
        if self.runner.prefix or self.machine is None:
            return None
        return processor_gap(self.machine, self.cpu_features)


def read_target(path: Path, root: Path, via: tuple[str, ...] = ()) -> Target:
    """Return the target that a file below the checkout's root declares.

    `via` are the other names of targets that lead to it.

    Raises:
        ExceptionGroup: of ManifestError, every mistake.
    """
    path, root = path.absolute(), root.absolute()
    if "first_of" in load(path, root).entries:
        return _first_of(read(path, root, _AliasFile), path, root, via)
    file = read(path, root, _TargetFile)
    errors = [*_check_name(file, path), *_check(file, root)]
    with collected(errors):
        layout = _layout(file, root)
    raise_all(errors)
    return _target(file, layout, root)


def _check_name(file: _TargetFile | _AliasFile, path: Path) -> Iterator[ManifestError]:
    if file.target != path.stem:
        yield file.at.error("target", f"expected the file's name '{path.stem}'")


def _first_of(file: _AliasFile, path: Path, root: Path, via: tuple[str, ...]) -> Target:
    """Return the first target of a list that runs here natively."""
    errors = [*_check_name(file, path)]
    via = (*via, path.stem)
    known = [Path(name).stem for name in names(root, "targets/*.yaml")]
    reasons = []
    for index, name in enumerate(file.first_of):
        if name not in known:
            others = [item for item in known if item != path.stem]
            hint = did_you_mean(name, others, "targets")
            message = f"no target named '{name}'"
            errors.append(file.at.error(f"first_of[{index}]", message, hint))
            continue
        if name in via:
            circle = " -> ".join((*via[via.index(name) :], name))
            message = f"a circle of names: {circle}"
            raise_all([*errors, file.at.error(f"first_of[{index}]", message)])
        candidate = read_target(find(root, f"targets/{name}.yaml"), root, via)
        reason = candidate.unrunnable_reason()
        if reason is None and not candidate.runner.prefix:
            raise_all(errors)
            summary = f"{file.summary}: {name}"
            return replace(candidate, name=file.target, summary=summary)
        reasons.append(f"{name}: {reason or 'would be emulated'}")
    hint = "\n  ".join(reasons)
    none = file.at.error("first_of", "none of these runs here", hint)
    raise_all(errors or [none])
    raise AssertionError


def _check(file: _TargetFile, root: Path) -> Iterator[ManifestError]:
    """Yield where a target's parts contradict each other, or name no file."""
    if file.emulator and file.machine is None:
        hint = "machine: the processor that needs no emulator"
        yield file.at.key_error("", "emulator", "'machine' is missing", hint)
    for index, name in enumerate(file.compile_inputs):
        if not find(root, name).is_file():
            hint = "write it relative to the checkout: targets/<name>"
            yield file.at.error(f"compile_inputs[{index}]", f"no file '{name}'", hint)


def _layout(file: _TargetFile, root: Path) -> Layout:
    """Return the layout that a target names.

    Raises:
        ExceptionGroup: of ManifestError, every mistake in the layout.
    """
    path = find(root, f"{FOLDER}/{file.layout}.yaml")
    if not os.path.lexists(path):
        known = [Path(name).stem for name in names(root, f"{FOLDER}/*.yaml")]
        message, hint = error_text("layout", file.layout)
        if not message:
            message = f"no layout named '{file.layout}'"
            hint = did_you_mean(file.layout, known, "layouts")
        raise_all([file.at.error("layout", message, hint)])
    return read_layout(path, root)


def _target(file: _TargetFile, layout: Layout, root: Path) -> Target:
    run = (file.emulator if file.machine != platform.machine() else None) or file.run
    path = file.at.position().path
    return Target(
        name=file.target,
        resolved=file.target,
        path=path,
        summary=file.summary,
        machine=file.machine,
        cpu_features=file.cpu_features,
        compile_flags=file.compile_flags,
        compile_inputs=tuple((name, find(root, name)) for name in file.compile_inputs),
        layout=layout,
        runner=run.runner(),
        tools=run.tools,
        packages=run.packages,
        limits=file.limits,
        tolerances={
            level: Tolerance.losses(
                item.times_float32,
                f"{path}:{item.at.position('times_float32').line}",
            )
            for level, item in file.tolerances.items()
        },
    )
