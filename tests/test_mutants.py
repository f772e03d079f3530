"""Every planted mistake fails the check of its component: the checks see mistakes.

In CI three mistakes of a share of the components; with `INGOT_FULL=1` a dozen of each.
A mistake that the compiler refuses is no mistake that a check could have seen. The
component as it is lies in the same module, and passes: none fails for another reason.
"""

from __future__ import annotations

import faulthandler
import os
import re
import resource
import signal
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingot.readers.component import ComponentSignature, read_component
from tests.component_cases import COMPONENTS, ROOT, ROWS, Case, cases, row_sizes
from tests.component_runs import (
    FLAGS,
    Forward,
    difference,
    expected_of,
    passed,
    together,
)
from tests.equivalent_mutants import EQUIVALENT, FEW
from tests.mutants import Mutant, mutants

FULL = bool(os.environ.get("INGOT_FULL"))
WANTED = 12 if FULL else 3
# A part of the components, the same at every run; the kernels of packed weights, whose
# compilation takes longest, are in the full set alone.
CHOSEN = [
    item
    for item in COMPONENTS
    if FULL or (zlib.crc32(item.encode()) % 3 == 0 and "_packed" not in item)
]
# Of a processor's time: a mistaken bound may make a loop without end. The slowest
# component takes 3 s for all its cases.
LIMIT_S = 15
# Of the clock: on a busy machine those 3 s are many more.
IDLE_S = 60
# What is judged is the check, not the code: that which compiles in half the time.
QUICK_FLAGS = (
    *FLAGS,
    "--iree-llvmcpu-disable-distribution",
    "--iree-llvmcpu-vector-pproc-strategy=none",
)


def planted(component: str) -> list[Mutant]:
    """Return mistakes that the compiler's parser accepts, and that are mistakes."""
    from iree.compiler import ir

    text = (ROOT / f"components/{component}.mlir").read_text("utf-8")
    found: list[Mutant] = []
    with ir.Context() as context:
        context.attach_diagnostic_handler(lambda _: True)
        for item in mutants(text):
            if f"{component}: {item.name}" in EQUIVALENT:
                continue
            try:
                ir.Module.parse(item.text)
            except ir.MLIRError:
                continue
            found.append(item)
    return found


def compiled(found: list[Mutant], count: int, folder: Path) -> dict[str, Forward]:
    """Return the functions of the first mistakes that compile, by name."""
    functions: dict[str, Forward] = {}
    while found and len(functions) < count:
        tried = found[: count - len(functions)]
        texts = {item.name: item.text for item in tried}
        made = together(texts, folder, QUICK_FLAGS)
        functions |= {k: made[k] for k in made if not isinstance(made[k], str)}
        found = found[len(tried) :]
    return functions


Known = list[tuple[Case, tuple[Any, ...]]]


def survives(forward: Forward, signature: ComponentSignature, known: Known) -> bool:
    """Return whether the check passes; in a process that a mistake may end."""
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        return os.waitstatus_to_exitcode(status) == 0
    code = 1
    try:
        faulthandler.disable()
        resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_S, LIMIT_S))
        # A call that fails waits for a thread of the runtime, which no child has.
        signal.alarm(IDLE_S)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        code = any(
            difference(signature, forward(*passed(signature, case, False)), expected)
            for case, expected in known
        )
    finally:
        os._exit(int(code))


@pytest.mark.parametrize("component", CHOSEN)
def test_the_check_sees_planted_mistakes(component: str, tmp_path: Path) -> None:
    signature = read_component(component, ROOT)
    text = (ROOT / f"components/{component}.mlir").read_text("utf-8")
    right = Mutant("none", "none", text)
    functions = compiled([right, *planted(component)], WANTED + 1, tmp_path)
    known = [
        (case, expected_of(signature, case))
        for row in ROWS
        for case in cases(signature, row_sizes(signature, row))
    ]
    # The smallest last: most mistakes show at once where there is much.
    known.sort(key=lambda item: -sum(np.size(part) for part in item[1]))
    passing = [
        name for name, item in functions.items() if survives(item, signature, known)
    ]
    enough = len(functions) > 3 or component in FEW
    assert enough, f"{component}: {len(functions) - 1} mistakes compile"
    assert passing == ["none"], f"{component}: the check passes with {passing}"


def test_every_excluded_mistake_can_still_be_planted() -> None:
    names = {
        f"{component}: {item.name}"
        for component in COMPONENTS
        for item in mutants((ROOT / f"components/{component}.mlir").read_text("utf-8"))
    }
    assert sorted(set(EQUIVALENT) - names) == []
    assert all(re.search(r"\w", reason) for reason in EQUIVALENT.values())
