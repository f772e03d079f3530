"""A layout's YAML in: which kernels a target uses for which stored weights.

A kernel is a component that computes what another one does: from weights stored in
another way, or for one new token alone. An architecture names `linear/linear`; the
layout says what runs instead.
"""

from __future__ import annotations

import os
from collections.abc import Mapping as Map
from dataclasses import dataclass
from pathlib import Path

from ingot.errors import ManifestError
from ingot.model.manifest_schema import COMPONENT, STORED_ELEMENTS
from ingot.model.schema_types import (
    Choice,
    Either,
    Integer,
    Key,
    Mapping,
    Record,
    Text,
    read,
)
from ingot.model.yaml_nodes import Node, raise_all

FOLDER = "targets/layouts"

LAYOUT = Record(
    (
        Key("layout", Text("a layout's name"), "its name: this file's, without .yaml"),
        Key("summary", Text(), "what it is for, in a few words"),
        Key("lane", Integer(1), "rows of a matrix that are stored together"),
        Key(
            "kernels",
            Mapping(
                Mapping(
                    Either(
                        (
                            COMPONENT,
                            Record(
                                (
                                    Key("decode", COMPONENT, "where seq is 1"),
                                    Key("prefill", COMPONENT, "where it is dynamic"),
                                )
                            ),
                        )
                    ),
                    Choice(STORED_ELEMENTS),
                ),
                COMPONENT,
            ),
            "by component and stored type of its weight, the component that runs",
            optional=True,
        ),
        Key(
            "decode",
            Mapping(COMPONENT, COMPONENT),
            "by component without a weight, the component that runs where seq is 1",
            optional=True,
        ),
    )
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
    path: str  # "targets/layouts/lanes8.yaml", relative to the checkout
    lane: int
    kernels: Map[tuple[str, str], Kernel]  # by component and stored type
    decode: Map[str, str]  # by component without a weight, what runs where seq is 1

    def stored_types(self, component: str) -> list[str]:
        """Return the stored types that the layout has a kernel of a component for."""
        return [stored for name, stored in self.kernels if name == component]


def read_layout(path: Path, root: Path) -> Layout:
    """Return the layout that a file below the checkout's root declares.

    Raises:
        ExceptionGroup: of ManifestError, every defect.
    """
    node = read(path.absolute(), root.absolute(), LAYOUT)
    errors = []
    if node["layout"].text != path.stem:
        errors.append(node["layout"].error(f"expected the file's name '{path.stem}'"))
    kernels: dict[tuple[str, str], Kernel] = {}
    found = node.get("kernels")
    for component, schemes in found.entries.items() if found else ():
        for scheme, entry in schemes.entries.items():
            kernel = kernels[component, scheme] = _kernel(entry)
            names = {component, kernel.decode, kernel.prefill}
            errors += _unknown(names, entry, root)
    found = node.get("decode")
    decode = found.entries if found else {}
    for component, entry in decode.items():
        errors += _unknown({component, entry.text}, entry, root)
    raise_all(errors)
    return Layout(
        node["layout"].text,
        node.position.path,
        node["lane"].integer,
        kernels,
        {component: entry.text for component, entry in decode.items()},
    )


def _unknown(names: set[str], entry: Node, root: Path) -> list[ManifestError]:
    return [
        entry.error(f"no component named '{name}'")
        for name in sorted(names)
        if not os.path.lexists(root / "components" / f"{name}.mlir")
    ]


def _kernel(entry: Node) -> Kernel:
    if isinstance(entry.value, str):
        return Kernel(entry.text, entry.text)
    return Kernel(entry["decode"].text, entry["prefill"].text)
