"""List every key of an architecture, with its form and its meaning.

The reader checks files against this table, and `python -m ingot.model.json_schema
architecture` prints it as JSON Schema. There are two forms: a file may leave out what
the architecture, block or entry point that it extends has; a whole architecture, with
everything inherited put in place, may not.
"""

from __future__ import annotations

from collections.abc import Mapping as Map
from dataclasses import dataclass, replace
from typing import Any

from ingot.model.manifest_schema import TOLERANCES, ToleranceSection
from ingot.model.name_patterns import (
    ATTRIBUTE,
    BLOCK,
    DIM,
    DIM_OR_SIZE,
    KEBAB,
    NAME,
    PARAMETER,
    TYPE,
    USED_PARAMETER,
    USES,
)
from ingot.model.schema_types import (
    Choice,
    Either,
    Integer,
    Key,
    Mapping,
    Number,
    Record,
    Section,
    Sequence,
    Text,
    key,
    keys_of,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterSection(Section):
    """A weight that the architecture declares."""

    shape: tuple[str | int, ...] = key(
        Sequence(DIM_OR_SIZE, min=1), "dims of the stored tensor"
    )
    hf: str = key(
        Text(),
        "its name in a Hugging Face checkpoint; with {expert}, there is a tensor of"
        " each expert",
        default="",
    )
    hf_shape: tuple[str, ...] = key(
        Sequence(DIM, min=1),
        "dims of that tensor: the parameter's in another order, or joined",
        default=(),
    )
    hf_joined: tuple[str, ...] = key(
        Sequence(PARAMETER, min=2),
        "parameters, this among them, whose rows that tensor has one behind the other",
        default=(),
    )
    hf_offset: float = key(
        Number(),
        "added to the values of a Hugging Face checkpoint; GGUF has it added",
        default=0.0,
    )
    gguf_interleaved: str = key(
        DIM,
        "number of heads whose rows GGUF keeps in the order of interleaved rope",
        default="",
    )
    tied_to: str = key(
        PARAMETER,
        "the parameter that serves instead where a manifest says 'tied'",
        default="",
    )
    rope_base: str = key(
        NAME,
        "hyperparameter: base of the rope angles that this table is computed from",
        default="",
    )

    @property
    def dims(self) -> tuple[str, ...]:
        """Return the dims of the shape as they are written."""
        return tuple(map(str, self.shape))


_NODE = (
    Key("name", NAME, "name of the node, and of its value"),
    Key("uses", USES, "component: components/<name>.mlir, or block:<name>"),
    Key(
        "operands",
        Mapping(NAME, NAME),
        "values of this block, by the component's argument or the block's input",
        optional=True,
    ),
    Key(
        "parameters",
        Mapping(USED_PARAMETER, NAME),
        "parameters, by the component's argument or the block's $name",
        optional=True,
    ),
    Key(
        "attributes",
        Mapping(Either((ATTRIBUTE, Number())), NAME),
        "hyperparameters, dims, numbers or {layer}, by the component's argument or"
        " the block's $name",
        optional=True,
    ),
    Key(
        "results",
        Sequence(NAME, min=2),
        "names of the values of a component or block with several results",
        optional=True,
    ),
    Key(
        "prefix",
        NAME,
        "put before the names of the values inside the block that is called",
        optional=True,
    ),
)
_STEP = (
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
_INPUT = (
    Key("type", TYPE, "its tensor type"),
    Key("role", Choice(INPUT_ROLES), "what it means to a caller"),
)
_OUTPUT = (
    Key("value", NAME, "the value that is returned"),
    Key("role", Choice(OUTPUT_ROLES), "what it means to a caller"),
    Key(
        "updates",
        NAME,
        "the input that it replaces, in the same memory",
        optional=True,
    ),
)
_VARIANTS = Mapping(
    Mapping(Either((USED_PARAMETER, Number())), NAME, min=1), NAME, min=1
)


def _extending(form: Text, doc: str, **removable: Text) -> tuple[Key, ...]:
    """Return the keys of a record that may extend another one."""
    removed = Record(
        tuple(
            Key(name, Sequence(item, min=1), f"names among its {name}", optional=True)
            for name, item in removable.items()
        )
    )
    return (
        Key("extends", form, doc, optional=True),
        Key("remove", removed, "what is not inherited", optional=True),
    )


def _item(keys: tuple[Key, ...], whole: bool, other: Text = NAME) -> Record:
    """Return the form of an item; a new one among inherited ones says where it goes."""
    places = (
        Key("before", other, "the item that this new one precedes", optional=True),
        Key("after", other, "the item that this new one follows", optional=True),
    )
    return Record(keys if whole else keys + places)


def _block(whole: bool) -> Record:
    doc = "the block that it is made of"
    own = _extending(NAME, doc, inputs=NAME, nodes=NAME, outputs=NAME)
    return Record(
        (
            *(() if whole else own),
            Key(
                "variants",
                _VARIANTS,
                "by variant, what each $name in the nodes stands for",
                optional=True,
            ),
            Key(
                "inputs",
                Mapping(TYPE, NAME, min=1),
                "values it takes, with their types",
                optional=not whole,
            ),
            Key(
                "nodes",
                Sequence(_item(_NODE, whole), min=1),
                "calls of components and blocks, in order",
                optional=not whole,
            ),
            Key(
                "outputs",
                Mapping(NAME, NAME, min=1),
                "values it gives, by their name",
                optional=not whole,
            ),
        )
    )


def _entry_point(whole: bool) -> Record:
    doc = "the entry point that it is made of"
    own = _extending(NAME, doc, inputs=NAME, steps=NAME, outputs=NAME)
    return Record(
        (
            *(() if whole else own),
            Key(
                "dims",
                Mapping(Integer(1), NAME, min=1),
                "dynamic dims that have one size here, such as seq: 1 to decode",
                optional=True,
            ),
            Key(
                "inputs",
                Mapping(_item(_INPUT, whole), NAME, min=1),
                "arguments, in order",
                optional=not whole,
            ),
            Key(
                "steps",
                Sequence(_item(_STEP, whole), min=1),
                "block calls, in order",
                optional=not whole,
            ),
            Key(
                "outputs",
                Mapping(_item(_OUTPUT, whole), NAME, min=1),
                "results, in order",
                optional=not whole,
            ),
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchitectureSection(Section):
    """A whole architecture; `Architecture` has its blocks and entry points as nodes."""

    architecture: str = key(KEBAB, "its name: this file's, without .yaml")
    dims: tuple[str, ...] = key(
        Sequence(NAME, min=1), "dims that a manifest gives a size to"
    )
    hyperparameters: tuple[str, ...] = key(
        Sequence(NAME), "numbers that a manifest gives", default=()
    )
    dynamic: tuple[str, ...] = key(Sequence(NAME), "dims that stay dynamic")
    parameters: Map[str, ParameterSection] = key(
        Mapping(ParameterSection, PARAMETER),
        "weights under their GGUF names; {layer} stands for the layer's number",
    )
    blocks: Map[str, Any] = key(
        Mapping(_block(whole=True), NAME, min=1), "pieces that are checked alone"
    )
    entry_points: Map[str, Any] = key(
        Mapping(_entry_point(whole=True), NAME, min=1),
        "functions that the model exports",
    )
    tolerances: Map[str, ToleranceSection] = key(
        TOLERANCES,
        "where its models differ from a target's tolerances, by check level",
        default={},
    )


def _architecture_file() -> Record:
    """Return the form of a file, which may leave out what it inherits."""
    doc = "the architecture that it is made of: models/architectures/<name>.yaml"
    own = _extending(KEBAB, doc, parameters=PARAMETER, blocks=NAME, entry_points=NAME)
    forms = {
        "parameters": Mapping(
            _item(keys_of(ParameterSection), False, PARAMETER), PARAMETER
        ),
        "blocks": Mapping(_block(whole=False), NAME, min=1),
        "entry_points": Mapping(_entry_point(whole=False), NAME, min=1),
    }
    name, *keys = keys_of(ArchitectureSection)
    inherited = [
        replace(item, form=forms.get(item.name, item.form), optional=True)
        for item in keys
    ]
    return Record((name, *own, *inherited))


ARCHITECTURE = _architecture_file()
