"""Measure the error of every component on some targets, for docs/components.json.

    python -m tests.measure_components x86_64 aarch64 vulkan

runs each component on each target at sizes that are no multiple of a vector, compares
it with its oracle, and writes `docs/components.json`. What is there of other targets,
and of components that are not asked for (`only=shape/*,moe/*`), stays.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np

from ingot.errors import IngotError
from ingot.model.component import ScalarFormal, TensorFormal
from ingot.model.target import Target
from ingot.report.components_page import DATA, digest
from ingot.runtime.invoke import Call, Module, call
from tests import scratch
from tests.component_cases import (
    ROOT,
    TOLERANCE,
    VARIANTS,
    Case,
    cases,
    row_sizes,
    signature_of,
)
from tests.component_runs import difference, expected_of, passed
from tests.test_odd_sizes import ROW, instance, linked, of_tree, served


def errors(target: Target, components: tuple[str, ...], folder: Path) -> Iterator[Any]:
    """Yield each component with its largest error; None where it is wrong or fails."""
    source = linked(components, folder)
    vmfb = scratch.compiled(target, source, folder / "compiled")
    for component in components:
        signature = signature_of(component)
        worst = 0.0
        for case in cases(signature, row_sizes(signature, ROW)):
            found = error(target, vmfb, component, case)
            worst = np.inf if found is None else max(worst, found)
        yield component, None if np.isinf(worst) else float(f"{worst:.1e}")


def error(target: Target, vmfb: Path, component: str, case: Case) -> float | None:
    """Return the largest error of a call, of 1 + |expected|; None where it is wrong."""
    signature = signature_of(component)
    arguments = passed(signature, case, bound=True)
    count = sum(isinstance(item, TensorFormal) for item in signature.arguments)
    numbers = sum(isinstance(item, ScalarFormal) for item in signature.arguments)
    what = Call(
        f"component.{instance(component).name}",
        tuple(arguments[:count]),
        tuple(arguments[count : count + numbers]),
        len(signature.results),
    )
    try:
        found = call(target.runner, Module(vmfb), what)
    except IngotError as failure:
        print(f"{component}@{target.name}: {failure}", file=sys.stderr)
        return None
    expected = expected_of(signature, case)
    wrong = difference(signature, found, expected)
    if wrong:
        print(f"{component}@{target.name}: {wrong}", file=sys.stderr)
        return None
    return max(
        float((np.abs(got.astype(np.float64) - exact) / (1 + np.abs(exact))).max())
        for got, exact in zip(found, expected, strict=True)
    )


def measure(target: Target, only: str) -> Iterator[dict[str, float | None]]:
    """Yield the errors of the components that a target has, family by family."""
    families: dict[str, list[str]] = {}
    for component in VARIANTS:
        asked = any(fnmatch(component, pattern) for pattern in only.split(","))
        if asked and component in served(target.name):
            families.setdefault(component.partition("/")[0], []).append(component)
    for family, components in families.items():
        with tempfile.TemporaryDirectory() as name:
            yield dict(errors(target, tuple(components), Path(name)))
        print(f"{target.name}: {family}", flush=True)


def write(target: str, found: dict[str, float | None]) -> None:
    """Put what was found into the file; what is there no more goes out of it."""
    path = ROOT / DATA
    kept = json.loads(path.read_text("utf-8")) if path.exists() else {"measured": {}}
    measured = kept["measured"]
    for component, worst in found.items():
        row = measured.setdefault(component, {})
        row[target] = {"error": worst, "component": digest(ROOT, component)}
    measured = {
        component: dict(sorted(measured[component].items()))
        for component in sorted(measured)
        if component in VARIANTS
    }
    content = {"sizes": ROW, "tolerance": TOLERANCE, "measured": measured}
    path.write_text(json.dumps(content, indent=1) + "\n", "utf-8")


def main() -> None:
    """Measure the targets that `argv` names, and write the file."""
    words = sys.argv[1:]
    only = next((w.removeprefix("only=") for w in words if "=" in w), "*")
    for name in (word for word in words if "=" not in word):
        for found in measure(of_tree(name), only):
            write(name, found)


if __name__ == "__main__":
    main()
