"""List every key of an architecture, with its form and its meaning.

The reader checks files against this table, and `python -m ingot.model.json_schema
architecture` prints it as JSON Schema. There are two forms: a file may leave out what
the architecture, block or entry point that it extends has; a whole architecture, with
everything inherited put in place, may not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

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
    Form,
    Integer,
    Key,
    ListOf,
    MapOf,
    Number,
    Record,
    Section,
    Text,
    key,
    keys_of,
    optional,
)

INPUT_ROLES = (
    "hidden",
    "tokens",
    "token_types",
    "mask",
    "start",
    "last_index",
    "block_table",
    "cache",
)
OUTPUT_ROLES = ("embedding", "hidden", "logits", "cache")

Given = str | int | float
"""What a node gives to an argument that is no tensor: a name or a number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterSection(Section):
    """A weight that the architecture declares."""

    shape: tuple[str | int, ...] = key(
        ListOf(DIM_OR_SIZE, min=1), "dims of the stored tensor"
    )
    hf: str = optional(
        Text(),
        "its name in a Hugging Face checkpoint; with {expert}, there is a tensor of"
        " each expert",
    )
    hf_shape: tuple[str, ...] = optional(
        ListOf(DIM, min=1),
        "dims of that tensor: the parameter's in another order, or joined",
    )
    hf_fused: tuple[str, ...] = optional(
        ListOf(PARAMETER, min=2),
        "parameters, this among them, whose rows that tensor has in sequence",
    )
    hf_offset: float = optional(
        Number(),
        "added to the values of a Hugging Face checkpoint; GGUF has it added",
        default=0.0,
    )
    gguf_interleaved: str = optional(
        DIM, "number of heads whose rows GGUF keeps in the order of interleaved rope"
    )
    tied_to: str = optional(
        PARAMETER, "the parameter that serves instead where a manifest says 'tied'"
    )
    rope_base: str = optional(
        NAME, "hyperparameter: base of the rope angles that this table is computed from"
    )

    @property
    def dims(self) -> tuple[str, ...]:
        """Return the dims of the shape as they are written."""
        return tuple(map(str, self.shape))


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSection(Section):
    """A call of a component, or of another block."""

    name: str = key(NAME, "name of the node, and of its value")
    uses: str = key(USES, "component: components/<name>.mlir, or block:<name>")
    operands: Mapping[str, str] = optional(
        MapOf(NAME, NAME),
        "values of this block, by the component's argument or the block's input",
    )
    parameters: Mapping[str, str] = optional(
        MapOf(USED_PARAMETER, NAME),
        "parameters, by the component's argument or the block's $name",
    )
    attributes: Mapping[str, Given] = optional(
        MapOf(Either((ATTRIBUTE, Number(keeps_integers=True))), NAME),
        "hyperparameters, dims, numbers or {layer}, by the component's argument or"
        " the block's $name",
    )
    results: tuple[str, ...] = optional(
        ListOf(NAME, min=2),
        "names of the values of a component or block with several results",
    )
    prefix: str = optional(
        NAME, "put before the names of the values inside the block that is called"
    )

    @property
    def values(self) -> tuple[str, ...]:
        """Return the names of the values that it defines: its own, if it names none."""
        return self.results or (self.name,)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockSection(Section):
    """A piece of a model that is checked alone."""

    variants: Mapping[str, Mapping[str, Given]] = optional(
        MapOf(
            MapOf(Either((USED_PARAMETER, Number(keeps_integers=True))), NAME, min=1),
            NAME,
            min=1,
        ),
        "by variant, what each $name in the nodes stands for",
    )
    inputs: Mapping[str, str] = key(
        MapOf(TYPE, NAME, min=1), "values it takes, with their types"
    )
    nodes: tuple[NodeSection, ...] = key(
        ListOf(NodeSection, min=1), "calls of components and blocks, in order"
    )
    outputs: Mapping[str, str] = key(
        MapOf(NAME, NAME, min=1), "values it gives, by their name"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSection(Section):
    """A call of a block, or of several in turn, layer by layer."""

    block: str | tuple[str, ...] = key(
        Either((BLOCK, ListOf(BLOCK, min=1))),
        "block to call; a sequence is gone through layer by layer, over and over",
    )
    repeat: str | int = optional(
        Either((NAME, Integer(1))),
        "number of layers, or the dim that holds it",
        default="",
    )
    name: str = optional(
        NAME, "name of the step where the block's is taken or there are several blocks"
    )
    operands: Mapping[str, str] = key(
        MapOf(NAME, NAME, min=1), "values, by the block's input"
    )
    results: Mapping[str, str] = key(
        MapOf(NAME, NAME, min=1), "values it defines, by output"
    )

    @property
    def blocks(self) -> dict[str, str]:
        """Return the blocks that it calls, by the part of the step that names each."""
        if isinstance(self.block, str):
            return {"block": self.block}
        return {f"block[{index}]": name for index, name in enumerate(self.block)}


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSection(Section):
    """An argument of an entry point."""

    type: str = key(TYPE, "its tensor type")
    role: str = key(Choice(INPUT_ROLES), "what it means to a caller")


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSection(Section):
    """A result of an entry point."""

    value: str = key(NAME, "the value that is returned")
    role: str = key(Choice(OUTPUT_ROLES), "what it means to a caller")
    updates: str = optional(NAME, "the input that it replaces, in the same memory")


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryPointSection(Section):
    """A function that the model exports."""

    dims: Mapping[str, int] = optional(
        MapOf(Integer(1), NAME, min=1),
        "dynamic dims that have one size here, such as seq: 1 to decode",
    )
    inputs: Mapping[str, InputSection] = key(
        MapOf(InputSection, NAME, min=1), "arguments, in order"
    )
    steps: tuple[StepSection, ...] = key(
        ListOf(StepSection, min=1), "block calls, in order"
    )
    outputs: Mapping[str, OutputSection] = key(
        MapOf(OutputSection, NAME, min=1), "results, in order"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchitectureSection(Section):
    """A whole architecture, with all that it inherits."""

    architecture: str = key(KEBAB, "its name: this file's, without .yaml")
    dims: tuple[str, ...] = key(
        ListOf(NAME, min=1), "dims that a manifest gives a size to"
    )
    hyperparameters: tuple[str, ...] = optional(
        ListOf(NAME), "numbers that a manifest gives"
    )
    dynamic: tuple[str, ...] = key(ListOf(NAME), "dims that stay dynamic")
    parameters: Mapping[str, ParameterSection] = key(
        MapOf(ParameterSection, PARAMETER),
        "weights under their GGUF names; {layer} stands for the layer's number",
    )
    blocks: Mapping[str, BlockSection] = key(
        MapOf(BlockSection, NAME, min=1), "pieces that are checked alone"
    )
    entry_points: Mapping[str, EntryPointSection] = key(
        MapOf(EntryPointSection, NAME, min=1), "functions that the model exports"
    )
    tolerances: Mapping[str, ToleranceSection] = optional(
        TOLERANCES, "limits that do not follow from float32's loss, by check level"
    )


def _extending(form: Text, doc: str, **removable: Text) -> tuple[Key, ...]:
    """Return the keys of a section that may extend another one."""
    removed = Record(
        tuple(
            Key(name, ListOf(item, min=1), f"names among its {name}", optional=True)
            for name, item in removable.items()
        )
    )
    return (
        Key("extends", form, doc, optional=True),
        Key("remove", removed, "what is not inherited", optional=True),
    )


def _item(section: type[Section], other: Text = NAME) -> Record:
    """Return the form of an item; a new one among inherited ones says where it goes."""
    places = (
        Key("before", other, "the item that this new one precedes", optional=True),
        Key("after", other, "the item that this new one follows", optional=True),
    )
    return Record(keys_of(section) + places)


def _partial(
    own: tuple[Key, ...], keys: tuple[Key, ...], forms: Mapping[str, Form]
) -> Record:
    """Return the form of a section that may leave out what it inherits."""
    inherited = tuple(
        replace(item, form=forms.get(item.name, item.form), optional=True)
        for item in keys
    )
    return Record(own + inherited)


_BLOCK = _partial(
    _extending(
        NAME, "the block that it is made of", inputs=NAME, nodes=NAME, outputs=NAME
    ),
    keys_of(BlockSection),
    {"nodes": ListOf(_item(NodeSection), min=1)},
)
_ENTRY_POINT = _partial(
    _extending(
        NAME,
        "the entry point that it is made of",
        inputs=NAME,
        steps=NAME,
        outputs=NAME,
    ),
    keys_of(EntryPointSection),
    {
        "inputs": MapOf(_item(InputSection), NAME, min=1),
        "steps": ListOf(_item(StepSection), min=1),
        "outputs": MapOf(_item(OutputSection), NAME, min=1),
    },
)
_NAME_KEY, *_KEYS = keys_of(ArchitectureSection)

ARCHITECTURE = _partial(
    (
        _NAME_KEY,
        *_extending(
            KEBAB,
            "the architecture that it is made of: models/architectures/<name>.yaml",
            parameters=PARAMETER,
            blocks=NAME,
            entry_points=NAME,
        ),
    ),
    tuple(_KEYS),
    {
        "parameters": MapOf(_item(ParameterSection, PARAMETER), PARAMETER),
        "blocks": MapOf(_BLOCK, NAME, min=1),
        "entry_points": MapOf(_ENTRY_POINT, NAME, min=1),
    },
)
"""The form of a file, which may leave out what it inherits."""
