"""Describe encoders of sentences, as sentence-transformers stores them.

The configuration of the network does not say how the vectors of tokens become one
embedding: `modules.json` and the folders that it names do. What they say is checked,
because another pooling would give other embeddings without any other difference.

Source: sentence-transformers, SentenceTransformer.py and models/Pooling.py, and
    transformers, models/bert/configuration_bert.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ingot.errors import IngotError
from ingot.imports.families import QUANTISED, Family, Number, Rule
from ingot.model.text_files import read_file
from ingot.weights.strict_json import parse_object, short

MODULES = "modules.json"
SENTENCES = "sentence_bert_config.json"

_MEAN = "pooling_mode_mean_tokens"
_WAYS = "the mean of the tokens' vectors, scaled to length 1"
_LARGEST_BYTES = 1 << 20


def _number(name: str, hf: str, default: float | None = None) -> Number:
    whole = default is None
    return Number(name=name, hf=hf, gguf="", whole=whole, hf_default=default)


BERT = Family(
    architecture="bert",
    hf_class="BertModel",
    model_type="bert",
    numbers=(
        _number("n_vocab", "vocab_size"),
        _number("n_ctx", "max_position_embeddings"),
        _number("n_type", "type_vocab_size"),
        _number("n_embd", "hidden_size"),
        _number("n_head", "num_attention_heads"),
        _number("n_ff", "intermediate_size"),
        _number("n_layer", "num_hidden_layers"),
        _number("layer_norm_eps", "layer_norm_eps", 1e-12),
        # What torch.nn.functional.normalize divides by at least.
        _number("l2_norm_eps", "", 1e-12),
    ),
    layer_types=("full_attention",),
    hf_rules=(
        QUANTISED,
        Rule("hidden_act", ("gelu",), "its MLP has the exact GELU"),
        Rule(
            "position_embedding_type",
            (None, "absolute"),
            "each position has a vector of its own",
        ),
        Rule("is_decoder", (None, False), "each token sees all others"),
    ),
    gguf_rules=(),
    harmless=("gradient_checkpointing",),
    is_encoder=True,
    unused=("pooler.dense.*", "embeddings.position_ids"),
)

ENCODERS = (BERT,)


def longest_sentence(path: Path, errors: list[IngotError]) -> int | None:
    """Return how many tokens sentence-transformers keeps; None: as the model can.

    It adds an error if sentences are changed before they become tokens.
    """
    try:
        given = parse_object(read_file(path / SENTENCES, _LARGEST_BYTES), SENTENCES)
    except FileNotFoundError:
        return None
    except OSError as error:
        errors.append(IngotError(f"{SENTENCES}: cannot be read; {error.strerror}"))
        return None
    except IngotError as error:
        errors.append(error)
        return None
    if given.get("do_lower_case"):
        errors.append(
            IngotError(
                f"{SENTENCES}: do_lower_case: expected false, found true",
                "only the tokenizer changes sentences",
            )
        )
    found = given.get("max_seq_length")
    if found is None or (type(found) is int and found > 0):
        return found
    errors.append(
        IngotError(
            f"{SENTENCES}: max_seq_length: expected an integer, 1 or more, found"
            f" {short(found)}"
        )
    )
    return None


def check_pooling(path: Path) -> Iterator[IngotError]:
    """Yield an error for everything that is not a mean, scaled to length 1."""
    try:
        modules = json.loads(read_file(path / MODULES, _LARGEST_BYTES))
        kinds = [_kind(module) for module in modules]
        if kinds != ["Transformer", "Pooling", "Normalize"]:
            yield IngotError(
                f"{MODULES}: not supported; expected Transformer, Pooling, Normalize,"
                f" found {', '.join(map(str, kinds)) or 'none'}",
                f"the architecture computes {_WAYS}",
            )
        for module, kind in zip(modules, kinds, strict=True):
            if kind == "Pooling":
                yield from _check_pooling(path, str(module["path"]))
    except FileNotFoundError as error:
        name = Path(str(error.filename)).relative_to(path)
        yield IngotError(
            f"{name}: no such file in '{path.name}'",
            "it says how the vectors of tokens become one embedding: fetch all files"
            " of the sentence-transformers checkpoint",
        )
    except OSError as error:
        yield IngotError(f"{MODULES}: cannot be read; {error.strerror}")
    except (TypeError, KeyError, ValueError):
        yield IngotError(
            f"{MODULES}: not a list of modules; expected type and path of each"
        )
    except IngotError as error:
        yield error


def _kind(module: Any) -> str:
    """Return the last word of a module's type; packages moved between versions."""
    return str(module["type"]).rpartition(".")[2]


def _check_pooling(path: Path, folder: str) -> Iterator[IngotError]:
    name = f"{folder}/config.json"
    if ".." in Path(folder).parts or Path(folder).is_absolute():
        raise ValueError(folder)
    given = parse_object(read_file(path / name, _LARGEST_BYTES), name)
    modes = [key for key, value in given.items() if "pooling_mode" in key and value]
    if given.get("pooling_mode") in ("mean", ["mean"]) and len(modes) == 1:
        return  # as versions from 5.2 on write it
    if modes != [_MEAN]:
        found = ", ".join(
            str(given[key]) if key == "pooling_mode" else key for key in modes
        )
        yield IngotError(
            f"{name}: not supported; expected {_MEAN} alone, found {found or 'none'}",
            f"the architecture computes {_WAYS}",
        )
