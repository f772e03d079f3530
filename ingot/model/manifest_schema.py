"""Every key of a manifest: its form and its meaning, written once.

The readers check files against these tables, `python -m ingot.model.json_schema`
prints them as JSON Schema, and both therefore accept the same keys.
"""

from __future__ import annotations

from ingot.model import shapes
from ingot.model.schema_types import (
    Choice,
    Either,
    Integer,
    Key,
    Mapping,
    Number,
    Record,
    Sequence,
    Tagged,
    Text,
)

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
SHA256 = Text("a sha256 of 64 lower-case hex digits", "[0-9a-f]{64}")
LICENCE = Text(
    "an SPDX licence expression such as Apache-2.0",
    r"\(?[A-Za-z0-9.+-]+( (AND|OR|WITH) \(?[A-Za-z0-9.+-]+\)?)*\)?",
)

INPUT_ROLES = (
    "hidden",
    "tokens",
    "token_types",
    "mask",
    "start",
    "last",
    "block_table",
    "cache",
)
OUTPUT_ROLES = ("embedding", "hidden", "logits", "cache")
# What the bake reads from safetensors, and what it writes for the components.
SOURCE_ELEMENTS = ("f32", "f16", "bf16")
STORED_ELEMENTS = ("f32", "bf16", "f16", "i8", "i8_block32", "i4_block32")
COMPUTE_ELEMENTS = ("f32",)
CHECK_LEVELS = ("component", "block", "propagated", "model", "golden")

_PATH = Text("a path")
_DIGEST = "digest that the file must have"
_PACKAGE = Record(
    (
        Key("distribution", Text("a distribution's name"), "its name on PyPI"),
        Key("path", _PATH, "the file, relative to site-packages"),
        Key("sha256", SHA256, _DIGEST, optional=True),
    )
)
_FILE = Record(
    (
        Key("path", _PATH, "the file, relative to this manifest"),
        Key("sha256", SHA256, _DIGEST, optional=True),
    )
)
_DIRECTORY = Record(
    (Key("path", _PATH, "folder of the checkpoint, relative to this manifest"),)
)
_URL = Record(
    (
        Key("url", Text("an https: or file: URL", "(https|file)://.+"), "its address"),
        Key("sha256", SHA256, _DIGEST),
    )
)
_SYNTHETIC = Record((Key("seed", Integer(0), "seed of the random weights"),))
_SPLAT = Record((Key("value", Number(), "what every weight is"),))

WEIGHT_SOURCE = Tagged(
    "kind",
    "where the weights come from",
    (
        ("python-package", _PACKAGE),
        ("file", _FILE),
        ("hf-directory", _DIRECTORY),
        ("gguf", _FILE),
        ("irpa", _FILE),
        ("url", _URL),
        ("synthetic", _SYNTHETIC),
        ("splat", _SPLAT),
    ),
)
TOKENIZER_SOURCE = Tagged(
    "kind",
    "where the tokenizer.json comes from",
    (("python-package", _PACKAGE), ("file", _FILE), ("url", _URL)),
)

POLICY = Record(
    (
        Key("match", Text("a pattern"), "parameters it holds for; * matches anything"),
        Key(
            "source",
            Choice(SOURCE_ELEMENTS),
            "type in the weight source; left out, whatever it has is converted",
            optional=True,
        ),
        Key(
            "stored",
            Choice(STORED_ELEMENTS),
            "how matrices are stored; vectors stay f32",
        ),
        Key("compute", Choice(COMPUTE_ELEMENTS), "type the components take"),
    )
)
WEIGHTS = Record(
    (
        Key("source", WEIGHT_SOURCE, "where the weights come from"),
        Key(
            "names",
            Choice(("hf", "gguf")),
            "how the source names tensors: as the parameters' hf, or as GGUF",
        ),
        Key(
            "experts",
            Choice(("last",)),
            "where the dim of experts is in the source's tensors, if not first: [n_out,"
            " n_in, n_expert]",
            optional=True,
        ),
        Key(
            "ignore",
            Sequence(Text("a pattern")),
            "tensors of the source that no parameter needs; * matches anything",
            optional=True,
        ),
        Key(
            "tied",
            Sequence(PARAMETER, min=1),
            "parameters that this model does not have: the one that the architecture"
            " says (tied_to) serves for both",
            optional=True,
        ),
        Key(
            "policy",
            Sequence(POLICY, min=1),
            "types on the way from source to component; the first match holds",
        ),
    )
)
_RANGE = Record(
    (
        Key("min", Integer(1), "smallest size"),
        Key("max", Integer(1), "largest size"),
    )
)
_TOLERANCE = Record(
    (
        Key("max_abs_error", Number(), "largest difference allowed", optional=True),
        Key(
            "max_range_error",
            Number(),
            "largest difference allowed, as a share of the range (largest less smallest"
            " value) of what is expected",
            optional=True,
        ),
        Key("min_cosine", Number(), "smallest cosine allowed", optional=True),
        Key("reason", Text(), "why the target's own tolerance does not hold"),
    )
)
TOLERANCES = Mapping(_TOLERANCE, Choice(CHECK_LEVELS))
_CHECK = Record(
    (
        Key("golden", Text("a path"), "reference outputs (npz)", optional=True),
        Key(
            "tolerances",
            TOLERANCES,
            "where this model differs from the target's tolerances, by check level",
            optional=True,
        ),
    )
)

MANIFEST = Record(
    (
        Key("model", KEBAB, "the model's name: this file's, without .yaml"),
        Key("architecture", KEBAB, "component graph: models/architectures/<name>.yaml"),
        Key("licence", LICENCE, "licence of the weights"),
        Key("dims", Mapping(Integer(1), NAME), "sizes, under GGUF names"),
        Key(
            "hyperparameters",
            Mapping(Number(), NAME),
            "numbers that components take, such as layer_norm_eps",
            optional=True,
        ),
        Key("dynamic", Mapping(_RANGE, NAME), "dims that stay dynamic, with ranges"),
        Key("weights", WEIGHTS, "where the weights come from and how they are stored"),
        Key("tokenizer", TOKENIZER_SOURCE, "the tokenizer.json to ship", optional=True),
        Key(
            "end_tokens",
            Sequence(Integer(0), min=1),
            "ids of the tokens that end a text, beside those that are known by name",
            optional=True,
        ),
        Key("check", _CHECK, "what the model is checked against", optional=True),
        Key(
            "bench",
            Mapping(Sequence(Mapping(Integer(1), NAME), min=1), NAME),
            "sizes of the dynamic dims that each entry point is timed at",
            optional=True,
        ),
    )
)
