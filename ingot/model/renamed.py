"""List every renamed key, value and name, and find the old ones in a YAML file.

The readers consult this table when they meet a word that they do not know, and `doit
migrate` rewrites files by it. An error therefore never names a spelling that the
command does not write.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from ingot.errors import Position
from ingot.model.library import find

if TYPE_CHECKING:
    from ingot.model.yaml_nodes import Node

COMMAND_LINE = "command line"
HINT = "`doit migrate` rewrites the files of the project"


@dataclass(frozen=True, slots=True)
class Renamed:
    """A word that has another spelling now: a key of a section, or a value at a key."""

    section: str  # "weights"; "" is a file's top, and * matches anything
    old: str
    new: str
    # A word that names this file is not an old one while the file exists.
    file: str = ""


_COMPONENT = "components/{}.mlir"
_STORED = ("bf16", "f16", "i8", "i8_block32", "i4_block32")
_WIDENED = ("bf16", "f16")
_WORDS = {
    "embedding/embedding_lookup": _STORED,
    "linear/linear": ("f32", *_STORED),
    "linear/linear_bias": ("f32",),
}
_COMPONENTS = {
    "moe/mul_mat_id_each": "moe/mul_mat_id_per_expert_x",
    "moe/mul_mat_id_each_packed": "moe/mul_mat_id_per_expert_x_packed",
    "moe/mul_mat_id_each_packed_i8": "moe/mul_mat_id_per_expert_x_packed_i8",
    **{
        f"{name}_words_{stored}": f"{name}_packed_u32_{stored}"
        for name, types in _WORDS.items()
        for stored in types
    },
    # One file for several stored types, and for attention with and without a sink.
    **{
        f"{name}_{stored}": name
        for name in ("embedding/embedding_lookup_packed", "linear/linear_packed")
        for stored in _WIDENED
    },
    **{
        f"moe/mul_mat_id{each}_packed_{stored}": f"moe/mul_mat_id{x}_packed"
        for each, x in (("", ""), ("_each", "_per_expert_x"))
        for stored in _WIDENED
    },
    "attention/attention_sink": "attention/attention_causal",
    "attention/flash_attention": "attention/attention_causal",
}
_LAYOUT = "targets/layouts/{}.yaml"

RENAMED = (
    # Manifests.
    Renamed("weights", "names", "naming"),
    Renamed("weights", "experts", "expert_axis"),
    Renamed("weights.experts", "last", "-1"),
    # Architectures.
    Renamed("parameters.*", "hf_joined", "hf_fused"),
    Renamed("entry_points.*.inputs.*.role", "last", "last_index"),
    # Targets and layouts.
    Renamed("", "lane", "tile_n"),
    Renamed("layout", "lanes8", "packed_n8", _LAYOUT),
    Renamed("layout", "words8", "packed_u32", _LAYOUT),
    *(Renamed("*", old, new, _COMPONENT) for old, new in _COMPONENTS.items()),
    # Stages.
    Renamed(COMMAND_LINE, "phase", "ir"),
)


@dataclass(frozen=True, slots=True)
class Change:
    """An old word in a file."""

    position: Position
    old: str
    new: str


def new_word(section: str, word: str, root: Path | None = None) -> str:
    """Return the new spelling of a word; "" if it was not renamed.

    With a root, a word that names a file of the project is not an old one.
    """
    for item in RENAMED:
        if word == item.old and fnmatchcase(section, item.section):
            file = item.file.format(word)
            is_there = root and file and os.path.lexists(find(root, file))
            return "" if is_there else item.new
    return ""


def error_text(section: str, word: str, value: Node | None = None) -> tuple[str, str]:
    """Return message and hint for a word; empty texts if it was not renamed.

    `value` is the value of a key, which may have another spelling too.
    """
    new = new_word(section, word)
    if not new:
        return "", ""
    text = value.value if value else None
    if value and isinstance(text, str) and (other := new_word(value.key, text)):
        word, new = f"{word}: {text}", f"{new}: {other}"
    return f"'{word}' was renamed to '{new}'", HINT


def changes(node: Node, root: Path) -> Iterator[Change]:
    """Yield the old words at and below a node, in the order of the file.

    Raises:
        ManifestError: where a section has a key under its old and its new name.
    """
    if isinstance(node.value, str):
        if new := new_word(node.key, node.value, root):
            yield Change(node.position, node.value, new)
    elif isinstance(node.value, tuple):
        for item in node.items:
            yield from changes(item, root)
    elif isinstance(node.value, dict):
        for name, value in node.entries.items():
            if new := new_word(node.key, name, root):
                if new in node.entries:
                    message = f"renamed to '{new}', which is here too"
                    raise node.key_error(name, message, "remove one of them")
                yield Change(value.named or value.position, name, new)
            yield from changes(value, root)
