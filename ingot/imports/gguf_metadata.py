"""Read what a GGUF file states about itself.

It reads the metadata and the shapes of the tensors, but no weights: only the divisors
of rope angles, of which llama.cpp makes a tensor for Llama 3.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from pathlib import Path

from ingot.errors import IngotError
from ingot.imports.checkpoint_facts import RopeSettings, Stated, Survey
from ingot.imports.families import FAMILIES, N_VOCAB, Family
from ingot.imports.text_facts import gguf_text
from ingot.weights.gguf import GgufHeader, read_gguf

TOKENIZER = "tokenizer.json"
VOCABULARY = "tokenizer.ggml.model"
DIVISORS = "rope_freqs.weight"
FULL = "full_attention"
_MOST_DIVISORS = 4096  # pairs of a head, more than any has
# The ends of a text, of a turn, and of a message to a tool.
ENDS = tuple(f"tokenizer.ggml.{end}_token_id" for end in ("eos", "eot", "eom"))


def survey_gguf(path: Path, errors: list[IngotError]) -> Survey:
    """Return what the file states, and add its errors to the list.

    Raises: IngotError if it is not a GGUF file, or a corrupt one.
    """
    header = read_gguf(path, path.name)
    family = _family(header, path.name, errors)
    tokenizer = path.parent / TOKENIZER
    licence = header.metadata.get("general.license")
    stated = _stated(header, path.name, family) if family else {}
    return Survey(
        path=path,
        kind="gguf",
        file=path.name,
        family=family,
        stated=stated,
        tensors=header.tensors,
        tokenizer=tokenizer if tokenizer.is_file() else None,
        ends=tuple(
            Stated(header.metadata[key], f"{path.name}: {key}")
            for key in ENDS
            if key in header.metadata
        ),
        licence=Stated(licence, f"{path.name}: general.license") if licence else None,
        vocabulary=VOCABULARY in header.metadata,
        text=gguf_text(header.metadata, path.name),
        rope=RopeSettings(dict(_scaling(path, header, stated, errors)), ()),
    )


def _scaling(
    path: Path,
    header: GgufHeader,
    stated: dict[str, Stated],
    errors: list[IngotError],
) -> Iterator[tuple[str, Stated]]:
    """Yield how the angles of layers without a window are scaled, if they are."""
    kind, factor = stated.get("rope.scaling.type"), stated.get("rope.scaling.factor")
    tensor = next((t for t in header.tensors if t.name == DIVISORS), None)
    if kind and kind.value == "linear":
        value = factor.value if factor else None
        if type(value) not in (int, float) or not 0 < float(value or 0) < math.inf:
            place = factor.origin if factor else kind.origin
            message = f"{place}: expected a factor above 0, found {value}"
            errors.append(IngotError(message))
            return
        yield FULL, Stated({"kind": "linear", "factor": float(value or 1)}, kind.origin)
    elif tensor:
        place = f"{path.name}: tensor '{DIVISORS}'"
        with path.open("rb") as file:
            file.seek(tensor.offset)
            content = file.read(min(tensor.size_bytes, _MOST_DIVISORS * 4))
        divisors = [value for (value,) in struct.iter_unpack("<f", content)]
        if tensor.element != "F32" or not all(0 < x < math.inf for x in divisors):
            errors.append(IngotError(f"{place}: expected F32 numbers above 0"))
            return
        yield FULL, Stated({"kind": "divisors", "divisors": divisors}, place)


def _family(header: GgufHeader, label: str, errors: list[IngotError]) -> Family | None:
    name = header.metadata.get("general.architecture")
    families = {family.architecture: family for family in FAMILIES}
    if isinstance(name, str) and name in families:
        return families[name]
    message = f"{label}: general.architecture: expected a known architecture, found"
    errors.append(
        IngotError(
            f"{message} {name!r}" if name is not None else f"{message} none",
            f"known architectures: {', '.join(sorted(families))}",
        )
    )
    return None


def _stated(header: GgufHeader, label: str, family: Family) -> dict[str, Stated]:
    prefix = f"{family.architecture}."
    stated = {
        key.removeprefix(prefix): Stated(value, f"{label}: {key}")
        for key, value in header.metadata.items()
        if key.startswith(prefix)
    }
    for tensor in header.tensors:
        if tensor.name == N_VOCAB and tensor.shape:
            stated[N_VOCAB] = Stated(tensor.shape[0], f"{label}: rows of {N_VOCAB}")
    return stated
