"""A model's graph and a target's layout in, the graph with the target's kernels out.

What the model computes stays; how its matrices are stored, and which component reads
them so, is the layout's. Everything behind (specialize, bake, check) sees the lowered
graph alone, so that what is checked is what runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ingot.errors import IngotError
from ingot.model.bind_kernel import NEUTRAL, WEIGHT, bind_kernel, is_part
from ingot.model.component import read_component
from ingot.model.graph import (
    Block,
    Call,
    EntryPoint,
    Graph,
    Instance,
    Packing,
    Parameter,
    TensorType,
)
from ingot.model.layout import Layout
from ingot.model.resolve_blocks import PARAMETER

Stored = Callable[[str], str]
"""Gives the stored type that a manifest's policy wants for a parameter."""

# Values that share a scale, in the stored types that have blocks.
BLOCK = 32


@dataclass(frozen=True, slots=True)
class _Use:
    component: str
    formal: str


def lower(graph: Graph, stored: Stored, layout: Layout, root: Path) -> Graph:
    """Return the graph with every matrix stored and used as the layout says.

    Raises: IngotError where a matrix is to be stored in a type that the layout has no
    kernel for.
    """
    uses = _uses(graph)
    packed = {
        item.name: stored(item.name)
        for item in graph.parameters
        if _is_packed(item, uses, graph.model, stored(item.name), layout)
    }
    kernels = _Kernels(graph, layout, packed, root)
    entry_points = tuple(_entry_point(item, kernels) for item in graph.entry_points)
    used = {
        call.instance
        for entry in entry_points
        for block in entry.blocks
        for call in block.calls
    }
    known = {item.name: item for item in (*graph.instances, *kernels.made.values())}
    return replace(
        graph,
        layout=layout.name,
        instances=tuple(known[name] for name in sorted(used)),
        parameters=tuple(
            part for item in graph.parameters for part in kernels.parts(item)
        ),
        entry_points=entry_points,
    )


def _is_packed(
    parameter: Parameter,
    used: Mapping[str, set[_Use]],
    model: str,
    stored: str,
    layout: Layout,
) -> bool:
    """Return whether every use of a matrix has a kernel.

    Raises: IngotError where it must have one, and has none.
    """
    uses = used.get(parameter.name, set())
    shape = parameter.type.shape
    is_matrix = len(shape) in (2, 3) and not parameter.table  # 3: one of each expert
    if not is_matrix or any(use.formal != WEIGHT for use in uses):
        return False
    named = sorted(use.component for use in uses)
    missing = [item for item in named if (item, stored) not in layout.kernels]
    rows, columns = map(int, shape[-2:])
    in_blocks = stored.endswith(f"_block{BLOCK}")
    fits = rows % layout.lane == 0 and not (in_blocks and columns % BLOCK)
    if not missing and fits:
        return True
    if stored == "f32":
        return False
    if missing:
        component = missing[0]
        known = ", ".join(("f32", *layout.stored_types(component)))
        why = f"layout '{layout.name}' has no kernel of {component} for it"
        hint = f"stored types that it has: {known}; see {layout.path}"
    else:
        why = f"its shape {list(shape)} does not divide into {layout.lane} rows"
        hint = f"or into blocks of {BLOCK} columns; store it as f32"
    raise IngotError(
        f"{model}: parameter '{parameter.name}' cannot be stored as {stored}; {why}",
        hint,
    )


def _uses(graph: Graph) -> Mapping[str, set[_Use]]:
    instances = {item.name: item for item in graph.instances}
    found: dict[str, set[_Use]] = {}
    for entry in graph.entry_points:
        for block in entry.blocks:
            for call in block.calls:
                instance = instances[call.instance]
                formals = (item.name for item in instance.arguments)
                for operand, formal in zip(call.operands, formals, strict=True):
                    if operand.startswith(PARAMETER):
                        name = operand.removeprefix(PARAMETER)
                        use = _Use(instance.component, formal)
                        found.setdefault(name, set()).add(use)
    return found


