"""Define how every YAML file spells names, dims, types and digests.

The sections of manifests, architectures and layouts share these forms.
"""

from __future__ import annotations

from ingot.model import shapes
from ingot.model.schema_types import Either, Integer, Text
from ingot.weights.quantise import SCHEMES

# Value, dim and block names become MLIR identifiers and file names.
NAME = Text("a snake_case name", "[a-z][a-z0-9_]*")
KEBAB = Text("a kebab-case name", "[a-z0-9]+([.-][a-z0-9]+)*")
DIM = Text("a dim, or a product such as n_head*head_dim", shapes.DIM)
DIM_OR_SIZE = Either((DIM, Integer(1)))
TYPE = Text(
    f"a type such as i32[batch, seq], of {', '.join(shapes.ELEMENTS)}",
    rf"({'|'.join(shapes.ELEMENTS)})\[{shapes.SHAPE}\]",
)
_PARAMETER_NAME = r"[A-Za-z0-9_]+(\.([A-Za-z0-9_]+|\{layer\}))*"
PARAMETER = Text(
    "a parameter's name such as blk.{layer}.attn_q.weight", _PARAMETER_NAME
)
# Inside a block: $name stands for what the block's variant gives.
USED_PARAMETER = Text(
    "a parameter's name such as blk.{layer}.attn_q.weight, or a variant's $name",
    rf"\$[a-z][a-z0-9_]*|{_PARAMETER_NAME}",
)
ATTRIBUTE = Text(
    "a hyperparameter, a dim, {layer}, or a variant's $name",
    rf"\$[a-z][a-z0-9_]*|\{{layer\}}|{shapes.DIM}",
)
BLOCK = Text(
    "a block's name, with its variant where it has variants: layer.local",
    r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)?",
)
COMPONENT = Text(
    "a component such as linear/linear_bias", "[a-z][a-z0-9_]*/[a-z][a-z0-9_]*"
)
# In a node.
USES = Text(
    "a component such as linear/linear_bias, or a block such as block:experts",
    r"[a-z][a-z0-9_]*/[a-z][a-z0-9_]*|block:[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)?",
)
SHA256 = Text("a sha256 of 64 lower-case hex digits", "[0-9a-f]{64}")
LICENCE = Text(
    "an SPDX licence expression such as Apache-2.0",
    r"\(?[A-Za-z0-9.+-]+( (AND|OR|WITH) \(?[A-Za-z0-9.+-]+\)?)*\)?",
)
PATH = Text("a path")

# What the bake reads from safetensors, and what it writes for the components.
SOURCE_ELEMENTS = ("f32", "f16", "bf16")
STORED_ELEMENTS = ("f32", "bf16", "f16", "i8", *SCHEMES)
COMPUTE_ELEMENTS = ("f32",)
