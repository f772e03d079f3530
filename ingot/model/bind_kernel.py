"""A kernel's signature and what it stands in for, the kernel bound to its types out."""

from __future__ import annotations

from collections.abc import Mapping

from ingot.errors import IngotError, Position
from ingot.model.bind import Binding, Scope
from ingot.model.component import (
    ComponentSignature,
    Formal,
    IndexFormal,
    ScalarFormal,
    TensorFormal,
)
from ingot.model.graph import Argument, Instance, TensorType
from ingot.model.shapes import Product, SymbolicType
from ingot.model.yaml_nodes import Node

# The argument of a component that a kernel takes packed; its other parts are named
# after it: weight_scale.
WEIGHT = "weight"
# What a kernel's number is where the component has none: a lookup is not scaled.
NEUTRAL: dict[str, float | int] = {"scale": 1.0}


def is_part(formal: str) -> bool:
    """Return whether an argument is a packed matrix or a part of one."""
    return formal == WEIGHT or formal.startswith(f"{WEIGHT}_")


def bind_kernel(
    signature: ComponentSignature, old: Instance, sizes: Mapping[str, int]
) -> Instance:
    """Return the kernel bound to the types that the component was bound to.

    Raises: IngotError where the kernel does not take what the component takes.
    """
    given = {item.name: item.type for item in old.arguments}
    dynamic = {
        dim for kind in given.values() for dim in kind.shape if isinstance(dim, str)
    }
    scope = Scope(dict.fromkeys(dynamic, None), {}, {})
    binding = Binding(signature, scope, [])
    indices = dict(old.indices)
    fits = True
    # What numbers and a packed weight fix, other arguments' products are divided by.
    for formal in sorted(signature.arguments, key=_is_divided):
        if isinstance(formal, IndexFormal):
            binding.dims[formal.dim] = Product.of(indices[formal.name])
        elif isinstance(formal, ScalarFormal):
            known = formal.name in NEUTRAL or formal.name in dict(old.scalars)
            fits = fits and known
        elif is_part(formal.name):
            fits = _unify(binding, formal, formal.type.resolve(sizes)) and fits
        else:
            kind = given.get(formal.name)
            fits = kind is not None and _unify(binding, formal, kind) and fits
    made = binding.instance() if fits and not binding.errors else None
    if made is None or _types(made.results) != _types(old.results):
        raise IngotError(
            f"components/{signature.component}.mlir: no kernel of {old.component}:"
            " its arguments or results are others"
        )
    return made


def _is_divided(formal: Formal) -> bool:
    return isinstance(formal, TensorFormal) and not is_part(formal.name)


def _unify(binding: Binding, formal: TensorFormal, kind: TensorType) -> bool:
    nowhere = Node(Position("", 0, 0), "", None)
    actual = SymbolicType(
        tuple(
            Product.of(1, dim) if isinstance(dim, str) else Product.of(dim)
            for dim in kind.shape
        ),
        kind.element,
    )
    wanted = formal.type
    if wanted.element != kind.element or len(wanted.shape) != len(actual.shape):
        return False
    return all(
        binding.unify(dim, found, nowhere)
        for dim, found in zip(wanted.shape, actual.shape, strict=True)
    )


def _types(arguments: tuple[Argument, ...]) -> list[TensorType]:
    return [item.type for item in arguments]
