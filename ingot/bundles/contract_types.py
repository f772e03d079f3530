"""Define the types of `bundle.json`, and print them as a JSON Schema.

    python -m ingot.bundles.contract_types > docs/bundle.schema.json

The reader takes its types from here too, so the published schema cannot differ from
what `ingot` reads.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from typing import Any

from ingot.codec import DIALECT, schema_of

SCHEMA = "ingot.bundle.v3"
OLDER = ("ingot.bundle.v1", "ingot.bundle.v2")
"""Versions that are read as well: they lack optional fields, and have no run.py. Their
licence is in the file LICENCE."""


@dataclass(frozen=True)
class IndexRange:
    """The range of every number of an input; the module rejects others."""

    min: int
    max: tuple[int | str, ...] = field(
        metadata={"doc": "inclusive: the least of these, over the dynamic dims"}
    )


@dataclass(frozen=True)
class PortValue:
    """An input or output."""

    name: str
    element: str = field(metadata={"doc": "f32, i32, ..."})
    shape: tuple[int | str, ...] = field(
        metadata={"doc": "static sizes, and names of dynamic_dims"}
    )
    role: str = field(
        metadata={
            "doc": "tokens, mask, start, last_index, block_table, cache, logits..."
        }
    )
    range: IndexRange | None = field(
        default=None,
        metadata={"doc": "of each number of an input; the module rejects others"},
    )
    unwritten: str = field(
        default="",
        metadata={"doc": "of a cache: what it may hold where nothing was written"},
    )


@dataclass(frozen=True)
class InPlace:
    """The output that overwrites an input, whose memory is the caller's."""

    input: str
    output: str


@dataclass(frozen=True)
class EntryValue:
    """A function that the module exports."""

    name: str
    inputs: tuple[PortValue, ...]
    outputs: tuple[PortValue, ...]
    in_place: tuple[InPlace, ...]


@dataclass(frozen=True)
class Range:
    """The sizes that a dynamic dim may have; the module rejects others."""

    min: int
    max: int


@dataclass(frozen=True)
class FileValue:
    """The digest of a file."""

    sha256: str
    size_bytes: int


@dataclass(frozen=True)
class Pooling:
    """How the embedding of a sentence derives from those of its tokens."""

    kind: str = field(
        metadata={"doc": "mean: of the tokens that mask does not exclude"}
    )
    normalized: bool = field(metadata={"doc": "whether an embedding has length 1"})


@dataclass(frozen=True)
class SamplingDefaults:
    """How the next token is chosen, unless a caller says otherwise."""

    temperature: float = field(metadata={"doc": "0: always the most likely token"})
    top_k: int | None = field(metadata={"doc": "null: all tokens"})
    top_p: float


@dataclass(frozen=True)
class GenerationValue:
    """How a text begins and ends."""

    bos: int | None = field(metadata={"doc": "the token that begins a text"})
    add_bos: bool = field(
        metadata={"doc": "whether it does even if tokenizer.json does not add it"}
    )
    end_tokens: tuple[int, ...] = field(
        metadata={"doc": "the manifest's, then special tokens that end texts by name"}
    )
    stop: tuple[str, ...] = field(metadata={"doc": "texts that end a text"})
    chat_template: str | None = field(
        metadata={"doc": "the file with the Jinja template of a conversation"}
    )
    unused: tuple[tuple[int, ...], ...] = field(
        default=(),
        metadata={"doc": "first and last id of rows without a token: choose none"},
    )


@dataclass(frozen=True)
class TextValue:
    """What turns texts into token ids, and back."""

    tokenizer: str = field(metadata={"doc": "the file, of Hugging Face tokenizers"})
    packages: tuple[str, ...] = field(
        metadata={"doc": "the Python packages with which run.py takes texts"}
    )


@dataclass(frozen=True)
class TensorValue:
    """A parameter of the archive."""

    element: str
    shape: tuple[int, ...]
    sha256: str = field(default="", metadata={"doc": "of its content"})


@dataclass(frozen=True)
class ParametersValue:
    """The weights."""

    archive: str = field(metadata={"doc": "the file, in IREE's parameter format"})
    scope: str = field(metadata={"doc": "the scope in which the module looks"})
    types: dict[str, TensorValue]


@dataclass(frozen=True)
class ModuleValue:
    """What is in the compiled module."""

    dispatches: dict[str, int] = field(
        metadata={"doc": "by function: how many dispatches its code records"}
    )


@dataclass(frozen=True)
class TargetValue:
    """What the module was compiled for."""

    name: str
    machine: str | None = field(metadata={"doc": "the processor; null: any"})
    cpu_features: tuple[str, ...] = field(
        metadata={
            "doc": "what the processor must have, in the words of /proc/cpuinfo; run.py"
            " and ingot do not run the module without them"
        }
    )
    layout: str
    compile_flags: tuple[str, ...]
    device: str = field(
        metadata={"doc": "the IREE driver: 'local' (task or sync) or 'vulkan'"}
    )
    summary: str = ""


@dataclass(frozen=True)
class BundleContent:
    """bundle.json: what a bundle contains, and how to call its module."""

    schema: str = field(metadata={"doc": f"the version of this file: {SCHEMA}"})
    model: str
    licence: str
    dims: dict[str, int]
    dynamic_dims: dict[str, Range]
    entry_points: tuple[EntryValue, ...]
    target: dict[str, Any]
    files: dict[str, FileValue]
    parameters: dict[str, Any]
    runtime: dict[str, Any]
    compiler: dict[str, Any]
    pooling: Pooling | None = field(metadata={"doc": "of an encoder"})
    sampling: SamplingDefaults | None = field(metadata={"doc": "of a decoder"})
    weights: str = field(
        default="",
        metadata={"doc": "their origin: 'synthetic weights, ...' if they are random"},
    )
    redistribution: str = field(
        default="",
        metadata={
            "doc": "'no' if the licence is not known to let you give the weights to"
            " others"
        },
    )
    generation: GenerationValue | None = field(
        default=None, metadata={"doc": "of a decoder"}
    )
    text: TextValue | None = field(
        default=None, metadata={"doc": "of a model with a tokenizer"}
    )
    hyperparameters: dict[str, float] = field(default_factory=dict)
    module: ModuleValue | None = None


def schema_text() -> str:
    """Return the JSON Schema of bundle.json as text."""
    head = {"$schema": DIALECT, "title": "bundle.json of a bundle of ingot"}
    content = head | schema_of(BundleContent)
    content["properties"]["target"] = schema_of(TargetValue)
    content["properties"]["parameters"] = schema_of(ParametersValue)
    return json.dumps(content, indent=1) + "\n"


if __name__ == "__main__":
    sys.stdout.write(schema_text())
