"""Every key of an architecture: its form and its meaning, written once.

The reader checks files against this table, and `python -m ingot.model.json_schema
architecture` prints it as JSON Schema.
"""

from __future__ import annotations

from ingot.model.manifest_schema import TOLERANCES
from ingot.model.name_patterns import (
    ATTRIBUTE,
    BLOCK,
    COMPONENT,
    DIM,
    DIM_OR_SIZE,
    KEBAB,
    NAME,
    PARAMETER,
    TYPE,
    USED_PARAMETER,
)
from ingot.model.schema_types import (
    Choice,
    Either,
    Integer,
    Key,
    Mapping,
    Number,
    Record,
    Sequence,
    Text,
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

_PARAMETER = Record(
    (
        Key("shape", Sequence(DIM_OR_SIZE, min=1), "dims of the stored tensor"),
        Key(
            "hf",
            Text(),
            "its name in a Hugging Face checkpoint; with {expert}, there is a tensor of"
            " each expert",
            optional=True,
        ),
        Key(
            "hf_shape",
            Sequence(DIM, min=1),
            "dims of that tensor: the parameter's in another order, or joined",
            optional=True,
        ),
        Key(
            "hf_joined",
            Sequence(PARAMETER, min=2),
            "parameters, this among them, whose rows that tensor has one behind the"
            " other",
            optional=True,
        ),
        Key(
            "hf_offset",
            Number(),
            "added to the values of a Hugging Face checkpoint; GGUF has it added",
            optional=True,
        ),
        Key(
            "gguf_interleaved",
            DIM,
            "number of heads whose rows GGUF keeps in the order of interleaved rope",
            optional=True,
        ),
        Key(
            "tied_to",
            PARAMETER,
            "the parameter that serves instead where a manifest says 'tied'",
            optional=True,
        ),
        Key(
            "rope_base",
            NAME,
            "hyperparameter: base of the rope angles that this table is computed from",
            optional=True,
        ),
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
            Mapping(USED_PARAMETER, NAME),
            "parameters, by the component's argument",
            optional=True,
        ),
        Key(
            "attributes",
            Mapping(Either((ATTRIBUTE, Number())), NAME),
            "hyperparameters, dims, numbers or {layer}, by the component's argument",
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
        Key(
            "variants",
            Mapping(
                Mapping(Either((USED_PARAMETER, Number())), NAME, min=1), NAME, min=1
            ),
            "by variant, what each $name in the nodes stands for",
            optional=True,
        ),
        Key("inputs", Mapping(TYPE, NAME, min=1), "values it takes, with their types"),
        Key("nodes", Sequence(_NODE, min=1), "component calls, in order"),
        Key("outputs", Mapping(NAME, NAME, min=1), "values it gives, by their name"),
    )
)
_STEP = Record(
    (
        Key(
            "block",
            Either((BLOCK, Sequence(BLOCK, min=1))),
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
        Key(
            "updates",
            NAME,
            "the input that it replaces, in the same memory",
            optional=True,
        ),
    )
)
_ENTRY_POINT = Record(
    (
        Key(
            "dims",
            Mapping(Integer(1), NAME, min=1),
            "dynamic dims that have one size here, such as seq: 1 to decode",
            optional=True,
        ),
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
        Key(
            "tolerances",
            TOLERANCES,
            "where its models differ from a target's tolerances, by check level",
            optional=True,
        ),
    )
)
