"""Read what a checkpoint states about its texts: how they begin, end and are drawn."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ingot.errors import IngotError
from ingot.imports.checkpoint_facts import Stated
from ingot.model.text_files import read_file
from ingot.weights.strict_json import parse_object

TOKENIZER_CONFIG = "tokenizer_config.json"
TEMPLATE = "chat_template.jinja"
GENERATION = "generation_config.json"
LARGEST_BYTES = 1 << 26

# In generation_config.json, which they are part of only if it samples.
_SAMPLING = ("temperature", "top_k", "top_p")


def gguf_text(metadata: Mapping[str, Any], label: str) -> dict[str, Stated]:
    """Return what a GGUF file states, by the manifest's keys."""
    keys = {
        "bos": "tokenizer.ggml.bos_token_id",
        "add_bos": "tokenizer.ggml.add_bos_token",
        "chat_template": "tokenizer.chat_template",
    }
    return {
        name: Stated(metadata[key], f"{label}: {key}")
        for name, key in keys.items()
        if key in metadata
    }


def hf_text(folder: Path, errors: list[IngotError]) -> dict[str, Stated]:
    """Return what the folder's files state, by the manifest's keys; add their errors.

    `bos` is an id, or the text of a token.
    """
    found: dict[str, Stated] = {}
    config = _object(folder / TOKENIZER_CONFIG, errors)
    for name, key in (("bos", "bos_token"), ("add_bos", "add_bos_token")):
        value = config.get(key)
        value = value.get("content") if isinstance(value, dict) else value
        if value is not None:
            found[name] = Stated(value, f"{TOKENIZER_CONFIG}: {key}")
    template = config.get("chat_template")
    if isinstance(template, list):  # several, by name
        named = {x.get("name"): x.get("template") for x in template}
        template = named.get("default")
    if isinstance(template, str):
        origin = f"{TOKENIZER_CONFIG}: chat_template"
        found["chat_template"] = Stated(template, origin)
    try:
        text = read_file(folder / TEMPLATE, LARGEST_BYTES)
        found["chat_template"] = Stated(text.decode(), TEMPLATE)
    except FileNotFoundError:
        pass
    except (OSError, UnicodeDecodeError) as error:
        errors.append(IngotError(f"{TEMPLATE}: cannot be read; {error}"))
    generation = _object(folder / GENERATION, [])  # its errors are reported elsewhere
    drawn = _SAMPLING if generation.get("do_sample") else ()
    for name, key in (("stop", "stop_strings"), *((x, x) for x in drawn)):
        if generation.get(key) is not None:
            found[name] = Stated(generation[key], f"{GENERATION}: {key}")
    return found


def hf_tokens(folder: Path) -> dict[int, str]:
    """Return the tokens that tokenizer_config.json names beside tokenizer.json."""
    added = _object(folder / TOKENIZER_CONFIG, []).get("added_tokens_decoder")
    if not isinstance(added, dict):
        return {}
    return {
        int(number): str(token["content"])
        for number, token in added.items()
        if number.isdigit() and isinstance(token, dict) and "content" in token
    }


def _object(path: Path, errors: list[IngotError]) -> dict[str, Any]:
    try:
        return parse_object(read_file(path, LARGEST_BYTES), path.name)
    except FileNotFoundError:
        pass
    except OSError as error:
        errors.append(IngotError(f"{path.name}: cannot be read; {error.strerror}"))
    except IngotError as error:
        errors.append(error)
    return {}
