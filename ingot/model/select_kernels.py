"""Replace components by the kernels that a target's layout has for them.

The model still computes the same. The layout decides how its matrices are stored, and
which component reads them. Later stages (specialize, bake, check) see only the graph
with the kernels, so the check tests what runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from ingot.errors import IngotError
from ingot.model.bind import Binding
from ingot.model.component import (
    Components,
    ComponentSignature,
    Formal,
    IndexFormal,
    ScalarFormal,
    TensorFormal,
)
from ingot.model.graph import (
    PARAMETER,
    Argument,
    Block,
    Call,
    Graph,
    Instance,
    Packing,
    Parameter,
)
from ingot.model.layout import Layout
from ingot.model.schema_types import NOWHERE
from ingot.model.shapes import Product, SymbolicType, TensorType
from ingot.weights.quantise import SCHEMES, SUPER

Stored = Callable[[str], str]
"""Gives the stored type that a manifest's policy wants for a parameter."""

# The argument of a component that a kernel takes packed; its other parts are named
# after it: weight_scale.
WEIGHT = "weight"
# What a kernel's number is where the component has none: a lookup is not scaled.
NEUTRAL: dict[str, float | int] = {"scale": 1.0}

# Keeps the columns that a padded matrix makes from its own rows.
SLICE = "shape/slice"
PADDED = "_padded"

# Columns of a block, in the kernels whose dims are blocks.
BLOCK = 32


@dataclass(frozen=True, slots=True)
class _Use:
    component: str
    formal: str


