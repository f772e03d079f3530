"""Plan the actions that link a graph's entry points with its specialised instances.

`iree-link` resolves the declarations `@<instance>.forward` in the generated text. Its
output contains no comments and no paths, so equal graphs have equal linked modules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ingot.emit.modules import (
    ComponentGroup,
    block_module,
    block_modules,
    component_groups,
    component_module,
    instances_of,
    main_module,
)
from ingot.engine.actions import Action, InlineText, Output
from ingot.model.graph import Graph, Instance


def plan_link(graph: Graph) -> Action:
    """Return the action that links `linked.mlir`: the model's entry points."""
    text, output = main_module(graph), "linked.mlir"
    action = _link(graph, "link", "main.mlir", text, output, graph.instances)
    path = f"build/{graph.model}/linked/{graph.layout}/{output}"
    return replace(action, exported_to=(path,))


def plan_link_components(graph: Graph, is_slow: bool) -> Iterator[Action]:
    """Yield the actions that link components alone, as the check calls them."""
    for group in component_groups(graph, is_slow):
        yield plan_link_component(graph, group)


def plan_link_component(graph: Graph, group: ComponentGroup) -> Action:
    """Return the action that links some instances alone."""
    text = component_module(group, graph.dynamic)
    return _plan_piece(graph, f"link-component-{group.name}", text, group.instances)


def plan_link_blocks(graph: Graph) -> Iterator[Action]:
    """Yield the actions that link blocks, as the check calls them."""
    blocks = {(e.name, b.name): b for e in graph.entry_points for b in e.blocks}
    for form in block_modules(graph):
        instances = instances_of(graph, (blocks[pair] for pair in form.blocks))
        stage = f"link-block-{form.name}"
        yield _plan_piece(graph, stage, block_module(graph, form), instances)


def _plan_piece(
    graph: Graph, stage: str, text: str, instances: Iterable[Instance]
) -> Action:
    return _link(graph, stage, "piece.mlir", text, "piece.linked.mlir", instances)


def _link(
    graph: Graph,
    stage: str,
    source: str,
    text: str,
    output: str,
    instances: Iterable[Instance],
) -> Action:
    modules = {f"{item.name}.mlir": f"specialize:{item.name}" for item in instances}
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
            *((module, Output(task, module)) for module, task in modules.items()),
        ),
        outputs=(output,),
        tools=("iree-base-compiler",),
    )
