"""Decide how an imported model's texts begin, end and are drawn, and check it.

The tokenizer is compared with its source by a process of its own, within limits of time
and memory: a checkpoint may come from anybody.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ingot.checks.tokenizer_comparison import vocabulary_problems
from ingot.codec import to_json
from ingot.engine import process
from ingot.errors import IngotError
from ingot.imports.checkpoint_facts import Stated, Survey
from ingot.imports.hyperparameters import spelled
from ingot.imports.text_facts import TOKENIZER_CONFIG, hf_tokens
from ingot.model.weight_sources import TOKENIZER_FILE as TOKENIZER
from ingot.runtime.tokenizer import Tokenizer, load_tokenizer
from ingot.weights.gguf_vocabulary import read_vocabulary, tokenizer_json

CPU_S = 300
MEMORY_BYTES = 4 << 30


def read_generation(
    survey: Survey, n_vocab: int, ends: Mapping[int, str], errors: list[IngotError]
) -> dict[str, Stated]:
    """Return the values of the manifest's `generation`, and add what is wrong.

    `ends` are the ids that end a text, each with its origin.
    """
    known = {token: origin for token, origin in ends.items() if 0 <= token < n_vocab}
    found: dict[str, Stated] = {}
    if known:
        places = ", ".join(dict.fromkeys(known.values()))
        found["end_tokens"] = Stated(list(known), places)
    found |= _plain(survey.text, errors)
    if survey.tokenizer is None and not survey.vocabulary:
        return found
    try:
        with tempfile.TemporaryDirectory(prefix="ingot-import-") as name:
            path = _tokenizer_file(survey, Path(name))
            tokenizer = load_tokenizer(path, n_vocab)
            found |= _beginning(survey, tokenizer, errors)
            tokens = hf_tokens(survey.path) if survey.kind == "hf-directory" else {}
            errors += [
                IngotError(f"{TOKENIZER}: {problem}")
                for problem in vocabulary_problems(tokenizer, tokens, TOKENIZER_CONFIG)
            ]
            _compare(survey, path, n_vocab, found, errors)
    except IngotError as error:
        errors.append(error)
    order = ("bos", "add_bos", "end_tokens", "stop", "temperature", "top_k", "top_p")
    return {x: found[x] for x in (*order, "chat_template") if x in found}


def _tokenizer_file(survey: Survey, folder: Path) -> Path:
    """Return the tokenizer.json, or that of the GGUF's vocabulary."""
    if survey.tokenizer is not None:
        return survey.tokenizer
    path = folder / TOKENIZER
    vocabulary = read_vocabulary(survey.path, survey.file)
    text = json.dumps(tokenizer_json(vocabulary), ensure_ascii=False)
    path.write_text(text, encoding="utf-8")
    return path


def _plain(text: Mapping[str, Stated], errors: list[IngotError]) -> dict[str, Stated]:
    """Return the values that need no tokenizer."""
    found: dict[str, Stated] = {}
    rules: dict[str, tuple[str, Any]] = {
        "stop": ("a list of texts", _texts),
        "temperature": ("a number, 0 or more", lambda x: x if _is(x, 0) else None),
        "top_k": ("an integer, 0 or more", lambda x: x if type(x) is int else None),
        "top_p": (
            "a number above 0 and at most 1",
            lambda x: x if _is(x, 0) and 0 < x <= 1 else None,
        ),
        "chat_template": ("a text", lambda x: x if isinstance(x, str) else None),
    }
    for name, (expected, read) in rules.items():
        if name not in text:
            continue
        stated = text[name]
        value = read(stated.value)
        if value is None:
            shown = spelled(stated.value)
            errors.append(
                IngotError(f"{stated.origin}: expected {expected}, found {shown}")
            )
        elif value not in ("", [], 0) or name == "temperature":  # top_k: 0 means all
            found[name] = Stated(value, stated.origin)
    return found


def _is(value: Any, least: float) -> bool:
    return type(value) in (int, float) and value >= least


def _texts(value: Any) -> list[str] | None:
    items = [value] if isinstance(value, str) else value
    if isinstance(items, list) and all(isinstance(item, str) for item in items):
        return [item for item in items if item]
    return None


def _beginning(
    survey: Survey, tokenizer: Tokenizer, errors: list[IngotError]
) -> dict[str, Stated]:
    """Return the token that begins a text, and whether the tokenizer lacks it."""
    if "bos" not in survey.text:
        return {}
    stated = survey.text["bos"]
    value = stated.value
    number = tokenizer.number(value) if isinstance(value, str) else value
    if type(number) is not int or tokenizer.token(number) is None:
        shown = spelled(value)
        errors.append(
            IngotError(f"{stated.origin}: {shown} is no token of {TOKENIZER}")
        )
        return {}
    found = {"bos": Stated(number, stated.origin)}
    adds = survey.text.get("add_bos")
    is_there = tokenizer.encode("")[:1] == (number,)
    if adds is not None and adds.value is True and not is_there:
        found["add_bos"] = Stated(True, adds.origin)
    return found


def _compare(
    survey: Survey,
    path: Path,
    n_vocab: int,
    found: Mapping[str, Stated],
    errors: list[IngotError],
) -> None:
    """Run the check of the tokenizer as the build will; add its errors."""
    ends = found["end_tokens"].value if "end_tokens" in found else []
    special = {f"end_tokens[{i}]": x for i, x in enumerate(ends)}
    bos = found["bos"].value if "bos" in found else None
    template = found["chat_template"].value if "chat_template" in found else ""
    specification = {
        "task": "tokenizer",
        "tokenizer": str(path),
        "gguf": str(survey.path) if survey.vocabulary else None,
        "gguf_label": survey.file,
        "n_vocab": n_vocab,
        "writes_text": not (survey.family and survey.family.is_encoder),
        "special": special,
        "bos": bos,
        "chat_template": template,
        "cpu_s": CPU_S,
        "memory_bytes": MEMORY_BYTES,
    }
    with tempfile.TemporaryDirectory(prefix="ingot-tokenizer-") as name:
        folder = Path(name)
        (folder / "spec.json").write_text(to_json(specification), encoding="utf-8")
        ended = process.run(
            (sys.executable, "-m", "ingot.programs.check_tokenizer.main", "spec.json"),
            folder,
            {
                "PYTHONPATH": str(Path(__file__).parents[2]),
                "PYTHONDONTWRITEBYTECODE": "1",
            },
        )
    if ended.exit_code == 0:
        return
    limits, _, text = ended.output.decode(errors="replace").strip().partition("\n")
    if ended.exit_code < 0:
        text = f"{TOKENIZER}: the comparison with its source was ended; {limits}"
    errors.append(IngotError(text.removeprefix("tokenizer: ")))
