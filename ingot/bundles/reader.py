"""Read a bundle's folder, and reject it unless every file is as it was packed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ingot import codec
from ingot.bundles.contract import ARCHIVE, SCOPE, unseal
from ingot.bundles.contract_types import (
    OLDER,
    SCHEMA,
    EntryValue,
    FileValue,
    Pooling,
    PortValue,
    Range,
)
from ingot.bundles.tarball import check_digest, file_digest
from ingot.errors import IngotError
from ingot.model.graph import EntryPoint, Port
from ingot.model.renamed import new_word
from ingot.model.shapes import TensorType


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle whose files match `bundle.json`."""

    folder: Path
    contract: dict[str, Any]  # the content of bundle.json
    entry_points: tuple[EntryPoint, ...]  # without blocks: a bundle has no graph

    @property
    def name(self) -> str:
        """Return `model@target`."""
        return f"{self.contract['model']}@{self.contract['target']['name']}"

    @property
    def pooling(self) -> Pooling | None:
        """Return how embeddings derive from tokens; None if the bundle says nothing.

        Raises: IngotError if it says something else.
        """
        given = self.contract.get("pooling")
        try:
            return None if given is None else codec.from_plain(Pooling, given)
        except ValueError as error:
            raise IngotError(f"bundle.json: pooling: {error}") from error

    def limit(self, dim: str) -> int:
        """Return the maximum of a dynamic dim; for `ctx`, that of all blocks."""
        return self._end(dim, "max")

    def least(self, dim: str) -> int:
        """Return the minimum of a dynamic dim; for `ctx`, that of all blocks."""
        return self._end(dim, "min")

    def _end(self, dim: str, end: str) -> int:
        dims = self.contract["dynamic_dims"]
        if dim == "ctx" and dim not in dims and "n_block_seq" in dims:
            block_size = max(entry.block_size for entry in self.entry_points)
            return int(dims["n_block_seq"][end]) * block_size
        return int(dims[dim][end])


# What commands read of `bundle.json`; a dot leads into a mapping.
TYPES: dict[str, Any] = {
    "model": str,
    "dims": dict[str, int],
    "dynamic_dims": dict[str, Range],
    "entry_points": tuple[EntryValue, ...],
    "files": dict[str, FileValue],
    "parameters": dict[str, Any],
    "parameters.archive": str,
    "parameters.scope": str,
    "runtime": dict[str, Any],
    "runtime.package": str,
    "runtime.version": str,
    "target": dict[str, Any],
    "target.name": str,
    "target.machine": str | None,
    "target.compile_flags": tuple[str, ...],
}

# Names are printed, and become parts of paths.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def read_bundle(
    folder: Path, digest: Callable[[Path], tuple[str, int]] = file_digest
) -> Bundle:
    """Return the bundle in a folder, after comparing its files with their digests.

    `digest` returns sha256 and size of a file; those of the checkout's own bundles are
    remembered.

    Raises: IngotError that names the first file that is missing, changed or not listed.
    """
    bundle = open_bundle(folder)
    listed = bundle.contract["files"]
    for entry in sorted(folder.iterdir()):
        if entry.is_symlink() or not entry.is_file():
            raise IngotError(f"{entry.name}: not a plain file")
        if entry.name not in listed and entry.name != "bundle.json":
            raise IngotError(f"{entry.name}: bundle.json does not list it")
    for name, expected in sorted(listed.items()):
        path = folder / name
        if not path.is_file():
            raise IngotError(f"{name}: bundle.json lists it, and it is not there")
        stated = (expected["sha256"], expected["size_bytes"])
        check_digest(name, stated, digest(path))
    return bundle


def open_bundle(folder: Path) -> Bundle:
    """Return the bundle in a folder whose files have been compared already.

    Raises: IngotError if `bundle.json` is damaged, or is none.
    """
    contract = _contract(folder)
    entries = _check_types(contract)["entry_points"]
    target, archive = contract["target"], contract["parameters"]["archive"]
    for key, name in (("model", contract["model"]), ("target.name", target["name"])):
        if NAME.fullmatch(name) is None:
            raise IngotError(f"bundle.json: {key}: not a name: {name!r}")
    for name in contract["files"]:
        if NAME.fullmatch(name) is None:
            raise IngotError(f"bundle.json: files: not a name: {name!r}")
    if archive not in contract["files"]:
        raise IngotError(
            f"bundle.json: parameters.archive: not one of its files: {archive!r}"
        )
    return Bundle(folder, contract, tuple(map(_entry_point, entries)))


def planned_bundle(
    folder: Path, contract: dict[str, Any], files: tuple[str, ...]
) -> Bundle:
    """Return a bundle that is not packed yet, of which the folder has these files."""
    parameters = {"scope": SCOPE, "archive": ARCHIVE}
    content = {**contract, "parameters": parameters, "files": dict.fromkeys(files)}
    entries = codec.from_plain(tuple[EntryValue, ...], contract["entry_points"])
    return Bundle(folder, content, tuple(map(_entry_point, entries)))


def _check_types(contract: dict[str, Any]) -> dict[str, Any]:
    """Return the values that commands read, by key.

    Raises: IngotError for the first that is missing or of another type.
    """
    found: dict[str, Any] = {}
    for key, kind in TYPES.items():
        outer, _, inner = key.rpartition(".")
        values = found[outer] if outer else contract
        if inner not in values:
            raise IngotError(f"bundle.json: {key}: it is missing")
        try:
            found[key] = codec.from_plain(kind, values[inner])
        except ValueError as error:
            raise IngotError(f"bundle.json: {key}: {error}") from error
    return found


def _contract(folder: Path) -> dict[str, Any]:
    path = folder / "bundle.json"
    if path.is_symlink() or not path.is_file():
        raise IngotError(f"{folder.name}: no bundle.json: not a bundle")
    try:
        text = path.read_bytes().decode()
        # Check the schema first, because another schema may have another seal.
        schema = json.loads(text).get("schema")
    except (ValueError, AttributeError, RecursionError) as error:
        raise IngotError(f"bundle.json: damaged; {error}") from error
    if schema not in (SCHEMA, *OLDER):
        raise IngotError(
            f"bundle.json: another schema; expected '{SCHEMA}', found {schema!r}"
        )
    return unseal(text)


def _entry_point(value: EntryValue) -> EntryPoint:
    updates = {pair.output: pair.input for pair in value.in_place}
    return EntryPoint(
        name=value.name,
        inputs=tuple(_port(port, "") for port in value.inputs),
        blocks=(),
        outputs=tuple(
            _port(port, updates.get(port.name, "")) for port in value.outputs
        ),
    )


def _port(value: PortValue, updates: str) -> Port:
    type_ = TensorType(value.shape, value.element)
    # A bundle of an earlier version may have a role under its old name.
    role = new_word("entry_points.*.inputs.*.role", value.role) or value.role
    return Port(value.name, type_, role, value.name, updates)
