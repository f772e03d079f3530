"""Plan the actions that link a graph's entry points with its specialised instances.

`iree-link` resolves the declarations `@<instance>.forward` in the generated text. Its
output contains no comments and no paths, so equal graphs have equal linked modules.
"""

from __future__ import annotations

from ingot.emit.modules import main_module, probe_module
from ingot.engine.actions import Action, InlineText, Output
from ingot.model.graph import Graph


def plan_link(graph: Graph) -> Action:
    """Return the action that links `linked.mlir`: the model's entry points."""
    return _plan(graph, "link", "main.mlir", main_module(graph), "linked.mlir")


def plan_link_probe(graph: Graph) -> Action:
    """Return the action that links `probe.linked.mlir`, which the check calls."""
    text = probe_module(graph)
    return _plan(graph, "link-probe", "probe.mlir", text, "probe.linked.mlir")


def plan_link_sanitize(graph: Graph) -> Action:
    """Return the action that links `sanitize.linked.mlir`, which checks indices."""
    text = main_module(graph, checks_indices=True)
    return _plan(graph, "sanitize-link", "sanitize.mlir", text, "sanitize.linked.mlir")


def _plan(graph: Graph, stage: str, source: str, text: str, output: str) -> Action:
    modules = [f"{instance.name}.mlir" for instance in graph.instances]
    return Action(
        task=f"{stage}:{graph.model}@{graph.layout}",
        argv=(
            "iree-link",
            source,
            *(word for module in modules for word in ("--link-module", module)),
            "-o",
            output,
        ),
        inputs=(
            (source, InlineText(text)),
            *(
                (module, Output(f"specialize:{instance.name}", module))
                for module, instance in zip(modules, graph.instances, strict=True)
            ),
        ),
        outputs=(output,),
        tools=("iree-base-compiler",),
        exported_to=(f"build/{graph.model}/linked/{graph.layout}/{output}",),
    )
