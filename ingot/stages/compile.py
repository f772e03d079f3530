"""Plan the actions that compile a linked module for a target.

Compilation is split into two actions. The first runs `iree-compile` up to CONFIGURED on
one thread, the second does the rest, which is most of the work, on all cores. The
resulting bytes are those of a single command.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from ingot.emit.modules import block_modules, component_groups
from ingot.engine.actions import Action, Output, SourceFile
from ingot.model.graph import Graph

if TYPE_CHECKING:
    from ingot.model.target import Target

# Without these flags the module would contain the paths and lines of its source.
REPRODUCIBLE = (
    "--iree-vm-bytecode-module-strip-source-map",
    "--iree-llvmcpu-debug-symbols=false",
)

# IREE 3.13 can deadlock without this flag. The thread that loads a target's kernel
# library holds its lock while it verifies the library in parallel, and may then start
# on another function that needs the lock. No phase after CONFIGURED reads the library.
SERIAL = "--mlir-disable-threading"

# The phase after which every kernel has a strategy, but no code.
CONFIGURED = "executable-configurations"

# The phases whose IR `doit inspect` shows, in order: linalg on tensors; buffers with
# their lifetimes; the program of the virtual machine.
PHASES = ("input", "stream", "vm")


def plan_compile(graph: Graph, target: Target) -> Iterator[Action]:
    """Yield the actions that compile `model.vmfb`."""
    source = ("linked.mlir", f"link:{graph.model}@{graph.layout}")
    steps = (SERIAL, f"--compile-to={CONFIGURED}")
    configured = "configured.mlir"
    first = _action(graph, target, "compile-configured", source, configured, steps)
    yield first
    rest = (f"--compile-from={CONFIGURED}",)
    source = (configured, first.task)
    yield _action(graph, target, "compile", source, "model.vmfb", rest)


def plan_compile_pieces(graph: Graph, target: Target) -> Iterator[Action]:
    """Yield the actions that compile components and blocks for the check.

    They have the flags of `model.vmfb`. Each is so small that one thread does it all.
    """
    groups = component_groups(graph, target.runner.is_slow)
    names = [
        *(f"component-{group.name}" for group in groups),
        *(f"block-{form.name}" for form in block_modules(graph)),
    ]
    for name in names:
        source = ("piece.linked.mlir", f"link-{name}:{graph.model}@{graph.layout}")
        action = _action(
            graph, target, f"compile-{name}", source, "piece.vmfb", (SERIAL,)
        )
        yield replace(action, exported_to=())


def plan_ir(graph: Graph, target: Target) -> Iterator[Action]:
    """Yield the actions that dump the IR after each phase as `<phase>.mlir`.

    Each action continues from the previous dump, with the flags of `model.vmfb`. The
    compiler reaches the same bytes in steps as in one run, except for the file and line
    that SPIR-V records.
    """
    source = ("linked.mlir", f"link:{graph.model}@{graph.layout}")
    before: tuple[str, ...] = ()
    for phase in PHASES:
        steps = (*before, f"--compile-to={phase}", SERIAL)
        action = _action(graph, target, f"ir-{phase}", source, f"{phase}.mlir", steps)
        yield action
        source = (f"{phase}.mlir", action.task)
        before = (f"--compile-from={phase}",)


def command(
    target: Target, source: str, output: str, steps: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the command that compiles a file between the phases that `steps` name."""
    flags = (*steps, *REPRODUCIBLE, *target.compile_flags)
    return ("iree-compile", source, *flags, "-o", output)


def _action(
    graph: Graph,
    target: Target,
    stage: str,
    source: tuple[str, str],
    output: str,
    steps: tuple[str, ...],
) -> Action:
    """Return the action that compiles a source, given as (name, task)."""
    name, task = source
    return Action(
        task=f"{stage}:{graph.model}@{target.resolved}",
        argv=command(target, name, output, steps),
        inputs=(
            (name, Output(task, name)),
            *((path, SourceFile(place)) for path, place in target.compile_inputs),
        ),
        outputs=(output,),
        tools=("iree-base-compiler",),
        exported_to=(f"build/{graph.model}/{target.resolved}/{output}",),
    )
