"""Check that a linked module, its vmfb and an archive fit each other.

IREE compares only names and lengths, and rejects only lengths that are too short: a
wrong shape, type or content silently gives wrong numbers. In addition, a bundle could
contain parameters that nothing reads. This module therefore compares the three before a
bundle is packed.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import struct
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ingot.engine import process
from ingot.errors import IngotError
from ingot.weights.element_types import ITEM_BYTES, NUMPY_NAMES
from ingot.weights.irpa import ArchiveEntry, read_archive

SCOPE = "model"

_ATTRIBUTE = "#flow.parameter.named<"
_DECLARED = re.compile(
    r'#flow\.parameter\.named<(?:"([^"]*)"::)?"([^"]*)">'
    r" : tensor<((?:[0-9]+x)*)([a-z]\w*)>"
)
_CONSTANT = re.compile(r"^  %(r\d+) = vm\.const\.ref\.rodata (\d+)\b")
_LOAD = re.compile(r"vm\.call(?:\.\S+)? @io_parameters\.(\w+)\((.*)\)$")
_DISPATCH = re.compile(
    r"^vm\.func @(?P<function>[^(\s]+)"
    r"|^ .*vm\.call\S* @hal\.command_buffer\.dispatch(?:\.indirect)?[ (]",
    re.MULTILINE,
)
_RODATA = re.compile(r"^vm\.rodata\[(\d+)\] = ([0-9A-F]*)$", re.MULTILINE)

_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Declared:
    """A parameter as a linked module declares it."""

    element: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        """Return the type as manifests write it: `f32[384, 1536]`."""
        return f"{self.element}[{', '.join(map(str, self.shape))}]"

    @property
    def size_bytes(self) -> int:
        """Return the size of the parameter in bytes."""
        return math.prod(self.shape) * ITEM_BYTES[self.element]


def check_parameters(
    linked_text: str, vmfb_bytes: bytes, irpa_path: Path, bake_report: dict[str, Any]
) -> list[str]:
    """Return the mismatches, one line each.

    `bake_report` is the content of the archive's `bake.json`.
    """
    try:
        declared = declared_parameters(linked_text)
        loaded = loaded_parameters(dump_module(vmfb_bytes))
        archived = {entry.key: entry for entry in read_archive(irpa_path)}
    except IngotError as error:
        return [error.message]
    reported = {item["name"]: item for item in bake_report["parameters"]}
    problems: list[str] = []
    for name in sorted({*declared, *loaded, *archived, *reported}):
        places = {
            "declared by linked.mlir": name in declared,
            "loaded by model.vmfb": name in loaded,
            "in model.irpa": name in archived,
            "in bake.json": name in reported,
        }
        if missing := [place for place, there in places.items() if not there]:
            problems.append(f"parameter '{name}': not {', not '.join(missing)}")
        if name not in declared:
            continue
        if name in loaded:
            problems += _check_loaded(name, declared[name], loaded[name])
        if name in archived:
            problems += _check_archived(name, declared[name], archived[name])
        if name in reported:
            problems += _check_reported(name, declared[name], reported[name])
    return [*problems, *_check_content(irpa_path, archived, reported)]


def declared_parameters(linked_text: str) -> dict[str, Declared]:
    """Return the parameters of a linked module.

    Raises: IngotError for one of another scope, one declared twice, or one in an
        unknown form.
    """
    found: dict[str, Declared] = {}
    matches = list(_DECLARED.finditer(linked_text))
    if len(matches) != linked_text.count(_ATTRIBUTE):
        raise IngotError(
            f'linked.mlir: a parameter is not of the form \'{_ATTRIBUTE}"{SCOPE}"::'
            f'"name"> : tensor<2x3xf32>\'; expected {linked_text.count(_ATTRIBUTE)},'
            f" found {len(matches)}"
        )
    for scope, name, sizes, element in (match.groups() for match in matches):
        if scope != SCOPE:
            raise IngotError(
                f"linked.mlir: parameter '{name}': wrong scope; expected '{SCOPE}',"
                f" found '{scope or ''}'"
            )
        if element not in ITEM_BYTES:
            raise IngotError(
                f"linked.mlir: parameter '{name}': unknown type; expected one of"
                f" {', '.join(ITEM_BYTES)}, found '{element}'"
            )
        if name in found:
            raise IngotError(f"linked.mlir: parameter '{name}': declared twice")
        shape = tuple(int(size) for size in sizes.split("x") if size)
        found[name] = Declared(element, shape)
    return found


def dump_module(vmfb_bytes: bytes) -> str:
    """Return the output of `iree-dump-module` for a vmfb.

    Raises: IngotError if it is not a vmfb.
    """
    with tempfile.TemporaryDirectory(prefix="dump-") as name:
        folder = Path(name)
        (folder / "model.vmfb").write_bytes(vmfb_bytes)
        # The program that calls this runs in the sandbox already.
        words = ("iree-dump-module", "model.vmfb")
        done = process.run(words, folder, dict(os.environ))
    text = done.output.decode(errors="replace")
    if done.exit_code != 0:
        last = (text.strip().splitlines() or ["no output"])[-1]
        raise IngotError(f"model.vmfb: iree-dump-module failed; {last}")
    return text


def dispatches(dump: str) -> dict[str, int]:
    """Return how many dispatches the code of each function of a module records."""
    found: dict[str, int] = {}
    name = ""
    for match in _DISPATCH.finditer(dump):
        if match["function"]:
            name = match["function"]
        else:
            found[name] = found.get(name, 0) + 1
    return found


def loaded_parameters(dump: str) -> dict[str, int]:
    """Return how many bytes of each parameter a dumped module loads.

    A load names its keys by three constants: (offset, length) of each key as i32, the
    keys in one text, and (source offset, target offset, length) of each as i64.

    Raises: IngotError for a load in an unknown form.
    """
    rodata = {
        int(match[1]): bytes.fromhex(match[2]) for match in _RODATA.finditer(dump)
    }
    registers: dict[str, bytes] = {}
    found: dict[str, int] = {}
    for line in dump.splitlines():
        if constant := _CONSTANT.match(line):
            registers[constant[1]] = rodata[int(constant[2])]
        elif load := _LOAD.search(line):
            names = [word.strip(" %").lower() for word in load[2].split(",")]
            held = [registers[name] for name in names if name in registers]
            # The last operands; the scope and, in a `gather`, others come before them.
            if len(held) < 4 or load[1] not in ("load", "gather"):
                raise IngotError(
                    f"model.vmfb: cannot read how it loads: {line.strip()}"
                )
            for name, size_bytes in _load_entries(*held[-3:]):
                found[name] = found.get(name, 0) + size_bytes
    return found


def _load_entries(
    key_table: bytes, keys: bytes, spans: bytes
) -> Iterator[tuple[str, int]]:
    places = list(struct.iter_unpack("<ii", key_table))
    sizes = list(struct.iter_unpack("<qqq", spans))
    if len(places) != len(sizes) or sum(length for _, length in places) != len(keys):
        raise IngotError(
            f"model.vmfb: cannot read a load of {len(places)} keys and"
            f" {len(sizes)} spans"
        )
    for (offset, length), (_, _, size_bytes) in zip(places, sizes, strict=True):
        yield keys[offset : offset + length].decode(), size_bytes


def _check_loaded(name: str, declared: Declared, size_bytes: int) -> Iterator[str]:
    if size_bytes != declared.size_bytes:
        yield (
            f"model.vmfb: parameter '{name}': wrong length; expected"
            f" {declared.size_bytes} bytes for {declared}, found {size_bytes}"
        )


def _check_archived(
    name: str, declared: Declared, entry: ArchiveEntry
) -> Iterator[str]:
    if entry.size_bytes != declared.size_bytes:
        yield (
            f"model.irpa: parameter '{name}': wrong length; expected"
            f" {declared.size_bytes} bytes for {declared}, found {entry.size_bytes}"
        )
    found = _described(entry.metadata)
    if found != declared:
        yield (
            f"model.irpa: parameter '{name}': wrong type; expected {declared},"
            f" found {found}"
        )


def _described(metadata: str) -> Declared | None:
    """Return the type in the metadata of an archive's entry."""
    head, _, text = metadata.partition(":")
    elements = {theirs: ours for ours, theirs in NUMPY_NAMES.items()}
    try:
        tensor = json.loads(text) if head == "TENSORv0" else {}
        return Declared(elements[tensor["dtype"]], tuple(tensor["shape"]))
    except (ValueError, KeyError, TypeError):
        return None


def _check_reported(
    name: str, declared: Declared, item: dict[str, Any]
) -> Iterator[str]:
    found = Declared(item["type"], tuple(item["shape"]))
    if found != declared:
        yield (
            f"bake.json: parameter '{name}': wrong type; expected {declared},"
            f" found {found}"
        )


def _check_content(
    path: Path, archived: dict[str, ArchiveEntry], reported: dict[str, Any]
) -> Iterator[str]:
    with path.open("rb") as file:
        for name in sorted(archived.keys() & reported.keys()):
            hasher, left = hashlib.sha256(), archived[name].size_bytes
            file.seek(archived[name].offset)
            while left and (block := file.read(min(left, _BLOCK_BYTES))):
                hasher.update(block)
                left -= len(block)
            if hasher.hexdigest() != reported[name]["sha256"]:
                yield (
                    f"model.irpa: parameter '{name}': not as it was baked; expected"
                    f" sha256 {reported[name]['sha256']}, found {hasher.hexdigest()}"
                )
