"""Read a target's layout: which kernels compute with which stored weights.

A kernel is a component that computes what another one does: from weights stored in
another way, or for one new token alone. An architecture names `linear/linear`; the
layout says what runs instead.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ingot.errors import ManifestError
from ingot.model.name_patterns import COMPONENT, STORED_ELEMENTS
from ingot.model.renamed import error_text
from ingot.model.schema_types import (
    Choice,
    Either,
    Integer,
    MapOf,
    Section,
    Text,
    key,
    read,
)
from ingot.model.yaml_nodes import raise_all

FOLDER = "targets/layouts"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kernels(Section):
    """What runs where seq is 1, and elsewhere."""

    decode: str = key(COMPONENT, "where seq is 1")
    prefill: str = key(COMPONENT, "where it is dynamic")


@dataclass(frozen=True, slots=True, kw_only=True)
class _LayoutFile(Section):
    """A layout as its file describes it."""

    layout: str = key(Text("a layout's name"), "its name: this file's, without .yaml")
    summary: str = key(Text(), "what it is for, in a few words")
    tile_n: int = key(Integer(1), "rows of a matrix that are stored together")
    kernels: Mapping[str, Mapping[str, str | _Kernels]] = key(
        MapOf(MapOf(Either((COMPONENT, _Kernels)), Choice(STORED_ELEMENTS)), COMPONENT),
        "by component and stored type of its weight, the component that runs",
        default={},
    )
    decode: Mapping[str, str] = key(
        MapOf(COMPONENT, COMPONENT),
        "by component without a weight, the component that runs where seq is 1",
        default={},
    )


@dataclass(frozen=True, slots=True)
class Kernel:
    """What runs where seq is 1, and elsewhere."""

    decode: str  # "linear/linear_packed"
    prefill: str


@dataclass(frozen=True, slots=True)
class Layout:
    """How a target wants weights to be stored, and what computes with them so."""

    name: str
    path: str  # "targets/layouts/packed_n8.yaml", relative to the checkout
    tile_n: int
    kernels: Mapping[tuple[str, str], Kernel]  # by component and stored type
    decode: Mapping[str, str]  # by component without a weight, what runs where seq is 1

    def stored_types(self, component: str) -> list[str]:
        """Return the stored types that the layout has a kernel of a component for."""
        return [stored for name, stored in self.kernels if name == component]


def read_layout(path: Path, root: Path) -> Layout:
    """Return the layout that a file below the checkout's root declares.

    Raises:
        ExceptionGroup: of ManifestError, every defect.
    """
    file = read(path.absolute(), root.absolute(), _LayoutFile)
    kernels = {
        (component, stored): _kernel(given)
        for component, by_type in file.kernels.items()
        for stored, given in by_type.items()
    }
    raise_all([*_check(file, path, kernels, root)])
    name = file.at.position().path
    return Layout(file.layout, name, file.tile_n, kernels, file.decode)


def _kernel(given: str | _Kernels) -> Kernel:
    if isinstance(given, str):
        return Kernel(given, given)
    return Kernel(given.decode, given.prefill)


def _check(
    file: _LayoutFile, path: Path, kernels: Mapping[tuple[str, str], Kernel], root: Path
) -> Iterator[ManifestError]:
    """Yield where a layout has another file's name, or names no component."""
    if file.layout != path.stem:
        yield file.at.error("layout", f"expected the file's name '{path.stem}'")
    named = {
        f"kernels.{component}.{stored}": {component, kernel.decode, kernel.prefill}
        for (component, stored), kernel in kernels.items()
    }
    named |= {f"decode.{name}": {name, used} for name, used in file.decode.items()}
    for part, names in named.items():
        for name in sorted(names):
            if not os.path.lexists(root / "components" / f"{name}.mlir"):
                message, hint = error_text("*", name)
                message = message or f"no component named '{name}'"
                yield file.at.error(part, message, hint)
