"""A linked module and a target in, the target's vmfb out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingot.graph import Graph
from ingot.values import Action, Output, SourceFile

if TYPE_CHECKING:
    from ingot.readers.target import Target

# Two places where the compiler would write down where and from what it compiled.
REPRODUCIBLE = (
    "--iree-vm-bytecode-module-strip-source-map",
    "--iree-llvmcpu-debug-symbols=false",
)

# IREE 3.13 hangs now and then without it: the thread that loads a target's kernels
# holds their lock while it checks them in parallel, and may take on another function
# that wants the lock. Actions run side by side, so the processors have work.
SERIAL = "--mlir-disable-threading"


def plan_compile(graph: Graph, target: Target) -> Action:
    """Return the action that makes `model.vmfb`."""
    return _plan(graph, target, "compile", "link", "model.vmfb")


def plan_compile_probe(graph: Graph, target: Target) -> Action:
    """Return the action that makes `probe.vmfb`, with the flags of `model.vmfb`."""
    return _plan(graph, target, "compile-probe", "link-probe", "probe.vmfb")


def _plan(graph: Graph, target: Target, stage: str, link: str, output: str) -> Action:
    linked = "probe.linked.mlir" if stage == "compile-probe" else "linked.mlir"
    return Action(
        task=f"{stage}:{graph.model}@{target.resolved}",
        argv=(
            "iree-compile",
            linked,
            *REPRODUCIBLE,
            SERIAL,
            *target.compile_flags,
            "-o",
            output,
        ),
        inputs=(
            (linked, Output(f"{link}:{graph.model}@{graph.layout}", linked)),
            *((name, SourceFile(path)) for name, path in target.compile_inputs),
        ),
        outputs=(output,),
        tools=("iree-base-compiler",),
        shown=(f"build/{graph.model}/{target.resolved}/{output}",),
    )