def _entry_point(entry: EntryPoint, kernels: _Kernels) -> EntryPoint:
    return replace(
        entry, blocks=tuple(_block(block, kernels) for block in entry.blocks)
    )


def _block(block: Block, kernels: _Kernels) -> Block:
    return replace(block, calls=tuple(kernels.call(call) for call in block.calls))


class _Kernels:
    """The kernels of one graph, bound as they are met."""

    def __init__(
        self, graph: Graph, layout: Layout, packed: Mapping[str, str], root: Path
    ) -> None:
        self.instances = {item.name: item for item in graph.instances}
        self.layout = layout
        self.packed = packed
        self.root = root
        self.shapes = {
            item.name: tuple(int(size) for size in item.type.shape)
            for item in graph.parameters
        }
        self.made: dict[tuple[str, str], Instance] = {}  # by (component's call, kind)
        # The parts of each packed matrix, as its kernels take them.
        self.taken: dict[str, dict[str, TensorType]] = {}

    def call(self, call: Call) -> Call:
        """Return the call of the kernel where the layout has one."""
        old = self.instances[call.instance]
        given = dict(
            zip((item.name for item in old.arguments), call.operands, strict=True)
        )
        matrix = given.get(WEIGHT, "").removeprefix(PARAMETER)
        new = self.instance(old, matrix)
        if new is None:
            return call
        for item in new.arguments:
            if is_part(item.name):
                self.taken.setdefault(matrix, {})[item.name] = item.type
        names = [name for name, _ in old.scalars]
        scalars = {**NEUTRAL} | dict(zip(names, call.scalars, strict=True))
        layered = {names[place] for place in call.layered}
        return replace(
            call,
            instance=new.name,
            operands=tuple(
                PARAMETER + part_name(matrix, item.name)
                if is_part(item.name)
                else given[item.name]
                for item in new.arguments
            ),
            scalars=tuple(scalars[name] for name, _ in new.scalars),
            layered=tuple(i for i, (n, _) in enumerate(new.scalars) if n in layered),
        )

    def instance(self, old: Instance, matrix: str) -> Instance | None:
        """Return the kernel's instance that computes what `old` does, if there is one.

        `matrix` is the parameter that is its weight, "" where it has none.
        """
        stored = self.packed.get(matrix, "")
        decodes = dict(old.dims).get("seq") == 1
        if stored:
            kernel = self.layout.kernels[old.component, stored]
            name = kernel.decode if decodes else kernel.prefill
        elif decodes and not matrix and old.component in self.layout.decode:
            name = self.layout.decode[old.component]
        else:
            return None
        key = (old.name, stored)
        if key not in self.made:
            signature = read_component(name, self.root)
            sizes = self.sizes(matrix) if stored else {}
            self.made[key] = bind_kernel(signature, old, sizes)
        return self.made[key]

    def sizes(self, matrix: str) -> dict[str, int]:
        """Return the dims that a packed matrix has, under the names of kernels."""
        n_expert, rows, columns = (1, *self.shapes[matrix])[-3:]
        return {
            "n_expert": n_expert,
            "n_tile": rows // self.layout.lane,
            "lane": self.layout.lane,
            "n_in": columns,
            "n_embd": columns,
            "n_block": columns // BLOCK,
        }

    def parts(self, parameter: Parameter) -> Iterator[Parameter]:
        """Yield what a parameter is stored as."""
        if parameter.name not in self.packed:
            yield parameter
            return
        shape, scheme = self.shapes[parameter.name], self.packed[parameter.name]
        for part, kind in self.taken[parameter.name].items():
            packing = Packing(parameter.name, shape, scheme, self.layout.lane, part)
            name = part_name(parameter.name, part)
            yield replace(parameter, name=name, type=kind, packing=packing)


def part_name(matrix: str, part: str) -> str:
    """Return the name of a packed matrix's part: the weight has the matrix's own."""
    return matrix + part.removeprefix(WEIGHT).replace("_", ".", 1)
