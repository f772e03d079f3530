"""Define the specification of one specialised module."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecializeSpec:
    """An instance of a component: its name, and the types of its arguments."""

    component: str  # the file's path: "components/linear/linear.mlir"
    name: str  # the symbol of the specialised module
    output: str  # the specialised module's file
    # MLIR types, in the order of the component's signature.
    tensors: tuple[str, ...]
    results: tuple[str, ...]
    scalars: tuple[str, ...]
    indices: tuple[int, ...]  # the values of the `index` arguments
    weight: str = ""  # the type of `!weight`; "" if the component does not use it
    absent: tuple[int, ...] = ()  # places of the arguments that are empty tensors
