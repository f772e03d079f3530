"""Write the text of a manifest from the decisions about a checkpoint."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ingot.imports.checkpoint_facts import Fact, Stated, Survey
from ingot.imports.hub import Repository
from ingot.imports.stored_types import StoredTypes
from ingot.model.yaml_scalars import scalar

COMPUTE = "f32"

_BATCH_MAX = 64
# Sequence and context of the timed cases: a short prompt and a long one.
_PREFILL = ((128, 256), (512, 640))
_DECODE = (128, 640)
# Batch and sequence of an encoder's.
_ENCODE = ((1, 16), (1, 128), (8, 128))

# Characters that never need quotes in YAML; a colon, a hash or a brace might.
_PLAIN = re.compile(r"[A-Za-z0-9_./-]*[A-Za-z0-9_/-]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Everything that the manifest states."""

    model: str
    survey: Survey
    licence: Stated
    dims: dict[str, Fact]
    hyperparameters: dict[str, Fact]
    tied: tuple[str, ...]
    ignored: tuple[str, ...]
    generation: dict[str, Stated]  # by the manifest's keys
    source: str | None  # element type of all tensors; None if they differ
    types: StoredTypes
    unknown: tuple[str, ...] = ()  # keys that change nothing, as the user says
    n_seq: int | None = None  # how many tokens of a sentence an encoder takes
    layers: tuple[str, ...] = ()  # their blocks in turn; none: the architecture's
    scaling: Mapping[str, Stated] = field(default_factory=dict)  # by table
    repository: Repository | None = None  # of the hub, that the checkpoint is in

    @property
    def architecture(self) -> str:
        """Return the architecture's name."""
        assert self.survey.family
        return self.survey.family.architecture


def manifest(decision: Decision, folder: Path) -> str:
    """Return the manifest's text; its paths are relative to the folder."""
    assert decision.survey.family
    is_encoder = decision.survey.family.is_encoder
    ranges = (_Sentences if is_encoder else _Caches)(decision)
    dims = ", ".join(f"{name}: {fact.value}" for name, fact in decision.dims.items())
    keys = f", without {', '.join(decision.unknown)}" if decision.unknown else ""
    lines = [
        f"# Imported by `doit import` of {quoted(decision.survey.path.name)}{keys}.",
        f"model: {quoted(decision.model)}",
        f"architecture: {decision.architecture}",
        f"licence: {quoted(str(decision.licence.value))}",
        f"dims: {{{dims}}}",
        "hyperparameters:",
        *(
            f"  {name}: {number(fact.value)}"
            for name, fact in decision.hyperparameters.items()
        ),
        *_layers(decision),
        "dynamic:",
        *ranges.dynamic(),
        "",
        *_weights(decision, folder),
        *_tokenizer(decision, folder),
        *_generation(decision),
        "",
        *ranges.bench(),
    ]
    return "\n".join(lines) + "\n"


def _layers(decision: Decision) -> list[str]:
    lines = [f"layers: [{', '.join(decision.layers)}]"] if decision.layers else []
    if decision.scaling:
        lines.append("rope_scaling:")
    for table, stated in decision.scaling.items():
        values = (f"{key}: {_setting(value)}" for key, value in stated.value.items())
        lines.append(f"  {table}: {{{', '.join(values)}}}")
    return lines


def _setting(value: str | bool | float | list[float]) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(number, value))}]"
    return value if isinstance(value, str) else _item(value)


class _Sentences:
    """How long the sentences of an encoder may be."""

    def __init__(self, decision: Decision) -> None:
        self.n_seq = int(decision.dims["n_ctx"].value)
        if decision.n_seq is not None:
            self.n_seq = min(self.n_seq, decision.n_seq)

    def dynamic(self) -> list[str]:
        """Return the ranges of the dynamic dims."""
        ends = {"batch": _BATCH_MAX, "seq": self.n_seq}
        return [f"  {name}: {{min: 1, max: {end}}}" for name, end in ends.items()]

    def bench(self) -> list[str]:
        """Return the timed cases, without duplicates."""
        cases = dict.fromkeys((n, min(seq, self.n_seq)) for n, seq in _ENCODE)
        rows = (f"    - {{batch: {n}, seq: {seq}}}" for n, seq in cases)
        return ["bench:", "  encode:", *rows]


