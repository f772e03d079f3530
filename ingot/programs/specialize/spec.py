"""The specification of one specialized module."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecializeSpec:
    """An instance of a component: its name, and the types that are bound."""

    component: str  # path of the file: "components/linear/linear.mlir"
    name: str  # the symbol of the module to write
    output: str  # its file
    # MLIR types, in the order of the component's signature.
    tensors: tuple[str, ...]
    results: tuple[str, ...]
    scalars: tuple[str, ...]
    indices: tuple[int, ...]  # the values of the `index` arguments
    weight: str = ""  # what `!weight` stands for, "" where the component has none
