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

# By kind of layer: the key of its rope base in older configs.
_ROPE_BASES = {
    "full_attention": "rope_theta",
    "sliding_attention": "rope_local_base_freq",
}
_ROPE_KEYS = {"rope_type", "type", "rope_theta", "partial_rotary_factor"}
_ATTENTION_BASE = "attn_config.rope_theta"
_DBRX_BASES = (
    "transformers 5 reads only rope_parameters, and writes 10000 there even for weights"
    " that were trained with the base of attn_config: write the right one to both"
)
_LICENCE = re.compile(r"license:[ \t]*[\"']?([^\"'#\n]+?)[\"']?[ \t]*(#.*)?")

# Programs write a checkpoint's files: some model cards have 1 MB of results.
CHECKPOINT_BYTES = 1 << 24


def survey_directory(path: Path, errors: list[IngotError]) -> Survey:
    """Return what the folder's files state, and add their errors."""
    config = _config(path, errors)
    family = _family(config, errors) if config is not None else None
    tokenizer = path / TOKENIZER
    stated = _stated(config or {}, errors)
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


def _stated(config: dict[str, Any], errors: list[IngotError]) -> dict[str, Stated]:
    stated = {key: Stated(value, f"{CONFIG}: {key}") for key, value in config.items()}
    for group in ("attn_config", "ffn_config"):
        inner = config.get(group)
        for key, value in inner.items() if isinstance(inner, dict) else ():
            stated[f"{group}.{key}"] = Stated(value, f"{CONFIG}: {group}.{key}")
            if key == "rope_theta":  # newer files may state it elsewhere
                stated.setdefault(key, stated[f"{group}.{key}"])
    for key in ("rope_scaling", "rope_parameters"):
        _read_rope(key, config.get(key), stated, errors)
    return stated


def _read_rope(
    key: str, value: Any, stated: dict[str, Stated], errors: list[IngotError]
) -> None:
    """Add the rope bases from an object of rope settings; reject scaling.

    Where layers differ, the object contains one object per kind of layer.
    """
    if value is None:
        return
    if not isinstance(value, dict):
        place = f"{CONFIG}: {key}"
        errors.append(
            IngotError(f"{place}: expected an object or null, found {spelled(value)}")
        )
        return
    nested = any(kind in value for kind in _ROPE_BASES)
    for kind, base in _ROPE_BASES.items():
        if nested:
            settings, place = value.get(kind), f"{CONFIG}: {key}.{kind}"
        else:
            settings, place = value, f"{CONFIG}: {key}"
            if kind != "full_attention":
                continue
        if isinstance(settings, dict):
            _read_settings(settings, place, base, stated, errors)


def _read_settings(
    settings: dict[str, Any],
    place: str,
    base: str,
    stated: dict[str, Stated],
    errors: list[IngotError],
) -> None:
    # Older configs call it `type`.
    named = next((key for key in ("rope_type", "type") if key in settings), None)
    if named is None or settings[named] != "default":
        where = f"{place}.{named}" if named else place
        found = settings[named] if named else settings
        if named or settings.keys() - {"rope_theta"}:
            errors.append(
                IngotError(
                    f"{where}: not supported; expected 'default', found"
                    f" {spelled(found)}",
                    "the architecture does not scale positions",
                )
            )
    if named is not None and settings[named] == "default":
        group = place.removeprefix(f"{CONFIG}: ")
        for key in sorted(settings.keys() - _ROPE_KEYS):
            stated[f"{group}.{key}"] = Stated(settings[key], f"{place}.{key}")
    if "partial_rotary_factor" in settings:
        value = settings["partial_rotary_factor"]
        stated.setdefault(
            "partial_rotary_factor", Stated(value, f"{place}.partial_rotary_factor")
        )
    if "rope_theta" not in settings:
        return
    found, older = settings["rope_theta"], stated.get(base)
    if older is not None and older.value != found:
        errors.append(
            IngotError(
                f"{place}.rope_theta: expected {spelled(older.value)}, as"
                f" {older.origin} has, found {spelled(found)}",
                _DBRX_BASES if _ATTENTION_BASE in older.origin else "",
            )
        )
    stated[base] = Stated(found, f"{place}.rope_theta")


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
