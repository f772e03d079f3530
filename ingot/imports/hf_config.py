"""Read what the folder of a Hugging Face checkpoint states about itself.

It reads config.json and the headers of the safetensors files, but no weights.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ingot.errors import IngotError
from ingot.imports.checkpoint_facts import Stated, Survey
from ingot.imports.encoders import ENCODERS
from ingot.imports.families import OTHERS, Family
from ingot.imports.gguf_metadata import TOKENIZER
from ingot.imports.hyperparameters import spelled
from ingot.imports.mixtures import HF_FAMILIES
from ingot.imports.rope_settings import read_rope
from ingot.imports.text_facts import hf_text
from ingot.model.text_files import read_file
from ingot.weights.safetensors import StoredTensor, read_header
from ingot.weights.shards import INDEX, check_index, read_index
from ingot.weights.strict_json import parse_object

KNOWN = (*HF_FAMILIES, *ENCODERS)

CONFIG = "config.json"
GENERATION = "generation_config.json"
END = "eos_token_id"
SINGLE = "model.safetensors"
README = "README.md"

_LICENCE = re.compile(r"license:[ \t]*[\"']?([^\"'#\n]+?)[\"']?[ \t]*(#.*)?")

# Programs write a checkpoint's files: some model cards have 1 MB of results.
CHECKPOINT_BYTES = 1 << 24


def survey_directory(path: Path, errors: list[IngotError]) -> Survey:
    """Return what the folder's files state, and add their errors."""
    config = _config(path, errors)
    family = _family(config, errors) if config is not None else None
    tokenizer = path / TOKENIZER
    stated = _stated(config or {})
    for number in family.numbers if family else ():
        if number.hf_other in stated:
            stated.setdefault(number.hf, stated.pop(number.hf_other))
    rope = read_rope(config or {}, CONFIG, stated, errors)
    return Survey(
        path=path,
        kind="hf-directory",
        file=CONFIG,
        family=family,
        stated=stated,
        tensors=_tensors(path, errors),
        tokenizer=tokenizer if tokenizer.is_file() else None,
        ends=_ends(path / GENERATION, stated, errors),
        licence=_licence(path / README),
        text=hf_text(path, errors),
        rope=rope,
    )


def _config(path: Path, errors: list[IngotError]) -> dict[str, Any] | None:
    try:
        return parse_object(read_file(path / CONFIG, CHECKPOINT_BYTES), CONFIG)
    except FileNotFoundError:
        hint = f"a checkpoint's folder contains {CONFIG} and safetensors files"
        if found := sorted(item.name for item in path.glob("*.gguf")):
            hint = f"to import a GGUF file, name it: source={path.name}/{found[0]}"
        errors.append(IngotError(f"{CONFIG}: no such file in '{path.name}'", hint))
    except OSError as error:
        errors.append(IngotError(f"{CONFIG}: cannot be read; {error.strerror}"))
    except IngotError as error:
        errors.append(error)
    return None


def _ends(
    path: Path, stated: dict[str, Stated], errors: list[IngotError]
) -> tuple[Stated, ...]:
    """Return the tokens that end a text, from both configuration files.

    Chat models often name the end of a turn only in generation_config.json.
    """
    found = [stated[END]] if END in stated else []
    try:
        given = parse_object(read_file(path, CHECKPOINT_BYTES), GENERATION)
        found += [Stated(given[END], f"{GENERATION}: {END}")] if END in given else []
    except FileNotFoundError:
        pass
    except OSError as error:
        errors.append(IngotError(f"{GENERATION}: cannot be read; {error.strerror}"))
    except IngotError as error:
        errors.append(error)
    return tuple(found)


def _family(config: dict[str, Any], errors: list[IngotError]) -> Family | None:
    """Return the architecture of the checkpoint, by its class or its model type."""
    classes = {family.hf_class: family for family in KNOWN}
    types = {family.model_type: family for family in KNOWN}
    given = config.get("architectures")
    key, known, found = "model_type", types, config.get("model_type")
    if given:
        key, known = "architectures", classes
        found = given[0] if isinstance(given, list) and len(given) == 1 else given
    if not isinstance(found, str) or found not in known:
        _check_family(key, found, list(known), errors)
        return None
    family = known[found]
    other = config.get("model_type")
    if other is not None and other != family.model_type:
        errors.append(
            IngotError(
                f"{CONFIG}: model_type: expected {family.model_type!r}, as"
                f" architectures has {family.hf_class!r}, found {spelled(other)}"
            )
        )
    for name, instead in family.instead:
        if config.get(name) not in (None, False):
            return instead
    return family


def _check_family(
    key: str, found: Any, known: list[str], errors: list[IngotError]
) -> None:
    hint = OTHERS.get(found) if isinstance(found, str) else None
    if hint is None:
        # Programs write these names: a similar name is another architecture.
        hint = f"known: {', '.join(sorted(known))}"
    errors.append(
        IngotError(
            f"{CONFIG}: {key}: not a known architecture; found"
            f" {'none' if found is None else spelled(found)}",
            hint,
        )
    )


def _stated(config: dict[str, Any]) -> dict[str, Stated]:
    stated = {key: Stated(value, f"{CONFIG}: {key}") for key, value in config.items()}
    for group in ("attn_config", "ffn_config"):
        inner = config.get(group)
        for key, value in inner.items() if isinstance(inner, dict) else ():
            stated[f"{group}.{key}"] = Stated(value, f"{CONFIG}: {group}.{key}")
            if key == "rope_theta":  # newer files may state it elsewhere
                stated.setdefault(key, stated[f"{group}.{key}"])
    return stated


def _tensors(path: Path, errors: list[IngotError]) -> tuple[StoredTensor, ...]:
    """Return the tensors of the folder's safetensors files."""
    try:
        if not (path / INDEX).is_file():
            return _single(path)
        index = read_index(path / INDEX, INDEX)
        names = sorted(set(index.values()))
        missing = [name for name in names if not (path / name).is_file()]
        if missing:
            raise IngotError(
                f"{', '.join(missing)}: no such file in '{path.name}', though {INDEX}"
                " names it",
                "fetch all files of that revision of the model",
            )
        found = tuple(
            tensor for name in names for tensor in read_header(path / name, name)
        )
        check_index(index, found, INDEX)
        return found
    except IngotError as error:
        errors.append(error)
        return ()


def _single(path: Path) -> tuple[StoredTensor, ...]:
    if (path / SINGLE).is_file():
        return read_header(path / SINGLE, SINGLE)
    hint = f"expected {SINGLE}, or shards and {INDEX}"
    if any(path.glob("*.bin")) or any(path.glob("*.pth")):
        hint += "; PyTorch's own files contain programs: convert them to safetensors"
    raise IngotError(f"{SINGLE}: no such file in '{path.name}'", hint)


def _licence(path: Path) -> Stated | None:
    """Return the licence from the front matter of the model card."""
    try:
        lines = str(
            read_file(path, CHECKPOINT_BYTES), "utf-8", errors="replace"
        ).splitlines()
    except OSError:
        return None
    if not lines or lines[0].strip() != "---":
        return None
    for line in lines[1:]:
        if line.strip() == "---":
            break
        if match := _LICENCE.fullmatch(line):
            return Stated(match[1], f"{README}: license")
    return None