class _Caches:
    """How long the caches of a model may be, whether per sequence or in a pool."""

    def __init__(self, decision: Decision) -> None:
        n_ctx = int(decision.dims["n_ctx"].value)
        block = decision.dims.get("block_size")
        self.block_size = int(block.value) if block else None
        # In whole blocks.
        self.n_ctx = n_ctx - n_ctx % self.block_size if self.block_size else n_ctx

    def dynamic(self) -> list[str]:
        """Return the ranges of the dynamic dims."""
        ends = {"batch": _BATCH_MAX, "seq": self.n_ctx}
        lines = [f"  {name}: {{min: 1, max: {end}}}" for name, end in ends.items()]
        if self.block_size is None:
            return [*lines, f"  ctx: {{min: 1, max: {self.n_ctx}}}"]
        blocks = self.n_ctx // self.block_size
        return [
            *lines,
            # Block 0 belongs to no sequence.
            f"  n_block: {{min: 2, max: {_BATCH_MAX * blocks + 1}}}",
            f"  n_block_seq: {{min: 1, max: {blocks}}}",
        ]

    def sizes(self, ctx: int) -> str:
        """Return the sizes of a cache with so many positions, for one sequence."""
        if self.block_size is None:
            return f"ctx: {ctx}"
        blocks = -(-ctx // self.block_size)
        return f"n_block: {blocks + 1}, n_block_seq: {blocks}"

    def bench(self) -> list[str]:
        """Return the timed cases, all within the context and without duplicates."""
        n_ctx = self.n_ctx
        prefill = dict.fromkeys((min(s, n_ctx), min(c, n_ctx)) for s, c in _PREFILL)
        decode = dict.fromkeys(min(c, n_ctx) for c in _DECODE)
        return [
            "bench:",
            "  prefill:",
            *(
                f"    - {{batch: 1, seq: {seq}, {self.sizes(ctx)}}}"
                for seq, ctx in prefill
            ),
            "  decode:",
            *(f"    - {{batch: 1, {self.sizes(ctx)}}}" for ctx in decode),
        ]


def number(value: int | float) -> str:
    """Return a number as every YAML parser reads it: 10000, 0.125, 1.0e-5."""
    if float(value).is_integer() and abs(value) < 2**53:
        return str(int(value))
    assert math.isfinite(value)
    mantissa, _, power = repr(float(value)).partition("e")
    if not power:
        return mantissa
    mantissa += "" if "." in mantissa else ".0"
    return f"{mantissa}e{int(power):+d}"


def quoted(text: str) -> str:
    """Return a text as YAML, with quotes where a parser might read something else."""
    if _PLAIN.fullmatch(text) and scalar(text) == text:
        return text
    return json.dumps(text)


def _weights(decision: Decision, folder: Path) -> list[str]:
    survey = decision.survey
    path = quoted(relative(survey.path, folder))
    source = f"source: {decision.source}, " if decision.source else ""
    lines = [
        "weights:",
        *_source(decision, path),
        f"  naming: {survey.naming}",
    ]
    if decision.ignored:
        lines.append(f"  ignore: [{', '.join(map(json.dumps, decision.ignored))}]")
    if decision.tied:
        lines.append(f"  tied: [{', '.join(decision.tied)}]")
    rules = (
        f'    - {{match: "{rule.match}", {source}stored: {rule.stored},'
        f" compute: {COMPUTE}}}"
        for rule in decision.types.rules
    )
    return [*lines, "  policy:", *rules]


def _source(decision: Decision, path: str) -> list[str]:
    """Return where the weights are: at a path, or in a repository of the hub."""
    hub = decision.repository
    if hub is None:
        return [f"  source: {{kind: {decision.survey.kind}, path: {path}}}"]
    return [
        "  source:",
        "    kind: huggingface",
        f"    repo: {quoted(hub.repo)}",
        f"    revision: {json.dumps(hub.commit)}",
        "    files:",
        *(f'      {name}: "{digest}"' for name, digest in hub.pinned.items()),
    ]


def _tokenizer(decision: Decision, folder: Path) -> list[str]:
    path = decision.survey.tokenizer
    if path is None:
        return ["", "tokenizer: {kind: gguf}"] if decision.survey.vocabulary else []
    if hub := decision.repository:
        return [
            "",
            "tokenizer:",
            "  kind: huggingface-file",
            f"  repo: {quoted(hub.repo)}",
            f"  revision: {json.dumps(hub.commit)}",
            f"  path: {path.name}",
            f'  sha256: "{hub.sha256[path.name]}"',
        ]
    place = quoted(relative(path, folder))
    return ["", f"tokenizer: {{kind: file, path: {place}}}"]


def _generation(decision: Decision) -> list[str]:
    if not decision.generation:
        return []
    lines = ["", "generation:"]
    for name, stated in decision.generation.items():
        value = stated.value
        if isinstance(value, list):
            shown = f"[{', '.join(_item(item) for item in value)}]"
        else:
            shown = _item(value)
        lines.append(f"  {name}: {shown}")
    return lines


def _item(value: str | int | float | bool) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    # A text may contain what YAML would change, so it is quoted as in JSON.
    return json.dumps(value) if isinstance(value, str) else number(value)


def relative(path: Path, folder: Path) -> str:
    """Return the path relative to the folder, with slashes."""
    return Path(os.path.relpath(path, folder)).as_posix()
