"""Plan the action that specialises a component for the dims of one instance."""

from __future__ import annotations

from ingot.emit.mlir_text import mlir_type
from ingot.engine.actions import Action, InlineText
from ingot.model.graph import Instance
from ingot.programs.specialize.spec import SpecializeSpec
from ingot.stages.program import program_argv, program_inputs


def plan_specialize(instance: Instance, code: str) -> Action:
    """Return the action that writes `<instance>.mlir`, a static module.

    `code` is the text of its component, without comments.

    The module's symbol is the instance's name. Its `@forward` takes the tensors, then
    the scalars, each in the component's order, and returns the component's results.
    """
    component = f"components/{instance.component}.mlir"
    output = f"{instance.name}.mlir"
    specification = SpecializeSpec(
        component=component,
        name=instance.name,
        output=output,
        tensors=tuple(mlir_type(item.type) for item in instance.arguments),
        results=tuple(mlir_type(item.type) for item in instance.results),
        scalars=tuple(kind for _, kind in instance.scalars),
        indices=tuple(size for _, size in instance.indices),
        weight=instance.weight,
        absent=instance.absent,
    )
    return Action(
        task=f"specialize:{instance.name}",
        argv=program_argv("specialize"),
        inputs=(
            (component, InlineText(code)),
            *program_inputs("specialize", specification),
        ),
        outputs=(output,),
        tools=("python", "iree-base-compiler"),
        exported_to=(f"build/instances/{output}",),
    )
