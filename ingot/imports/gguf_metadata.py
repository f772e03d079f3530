"""Read what a GGUF file states about itself.

It reads the metadata and the shapes of the tensors, but no weights.
"""

from __future__ import annotations

from pathlib import Path

from ingot.errors import IngotError
from ingot.imports.checkpoint_facts import Stated, Survey
from ingot.imports.families import FAMILIES, N_VOCAB, Family
from ingot.imports.text_facts import gguf_text
from ingot.weights.gguf import GgufHeader, read_gguf

TOKENIZER = "tokenizer.json"
VOCABULARY = "tokenizer.ggml.model"
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
    return Survey(
        path=path,
        kind="gguf",
        file=path.name,
        family=family,
        stated=_stated(header, path.name, family) if family else {},
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
    )


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
