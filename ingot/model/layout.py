"""Read a target's layout: which kernels compute with which stored weights.

A kernel is a component that computes what another one does: from weights stored in
another way, or for one new token alone. An architecture names `linear/linear`; the
layout says what runs instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ingot.errors import ManifestError, did_you_mean
from ingot.model.component import Components
from ingot.model.library import find, names
from ingot.model.name_patterns import COMPONENT, STORED_ELEMENTS
from ingot.model.schema_types import (
    Boolean,
    Choice,
    Either,
    Integer,
    MapOf,
    Section,
    Text,
    key,
    optional,
    read,
)
from ingot.model.yaml_nodes import raise_all

FOLDER = "targets/layouts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel(Section):
    """What runs where seq is 1, and elsewhere."""

    decode: str = key(COMPONENT, "where seq is 1")
    prefill: str = key(COMPONENT, "where it is dynamic")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout(Section):
    """How a target wants weights to be stored, and what computes with them so."""

    layout: str = key(Text("a layout's name"), "its name: this file's, without .yaml")
    summary: str = key(Text(), "what it is for, in a few words")
    tile_n: int = key(Integer(1), "rows of a matrix that are stored together")
    extends: str = optional(
        Text("a layout's name"), "the layout whose kernels it has, besides its own"
    )
    tile_n_of: Mapping[str, int] = optional(
        MapOf(Integer(1), Choice(STORED_ELEMENTS)),
        "by stored type, its rows that are stored together, where they are others",
    )
    host_inputs: bool = optional(
        Boolean(), "whether the host can read a call's inputs where they are"
    )
    kernels: Mapping[str, Mapping[str, str | Kernel]] = optional(
        MapOf(MapOf(Either((COMPONENT, Kernel)), Choice(STORED_ELEMENTS)), COMPONENT),
        "by component and stored type of its weight, the component that runs",
    )
    decode: Mapping[str, str] = optional(
        MapOf(COMPONENT, COMPONENT),
        "by component without a weight, the component that runs where seq is 1",
    )

    @property
    def name(self) -> str:
        """Return the layout's name."""
        return self.layout

    @property
    def path(self) -> str:
        """Return its file, relative to the checkout."""
        return self.at.position().path

    def kernel(self, component: str, stored: str) -> Kernel | None:
        """Return what runs instead of a component whose weight is stored so."""
        given = self.kernels.get(component, {}).get(stored)
        if isinstance(given, str):
            return Kernel(decode=given, prefill=given)
        return given

    def rows_of_tile(self, stored: str) -> int:
        """Return how many rows of a matrix of that type are stored together."""
        return self.tile_n_of.get(stored, self.tile_n)


def read_layout(path: Path, root: Path) -> Layout:
    """Return the layout that a file below the checkout's root declares.

    Raises:
        ExceptionGroup: of ManifestError, every mistake.
    """
    layout = read(path.absolute(), root.absolute(), Layout)
    raise_all([*_check(layout, path, Components(root))])
    if not layout.extends:
        return layout
    base = _base(layout, root)
    kernels = {
        name: {**base.kernels.get(name, {}), **layout.kernels.get(name, {})}
        for name in (*base.kernels, *layout.kernels)
    }
    return replace(layout, kernels=kernels, decode={**base.decode, **layout.decode})


def _base(layout: Layout, root: Path) -> Layout:
    """Return the layout that another one extends, which must extend none itself."""
    path = find(root, f"{FOLDER}/{layout.extends}.yaml")
    if not path.is_file():
        known = [Path(name).stem for name in names(root, f"{FOLDER}/*.yaml")]
        message = f"no layout named '{layout.extends}'"
        hint = did_you_mean(layout.extends, known, "layouts")
        raise_all([layout.at.error("extends", message, hint)])
    base = read(path.absolute(), root.absolute(), Layout)
    if base.extends:
        message = f"'{layout.extends}' extends '{base.extends}' itself"
        raise_all([layout.at.error("extends", message, f"extend '{base.extends}'")])
    raise_all([*_check(base, path, Components(root))])
    return base


def _check(
    layout: Layout, path: Path, components: Components
) -> Iterator[ManifestError]:
    """Yield where a layout has another file's name, or names no component."""
    if layout.name != path.stem:
        yield layout.at.error("layout", f"expected the file's name '{path.stem}'")
    named = {f"decode.{name}": {name, used} for name, used in layout.decode.items()}
    for component, by_type in layout.kernels.items():
        for stored in by_type:
            if kernel := layout.kernel(component, stored):
                names = {component, kernel.decode, kernel.prefill}
                named[f"kernels.{component}.{stored}"] = names
    for part, names in named.items():
        for name in sorted(names):
            if not components.has(name):
                yield layout.at.error(part, *components.unknown(name))