def select_kernels(
    graph: Graph, stored: Stored, layout: Layout, components: Components
) -> Graph:
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
    kernels = _Kernels(graph, layout, packed, components)
    entry_points = tuple(
        replace(entry, blocks=tuple(map(kernels.block, entry.blocks)))
        for entry in graph.entry_points
    )
    used = {
        call.instance
        for entry in entry_points
        for block in entry.blocks
        for call in block.calls
    }
    made = (*graph.instances, *kernels.made.values(), *kernels.slices.values())
    known = {item.name: item for item in made if item}
    return replace(
        graph,
        layout=layout.name,
        host_inputs=layout.host_inputs,
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
    missing = [item for item in named if not layout.kernel(item, stored)]
    rows, columns = map(int, shape[-2:])
    width = SCHEMES[stored].width if stored in SCHEMES else 1
    fits = columns % width == 0
    tile_n = layout.rows_of_tile(stored)
    if rows % tile_n:
        # Rows of zeros fill the last tile of a matrix, but not of each expert's.
        fits = fits and stored != "f32" and len(shape) == 2
    if not missing and fits:
        return True
    if stored == "f32":
        return False
    if missing:
        component = missing[0]
        known = ", ".join(("f32", *layout.kernels.get(component, ())))
        why = f"layout '{layout.name}' has no kernel of {component} for it"
        hint = f"stored types that it has: {known}; see {layout.path}"
    else:
        rows_of = f"{tile_n} rows" if columns % width == 0 else ""
        part = rows_of or f"blocks of {width} columns"
        why = f"its shape {list(shape)} does not divide into {part}"
        hint = "store it as f32: add a rule to weights.policy that matches it alone"
    raise IngotError(
        f"{model}: parameter '{parameter.name}' cannot be stored as {stored}; {why}",
        hint,
    )


def _uses(graph: Graph) -> Mapping[str, set[_Use]]:
    """Return, by parameter, the arguments of components that it is given to."""
    found: dict[str, set[_Use]] = {}
    for entry in graph.entry_points:
        for call in (call for block in entry.blocks for call in block.calls):
            instance = graph.instance(call.instance)
            for operand, formal in zip(call.operands, instance.arguments, strict=True):
                if operand.startswith(PARAMETER):
                    use = _Use(instance.component, formal.name)
                    found.setdefault(operand.removeprefix(PARAMETER), set()).add(use)
    return found


class _Kernels:
    """The kernels of one graph, bound as they are met."""

    def __init__(
        self,
        graph: Graph,
        layout: Layout,
        packed: Mapping[str, str],
        components: Components,
    ) -> None:
        self.graph = graph
        self.layout = layout
        self.packed = packed
        self.components = components
        self.shapes = {
            item.name: tuple(int(size) for size in item.type.shape)
            for item in graph.parameters
        }
        # By the component's instance, its stored type and whether it has a matrix.
        self.made: dict[tuple[str, str, bool], Instance | None] = {}
        # By instance whose kernel makes more columns than it does: what that makes.
        self.padded: dict[str, TensorType] = {}
        self.slices: dict[str, Instance] = {}
        # The parts of each packed matrix, as its kernels take them.
        self.taken: dict[str, dict[str, TensorType]] = {}

    def block(self, block: Block) -> Block:
        """Return the block with the kernels that the layout has."""
        calls: list[Call] = []
        types = list(block.types)
        for old in block.calls:
            call = self.call(old)
            if old.instance in self.padded and call.instance != old.instance:
                # What rows of zeros make is dropped again.
                kind = self.padded[old.instance]
                (value,) = call.results
                whole = f"{value}{PADDED}"
                call = replace(call, results=(whole,))
                types.append((whole, kind))
                sliced = self.sliced(kind, dict(block.types)[value])
                name = f"{call.name}{PADDED}"
                calls.append(call)
                call = Call(name, sliced.name, (whole,), (0,), (value,))
            calls.append(call)
        return replace(block, calls=tuple(calls), types=tuple(types))

    def call(self, call: Call) -> Call:
        """Return the call of the kernel where the layout has one."""
        old = self.graph.instance(call.instance)
        given = dict(
            zip((item.name for item in old.arguments), call.operands, strict=True)
        )
        matrix = given.get(WEIGHT, "").removeprefix(PARAMETER)
        new = self.instance(old, matrix)
        if new is None:
            return call
        for item in new.arguments:
            if _is_part(item.name):
                self.taken.setdefault(matrix, {})[item.name] = item.type
        names = [name for name, _ in old.scalars]
        scalars = {**NEUTRAL} | dict(zip(names, call.scalars, strict=True))
        layered = {names[place] for place in call.layered}
        return replace(
            call,
            instance=new.name,
            operands=tuple(
                PARAMETER + part_name(matrix, item.name)
                if _is_part(item.name)
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
        key = (old.name, stored, bool(matrix))
        if key not in self.made:
            name = self.component(old, stored, bool(matrix))
            sizes = self.sizes(matrix) if stored else {}
            self.made[key] = self.bound(name, old, stored, sizes) if name else None
        return self.made[key]

    def component(self, old: Instance, stored: str, has_matrix: bool) -> str:
        """Return the component that the layout has for another one, "" for none."""
        decodes = dict(old.dims).get("seq") == 1
        if kernel := self.layout.kernel(old.component, stored):
            return kernel.decode if decodes else kernel.prefill
        if decodes and not has_matrix:
            return self.layout.decode.get(old.component, "")
        return ""

    def bound(
        self, name: str, old: Instance, stored: str, sizes: Mapping[str, int]
    ) -> Instance:
        """Return a component bound to what another one was bound to."""
        signature = self.components.read(name)
        if signature.weights:
            if stored not in signature.weights:
                raise IngotError(
                    f"components/{name}.mlir: its weight cannot be {stored}, which"
                    f" {self.layout.path} asks for",
                    f"expected one of {', '.join(signature.weights)}",
                )
            signature = signature.with_weight(stored)
        made = _bind_kernel(signature, old, sizes)
        if _types(made.results) != _types(old.results):
            self.padded[old.name] = made.results[0].type
        return made

    def sliced(self, whole: TensorType, kept: TensorType) -> Instance:
        """Return the instance that keeps the first columns of a result."""
        signature = self.components.read(SLICE)
        dynamic = (dim for dim in whole.shape if isinstance(dim, str))
        binding = Binding(signature, dict.fromkeys(dynamic))
        for formal in signature.arguments:
            if isinstance(formal, IndexFormal):
                binding.dims[formal.dim] = Product.of(int(kept.shape[-1]))
            elif isinstance(formal, TensorFormal):
                _unify(binding, formal, whole)
        made = binding.instance()
        self.slices[made.name] = made
        return made

    def sizes(self, matrix: str) -> dict[str, int]:
        """Return the dims of a packed matrix, under the names that kernels use."""
        n_expert, rows, columns = (1, *self.shapes[matrix])[-3:]
        tile_n = self.layout.rows_of_tile(self.packed[matrix])
        return {
            "n_expert": n_expert,
            "n_tile": -(-rows // tile_n),
            "tile_n": tile_n,
            "n_in": columns,
            "n_embd": columns,
            "n_block": columns // BLOCK,
            "n_super": columns // SUPER,
        }

    def parts(self, parameter: Parameter) -> Iterator[Parameter]:
        """Yield the parameters as which a parameter is stored."""
        if parameter.name not in self.packed:
            yield parameter
            return
        shape, scheme = self.shapes[parameter.name], self.packed[parameter.name]
        tile_n = self.layout.rows_of_tile(scheme)
        for part, kind in self.taken[parameter.name].items():
            packing = Packing(parameter.name, shape, scheme, tile_n, part)
            name = part_name(parameter.name, part)
            yield replace(parameter, name=name, type=kind, packing=packing)


def part_name(matrix: str, part: str) -> str:
    """Return the name of a packed matrix's part: the weight has the matrix's own."""
    return matrix + part.removeprefix(WEIGHT).replace("_", ".", 1)


def _is_part(formal: str) -> bool:
    """Return whether an argument is a packed matrix or a part of one."""
    return formal == WEIGHT or formal.startswith(f"{WEIGHT}_")


def _bind_kernel(
    signature: ComponentSignature, old: Instance, sizes: Mapping[str, int]
) -> Instance:
    """Return the kernel bound to the types that the component was bound to.

    Raises: IngotError where the kernel does not take what the component takes.
    """
    given = {item.name: item.type for item in old.arguments}
    signature = signature.leaving_out(given)
    dims = (dim for kind in given.values() for dim in kind.shape)
    dynamic = (dim for dim in dims if isinstance(dim, str))
    binding = Binding(signature, dict.fromkeys(dynamic))
    indices = dict(old.indices)
    fits = given.keys() - {WEIGHT} <= {item.name for item in signature.arguments}
    # What numbers and a packed weight fix, other arguments' products are divided by.
    for formal in sorted(signature.arguments, key=_is_divided):
        if isinstance(formal, IndexFormal):
            size = indices.get(formal.name, formal.default)
            fits = fits and size > 0
            binding.dims[formal.dim] = Product.of(size)
        elif isinstance(formal, ScalarFormal):
            known = formal.name in NEUTRAL or formal.name in dict(old.scalars)
            fits = fits and known
        elif _is_part(formal.name):
            fits = _unify(binding, formal, formal.type.resolve(sizes)) and fits
        else:
            kind = given.get(formal.name)
            fits = kind is not None and _unify(binding, formal, kind) and fits
    made = binding.instance() if fits and not binding.errors else None
    if made is None or not _same_but_padded(made.results, old.results, sizes):
        raise IngotError(
            f"components/{signature.component}.mlir: no kernel of {old.component}:"
            " its arguments or results are others"
        )
    return made


def _same_but_padded(
    made: tuple[Argument, ...], old: tuple[Argument, ...], sizes: Mapping[str, int]
) -> bool:
    """Return whether a kernel's results are a component's, or those of whole tiles."""
    if _types(made) == _types(old):
        return True
    rows = sizes.get("n_tile", 0) * sizes.get("tile_n", 0)
    padded = [replace(kind, shape=(*kind.shape[:-1], rows)) for kind in _types(old)]
    return len(made) == 1 and _types(made) == padded


def _is_divided(formal: Formal) -> bool:
    return isinstance(formal, TensorFormal) and not _is_part(formal.name)


def _unify(binding: Binding, formal: TensorFormal, kind: TensorType) -> bool:
    shape = (
        Product.of(1, dim) if isinstance(dim, str) else Product.of(dim)
        for dim in kind.shape
    )
    actual = SymbolicType(tuple(shape), kind.element)
    return binding.unify(formal.type, actual, NOWHERE)


def _types(arguments: tuple[Argument, ...]) -> list[TensorType]:
    return [item.type for item in arguments]
