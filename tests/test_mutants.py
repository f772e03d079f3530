"""Test that every planted mistake fails the check of its component.

Three mistakes of a share of the components; nightly, a dozen of each.
No check could see a mistake that the compiler rejects, so these do not count. The
component as it is lies in the same module, and passes: none fails for another reason.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import os
import re
import resource
import select
import signal
import subprocess
import sys
import threading
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingot.model.component import ComponentSignature, read_component
from tests.component_cases import (
    COMPONENTS,
    ROOT,
    ROWS,
    Case,
    cases,
    component_files,
    is_for_cpus,
    row_sizes,
)
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

# A part of the components, the same at every run; the kernels of packed weights, whose
# compilation takes longest, are in the full set alone.
# The kernels of GGUF's blocks, which i4_block32 stands for, are in the full set alone.
ALIKE = ("_q4_1", "_q5_0", "_q4_k", "_q6_k")
CHOSEN = [
    item
    for item in COMPONENTS
    if zlib.crc32(item.encode()) % 3 == 0
    and not is_for_cpus(item)
    and not item.endswith(ALIKE)
]
COUNTS = [
    *((item, 3) for item in CHOSEN),
    *(pytest.param(item, 12, marks=pytest.mark.nightly) for item in COMPONENTS),
]
# Of a processor's time: a mistaken bound may make a loop without end. The slowest
# component takes 3 s for all its cases.
LIMIT_S = 15
# Of the clock, without a moment of a processor's: a busy machine makes nobody sleep.
IDLE_S = 10
LOOK_S = 0.5
# What ends a call by its own doing. Not SIGKILL: a machine without memory sends it.
CRASHES = ("SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGSEGV", "SIGXCPU")
SEEN = ("differs", *CRASHES)
PR_SET_PDEATHSIG = 1  # linux/prctl.h
# This tests the check, not the code, so the flags are those that compile fastest.
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
        functions |= {k: v for k, v in made.items() if not isinstance(v, str)}
        found = found[len(tried) :]
    return functions


Known = list[tuple[Case, tuple[Any, ...]]]


def outcome(forward: Forward, signature: ComponentSignature, known: Known) -> str:
    """Return how the check ends, in a process that a mistake may end.

    Returns: "passes", "differs", the signal that killed it, or "waits": a call that
    fails may wait for a thread of the runtime, which no child has. That proves nothing.
    """
    parent, child = os.getpid(), os.fork()
    if child:
        try:
            return "waits" if waits(child) else ended(child)
        except BaseException:
            # Ctrl-C, or the test's own end: a call that waits would do so for ever.
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
            raise
    code = 1
    try:
        end_with(parent)
        faulthandler.disable()
        # At the second number it is SIGKILL, which others send too.
        resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_S, LIMIT_S + 5))
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        code = any(
            difference(signature, forward(*passed(signature, case, False)), expected)
            for case, expected in known
        )
    finally:
        os._exit(int(code))


def end_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends, however that ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def waits(child: int) -> bool:
    """Return whether a child had to be ended since nothing in it runs, or ever will."""
    looked = select.poll()
    end = os.pidfd_open(child)
    looked.register(end, select.POLLIN)
    last: tuple[str, ...] = ()
    n_idle = 0
    while not looked.poll(LOOK_S * 1000) and n_idle * LOOK_S < IDLE_S:
        now = threads(child)
        n_idle = n_idle + 1 if now == last and set(now[::2]) <= {"S"} else 0
        last = now
    os.close(end)
    if n_idle * LOOK_S < IDLE_S:
        return False
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return True


def threads(process: int) -> tuple[str, ...]:
    """Return the state of each thread, "S" where it sleeps, and the time it has had."""
    found: list[str] = []
    for path in sorted(Path(f"/proc/{process}/task").glob("*/stat")):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            # The text before the last ")" is the name.
            words = path.read_text().rpartition(")")[2].split()
            found += (words[0], f"{words[11]} {words[12]}")
    return tuple(found)


def ended(child: int) -> str:
    """Return how a child that is at its end ended."""
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return signal.Signals(-code).name if code < 0 else ("passes", "differs")[code]


def judged(component: str) -> tuple[ComponentSignature, Known]:
    """Return a component's signature, and its cases with what the oracle says."""
    signature = read_component(component, ROOT)
    known = [
        (case, expected_of(signature, case))
        for row in ROWS
        for case in cases(signature, row_sizes(signature, row))
    ]
    # The smallest last: most mistakes show at once where there is much.
    known.sort(key=lambda item: -sum(np.size(part) for part in item[1]))
    return signature, known


@pytest.mark.reads(files=component_files)
@pytest.mark.parametrize(("component", "count"), COUNTS)
def test_the_check_sees_planted_mistakes(
    component: str, count: int, tmp_path: Path
) -> None:
    signature, known = judged(component)
    text = (ROOT / f"components/{component}.mlir").read_text("utf-8")
    right = Mutant("none", "none", text)
    functions = compiled([right, *planted(component)], count + 1, tmp_path)
    outcomes = {
        name: outcome(item, signature, known) for name, item in functions.items()
    }
    unseen = {name: how for name, how in outcomes.items() if how not in SEEN}
    enough = len(functions) > 3 or component in FEW
    assert enough, f"{component}: {len(functions) - 1} mistakes compile"
    assert unseen == {"none": "passes"}, f"{component}: not seen: {unseen}"


def kill_itself(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def wait_for_ever(*_: object) -> None:
    threading.Event().wait()


def loop_for_ever(*_: object) -> None:
    while True:
        pass


@pytest.mark.parametrize(
    ("forward", "how"),
    [
        (wait_for_ever, "waits"),
        (loop_for_ever, "SIGXCPU"),
        (kill_itself, "SIGKILL"),
        (np.abs, "differs"),
    ],
)
def test_how_a_check_ends_is_told(
    forward: Forward, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = {"LIMIT_S": 2, "IDLE_S": 0.3, "LOOK_S": 0.1}
    for name, seconds in limits.items():
        monkeypatch.setitem(globals(), name, seconds)
    assert outcome(forward, *judged("activation/relu")) == how
    assert (how in SEEN) == (how in ("differs", "SIGXCPU"))


WAITING = """
import os, sys, threading
from tests import test_mutants

def forward(*_):
    os.write(1, str(os.getpid()).encode())
    threading.Event().wait()

test_mutants.outcome(forward, *test_mutants.judged("activation/relu"))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_check_leaves_no_process(number: signal.Signals) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", WAITING],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert parent.stdout is not None
    # The child writes its number once it waits; nothing else is written.
    child = os.pidfd_open(int(os.read(parent.stdout.fileno(), 20)))
    parent.send_signal(number)
    parent.communicate(timeout=60)
    assert select.select([child], [], [], 60)[0], "the child is still there"
    os.close(child)


def test_a_check_that_gets_no_processor_does_not_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(globals(), "IDLE_S", 0.3)
    monkeypatch.setitem(globals(), "LOOK_S", 0.1)
    child = os.fork()
    if not child:
        os.kill(os.getpid(), signal.SIGSTOP)
        os._exit(0)
    threading.Timer(1, os.kill, (child, signal.SIGCONT)).start()
    assert not waits(child)
    assert ended(child) == "passes"


def test_every_excluded_mistake_can_still_be_planted() -> None:
    names = {
        f"{component}: {item.name}"
        for component in COMPONENTS
        for item in mutants((ROOT / f"components/{component}.mlir").read_text("utf-8"))
    }
    assert sorted(set(EQUIVALENT) - names) == []
    assert all(re.search(r"\w", reason) for reason in EQUIVALENT.values())
