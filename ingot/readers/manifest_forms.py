"""Every key of a manifest and an architecture: its form and its meaning, written once.

The readers check files against these tables, `python -m ingot.schema` prints them as
JSON Schema, and both therefore accept the same keys.
"""

from __future__ import annotations

from ingot.readers import shapes
from ingot.readers.forms import (
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
PARAMETER = Text(
    "a parameter's name such as blk.{layer}.attn_q.weight",
    r"[A-Za-z0-9_]+(\.([A-Za-z0-9_]+|\{layer\}))*",
)
COMPONENT = Text(
    "a component such as linear/linear_bias", "[a-z][a-z0-9_]*/[a-z][a-z0-9_]*"
)
SHA256 = Text("a sha256 of 64 lower-case hex digits", "[0-9a-f]{64}")
LICENCE = Text(
    "an SPDX licence expression such as Apache-2.0",
    r"\(?[A-Za-z0-9.+-]+( (AND|OR|WITH) \(?[A-Za-z0-9.+-]+\)?)*\)?",
)

INPUT_ROLES = ("tokens", "token_types", "mask")
OUTPUT_ROLES = ("embedding", "hidden")
# What the bake reads from safetensors, and what it writes for the components.
SOURCE_ELEMENTS = ("f32", "f16", "bf16")
STORED_ELEMENTS = ("f32",)
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
        Key("stored", Choice(STORED_ELEMENTS), "type in the archive"),
        Key("compute", Choice(STORED_ELEMENTS), "type the components take"),
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
            "ignore",
            Sequence(Text("a pattern")),
            "tensors of the source that no parameter needs; * matches anything",
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
        Key("max_abs_error", Number(), "largest difference allowed"),
        Key("min_cosine", Number(), "smallest cosine allowed", optional=True),
        Key("reason", Text(), "why the target's own tolerance does not hold"),
    )
)
_CHECK = Record(
    (
        Key("golden", Text("a path"), "reference outputs (npz)", optional=True),
        Key(
            "tolerances",
            Mapping(_TOLERANCE, Choice(CHECK_LEVELS)),
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
        Key("check", _CHECK, "what the model is checked against", optional=True),
        Key(
            "bench",
            Mapping(Sequence(Mapping(Integer(1), NAME), min=1), NAME),
            "sizes of the dynamic dims that each entry point is timed at",
            optional=True,
        ),
    )
)

_PARAMETER = Record(
    (
        Key("shape", Sequence(DIM_OR_SIZE, min=1), "dims of the stored tensor"),
        Key("hf", Text(), "its name in a Hugging Face checkpoint", optional=True),
    )
)
_NODE = Record(
    (
        Key("name", NAME, "name of the node, and of its value"),
        Key("uses", COMPONENT, "component: components/<name>.mlir"),
        Key(
            "operands",
            Mapping(NAME, NAME),
            "values of this block, by the component's argument",
            optional=True,
        ),
        Key(
            "parameters",
            Mapping(PARAMETER, NAME),
            "parameters, by the component's argument",
            optional=True,
        ),
        Key(
            "attributes",
            Mapping(Either((DIM, Number())), NAME),
            "hyperparameters, dims or numbers, by the component's argument",
            optional=True,
        ),
        Key(
            "results",
            Sequence(NAME, min=2),
            "names of the values of a component with several results",
            optional=True,
        ),
    )
)
_BLOCK = Record(
    (
        Key("inputs", Mapping(TYPE, NAME, min=1), "values it takes, with their types"),
        Key("nodes", Sequence(_NODE, min=1), "component calls, in order"),
        Key("outputs", Mapping(NAME, NAME, min=1), "values it gives, by their name"),
    )
)
_STEP = Record(
    (
        Key(
            "block",
            Either((NAME, Sequence(NAME, min=1))),
            "block to call; a sequence is gone through layer by layer, over and over",
        ),
        Key(
            "repeat",
            Either((NAME, Integer(1))),
            "number of layers, or the dim that holds it",
            optional=True,
        ),
        Key(
            "name",
            NAME,
            "name of the step where the block's is taken or there are several blocks",
            optional=True,
        ),
        Key("operands", Mapping(NAME, NAME, min=1), "values, by the block's input"),
        Key("results", Mapping(NAME, NAME, min=1), "values it defines, by output"),
    )
)
_INPUT = Record(
    (
        Key("type", TYPE, "its tensor type"),
        Key("role", Choice(INPUT_ROLES), "what it means to a caller"),
    )
)
_OUTPUT = Record(
    (
        Key("value", NAME, "the value that is returned"),
        Key("role", Choice(OUTPUT_ROLES), "what it means to a caller"),
    )
)
_ENTRY_POINT = Record(
    (
        Key("inputs", Mapping(_INPUT, NAME, min=1), "arguments, in order"),
        Key("steps", Sequence(_STEP, min=1), "block calls, in order"),
        Key("outputs", Mapping(_OUTPUT, NAME, min=1), "results, in order"),
    )
)

ARCHITECTURE = Record(
    (
        Key("architecture", KEBAB, "its name: this file's, without .yaml"),
        Key("dims", Sequence(NAME, min=1), "dims that a manifest gives a size to"),
        Key(
            "hyperparameters",
            Sequence(NAME),
            "numbers that a manifest gives",
            optional=True,
        ),
        Key("dynamic", Sequence(NAME), "dims that stay dynamic"),
        Key(
            "parameters",
            Mapping(_PARAMETER, PARAMETER),
            "weights under their GGUF names; {layer} stands for the layer's number",
        ),
        Key("blocks", Mapping(_BLOCK, NAME, min=1), "pieces that are checked alone"),
        Key(
            "entry_points",
            Mapping(_ENTRY_POINT, NAME, min=1),
            "functions that the model exports",
        ),
    )
)
