"""A linked module and a target in, its vmfb out, and what is made on the way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ingot.engine.actions import Action, Output, SourceFile
from ingot.model.graph import Graph

if TYPE_CHECKING:
    from ingot.model.target import Target

# Two places where the compiler would write down where and from what it compiled.
REPRODUCIBLE = (
    "--iree-vm-bytecode-module-strip-source-map",
    "--iree-llvmcpu-debug-symbols=false",
)

# IREE 3.13 hangs now and then without it: the thread that loads a target's kernels
# holds their lock while it checks them in parallel, and may take on another function
# that wants the lock. What comes behind CONFIGURED reads no kernels.
SERIAL = "--mlir-disable-threading"

# The phase in which every kernel has its strategy, and no code yet. The rest is most of
# the work, and is done by all processors.
CONFIGURED = "executable-configurations"

# Where the compiler can stop and go on, in order: linalg on tensors, buffers and the
# times of their lives, the program of the virtual machine.
PHASES = ("input", "stream", "vm")


def plan_compile(graph: Graph, target: Target) -> Iterator[Action]:
    """Yield the actions that make `model.vmfb`."""
    yield from _plan(graph, target, "compile", "link", "", "model.vmfb")


def plan_compile_probe(graph: Graph, target: Target) -> Iterator[Action]:
    """Yield the actions that make `probe.vmfb`, with the flags of `model.vmfb`."""
    yield from _plan(
        graph, target, "compile-probe", "link-probe", "probe.", "probe.vmfb"
    )


def plan_compile_sanitize(graph: Graph, target: Target) -> Iterator[Action]:
    """Yield the actions that make `sanitize.vmfb`, with the flags of `model.vmfb`."""
    stage = "sanitize"
    yield from _plan(
        graph, target, stage, f"{stage}-link", f"{stage}.", f"{stage}.vmfb"
    )


def plan_ir(graph: Graph, target: Target) -> Iterator[Action]:
    """Yield the actions that make `<phase>.mlir`, each of the phase before.

    The flags are those of `model.vmfb`: in steps the compiler makes the same bytes, but
    for the file and the line that SPIR-V says it was made of.
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
    """Return the command that compiles a file, as far as the steps say."""
    flags = (*steps, *REPRODUCIBLE, *target.compile_flags)
    return ("iree-compile", source, *flags, "-o", output)


def _plan(
    graph: Graph, target: Target, stage: str, link: str, prefix: str, output: str
) -> Iterator[Action]:
    source = (f"{prefix}linked.mlir", f"{link}:{graph.model}@{graph.layout}")
    steps = (SERIAL, f"--compile-to={CONFIGURED}")
    configured = f"{prefix}configured.mlir"
    first = _action(graph, target, f"{stage}-configured", source, configured, steps)
    yield first
    rest = (f"--compile-from={CONFIGURED}",)
    yield _action(graph, target, stage, (configured, first.task), output, rest)


def _action(
    graph: Graph,
    target: Target,
    stage: str,
    source: tuple[str, str],
    output: str,
    steps: tuple[str, ...],
) -> Action:
    """Return the action that compiles a source, of this name and made by this task."""
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
