"""A target's YAML in, the frozen Target out: how to compile for it, how to run it here.

What this machine can run is read from /proc/cpuinfo, so that asking starts no process.
"""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass, replace
from pathlib import Path

from ingot.engine.actions import Runner
from ingot.engine.machine import cpu_features
from ingot.errors import ManifestError, did_you_mean
from ingot.model.layout import FOLDER, Layout, read_layout
from ingot.model.manifest_schema import CHECK_LEVELS
from ingot.model.schema_types import check
from ingot.model.target_schema import ALIAS, TARGET
from ingot.model.yaml_nodes import Node, load, raise_all


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """What a level of the check may differ by on this target, and why."""

    level: str  # "component"
    max_abs_error: float
    min_cosine: float | None
    reason: str
    source: str  # "targets/aarch64.yaml:31"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A way to compile and run models, complete.

    `name` is what was asked for, `resolved` the target it means: they differ only for
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
    tolerances: tuple[Tolerance, ...]  # one per check level

    def tolerance(self, level: str) -> Tolerance:
        """Return the tolerance of a check level."""
        return next(item for item in self.tolerances if item.level == level)

    def unrunnable_reason(self) -> str | None:
        """Return why this machine's processor cannot run it, None where it can.

        A missing emulator or driver is no such reason: it can be installed.
        """
        if self.runner.prefix or self.machine is None:
            return None
        if self.machine != platform.machine():
            return f"the processor is {platform.machine()}, not {self.machine}"
        found = cpu_features().split()
        missing = [name for name in self.cpu_features if name not in found]
        return f"the processor lacks {', '.join(missing)}" if missing else None


def read_target(path: Path, root: Path) -> Target:
    """Return the target that a file below the checkout's root declares.

    Raises:
        ExceptionGroup: of ManifestError, every defect.
    """
    path, root = path.absolute(), root.absolute()
    node = load(path, root)
    alias = "first_of" in node.entries
    errors = check(node, ALIAS if alias else TARGET)
    raise_all(errors)
    name = node["target"]
    if name.text != path.stem:
        errors.append(name.error(f"expected the file's name '{path.stem}'"))
    target = (
        _first_of(node, path, root, errors) if alias else _target(node, root, errors)
    )
    raise_all(errors)
    assert target is not None
    return target


def _first_of(
    node: Node, path: Path, root: Path, errors: list[ManifestError]
) -> Target | None:
    """Return the first target of a list that runs here natively; None, errors added."""
    known = sorted(item.stem for item in path.parent.glob("*.yaml") if item != path)
    reasons = []
    for item in node["first_of"].items:
        if item.text not in known:
            hint = did_you_mean(item.text, known, "targets")
            errors.append(item.error(f"no target named '{item.text}'", hint))
            continue
        candidate = read_target(path.with_name(f"{item.text}.yaml"), root)
        reason = candidate.unrunnable_reason()
        if reason is None and not candidate.runner.prefix:
            summary = f"{node['summary'].text}: {item.text}"
            return replace(candidate, name=node["target"].text, summary=summary)
        reasons.append(f"{item.text}: {reason or 'would be emulated'}")
    if not errors:
        hint = "\n  ".join(reasons)
        errors.append(node["first_of"].error("none of these runs here", hint))
    return None


def _target(node: Node, root: Path, errors: list[ManifestError]) -> Target:
    machine = node.get("machine")
    run, emulator = node["run"], node.get("emulator")
    if emulator and machine is None:
        hint = "machine: the processor that needs no emulator"
        errors.append(node.key_error("emulator", "'machine' is missing", hint))
    emulated = emulator and machine and machine.text != platform.machine()
    chosen = emulator if emulator and emulated else run
    return Target(
        name=node["target"].text,
        resolved=node["target"].text,
        path=node.position.path,
        summary=node["summary"].text,
        machine=machine.text if machine else None,
        cpu_features=_texts(node, "cpu_features"),
        compile_flags=_texts(node, "compile_flags"),
        compile_inputs=_compile_inputs(node, root, errors),
        layout=_layout(node["layout"], root, errors),
        runner=_emulator(emulator) if emulator and emulated else _runner(run),
        tools=_texts(chosen, "tools"),
        packages=_texts(chosen, "packages"),
        tolerances=_tolerances(node, errors),
    )


def _layout(node: Node, root: Path, errors: list[ManifestError]) -> Layout:
    """Return the layout that a target names; an empty one, errors added."""
    folder = root / FOLDER
    if os.path.lexists(folder / f"{node.text}.yaml"):
        try:
            return read_layout(folder / f"{node.text}.yaml", root)
        except ExceptionGroup as group:
            errors += [e for e in group.exceptions if isinstance(e, ManifestError)]
    else:
        known = sorted(path.stem for path in folder.glob("*.yaml"))
        hint = did_you_mean(node.text, known, "layouts")
        errors.append(node.error(f"no layout named '{node.text}'", hint))
    return Layout(node.text, "", 1, {}, {})


def _compile_inputs(
    node: Node, root: Path, errors: list[ManifestError]
) -> tuple[tuple[str, Path], ...]:
    found = node.get("compile_inputs")
    items = found.items if found else ()
    for item in items:
        if not (root / item.text).is_file():
            hint = "write it relative to the checkout: targets/<name>"
            errors.append(item.error(f"no file '{item.text}'", hint))
    return tuple((item.text, root / item.text) for item in items)


def _runner(node: Node) -> Runner:
    env, emulated = node.get("env"), node.get("emulated")
    variables = env.entries if env else {}
    return Runner(
        device=node["device"].text,
        env=tuple((name, value.text) for name, value in sorted(variables.items())),
        emulated=emulated.boolean if emulated else False,
    )


def _emulator(node: Node) -> Runner:
    return Runner(
        device=node["device"].text,
        prefix=_texts(node, "argv"),
        runtime=node["runtime"].text,
        emulated=True,
    )


def _tolerances(node: Node, errors: list[ManifestError]) -> tuple[Tolerance, ...]:
    levels = node["tolerances"]
    missing = [level for level in CHECK_LEVELS if level not in levels.entries]
    if missing:
        errors.append(levels.error(f"no tolerance for {', '.join(missing)}"))
    return tuple(
        Tolerance(
            level=level,
            max_abs_error=item["max_abs_error"].number,
            min_cosine=cosine.number if (cosine := item.get("min_cosine")) else None,
            reason=item["reason"].text,
            source=f"{item.position.path}:{item['max_abs_error'].position.line}",
        )
        for level, item in levels.entries.items()
    )


def _texts(node: Node, key: str) -> tuple[str, ...]:
    found = node.get(key)
    return tuple(item.text for item in found.items) if found else ()
