"""Test the import of encoders as sentence-transformers stores them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingot.errors import IngotError
from ingot.imports.encoders import check_pooling, longest_sentence
from tests.import_cases import CARD, bring, checkout
from tests.weights_cases import save

CONFIG: dict[str, Any] = {
    "architectures": ["BertModel"],
    "model_type": "bert",
    "hidden_act": "gelu",
    "hidden_size": 32,
    "intermediate_size": 48,
    "layer_norm_eps": 1e-12,
    "max_position_embeddings": 64,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "position_embedding_type": "absolute",
    "type_vocab_size": 2,
    "use_cache": True,
    "vocab_size": 300,
}
POOLING = {
    "word_embedding_dimension": 32,
    "pooling_mode_cls_token": False,
    "pooling_mode_mean_tokens": True,
    "pooling_mode_max_tokens": False,
    "include_prompt": True,
}
KINDS = ("Transformer", "Pooling", "Normalize")


def shapes() -> dict[str, tuple[int, ...]]:
    """The tensors that transformers writes for a BertModel of this config."""
    n, ff = CONFIG["hidden_size"], CONFIG["intermediate_size"]
    found: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (300, n),
        "embeddings.position_embeddings.weight": (64, n),
        "embeddings.token_type_embeddings.weight": (2, n),
        "pooler.dense.weight": (n, n),
        "pooler.dense.bias": (n,),
    }
    pairs: dict[str, tuple[int, ...]] = {"embeddings.LayerNorm": (n,)}
    for layer in range(CONFIG["num_hidden_layers"]):
        at = f"encoder.layer.{layer}"
        for part in ("self.query", "self.key", "self.value", "output.dense"):
            pairs[f"{at}.attention.{part}"] = (n, n)
        pairs[f"{at}.attention.output.LayerNorm"] = (n,)
        pairs[f"{at}.intermediate.dense"] = (ff, n)
        pairs[f"{at}.output.dense"] = (n, ff)
        pairs[f"{at}.output.LayerNorm"] = (n,)
    for name, shape in pairs.items():
        found[f"{name}.weight"] = shape
        found[f"{name}.bias"] = shape[:1]
    return found


def checkpoint(folder: Path, **changed: Any) -> Path:
    """Write a small encoder; return its folder."""
    source = folder / "tiny-encoder"
    (source / "1_Pooling").mkdir(parents=True)
    modules = [
        {"idx": 0, "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
        {"idx": 2, "path": "2_Normalize", "type": "models.Normalize"},
    ]
    files = {
        "config.json": {**CONFIG, **changed},
        "modules.json": modules,
        "1_Pooling/config.json": POOLING,
        "sentence_bert_config.json": {"max_seq_length": 48, "do_lower_case": False},
    }
    for name, content in files.items():
        (source / name).write_text(json.dumps(content))
    (source / "README.md").write_text(CARD)
    rng = np.random.default_rng(0)
    tensors = {
        name: ("F32", rng.standard_normal(shape, np.float32))
        for name, shape in shapes().items()
    }
    save(source / "model.safetensors", tensors)
    return source


def test_an_encoder_is_imported_with_the_length_of_its_sentences(
    tmp_path: Path,
) -> None:
    imported, manifest = bring(checkout(tmp_path), checkpoint(tmp_path))
    assert manifest.architecture == "bert"
    ranges = {dim.name: (dim.min, dim.max) for dim in manifest.graph.dynamic}
    assert ranges == {"batch": (1, 64), "seq": (1, 48)}
    assert dict(manifest.dims)["n_type"] == 2
    (entry,) = manifest.graph.entry_points
    assert entry.outputs[0].role == "embedding"
    text = str(imported)
    assert "sentence_bert_config.json: max_seq_length" in text
    assert "end_tokens" not in text


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("hidden_act", "gelu_new", 'hidden_act: not supported; expected "gelu"'),
        ("position_embedding_type", "relative_key", "not supported; expected null or"),
        ("is_decoder", True, "is_decoder: not supported; expected null or false"),
        ("embedding_size", 16, "embedding_size: unknown to architecture 'bert'"),
        ("vocab_size", 299, "wrong shape; expected [299, 32]"),
    ],
)
def test_another_network_is_refused(
    tmp_path: Path, key: str, value: Any, words: str
) -> None:
    root, source = checkout(tmp_path), checkpoint(tmp_path, **{key: value})
    with pytest.raises(IngotError) as caught:
        bring(root, source)
    assert words.replace('"', "'") in str(caught.value).replace('"', "'")
    assert not list((root / "models").glob("*.yaml"))


def errors(source: Path) -> list[str]:
    return [error.message for error in check_pooling(source)]


def test_the_mean_scaled_to_length_1_is_supported(tmp_path: Path) -> None:
    source = checkpoint(tmp_path)
    assert errors(source) == []
    newer = {"embedding_dimension": 32, "pooling_mode": "mean", "include_prompt": True}
    (source / "1_Pooling/config.json").write_text(json.dumps(newer))
    assert errors(source) == []


@pytest.mark.parametrize(
    ("pooling", "found"),
    [
        ({**POOLING, "pooling_mode_max_tokens": True}, "pooling_mode_max_tokens"),
        (
            {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False},
            "pooling_mode_cls_token",
        ),
        ({"pooling_mode": "cls"}, "cls"),
        ({}, "none"),
    ],
)
def test_another_pooling_is_refused_by_name(
    tmp_path: Path, pooling: dict[str, Any], found: str
) -> None:
    source = checkpoint(tmp_path)
    (source / "1_Pooling/config.json").write_text(json.dumps(pooling))
    (message,) = errors(source)
    assert message.startswith(
        "1_Pooling/config.json: not supported; expected pooling_mode_mean_tokens alone,"
        " found "
    )
    assert message.endswith(found)


@pytest.mark.parametrize(
    ("kinds", "found"),
    [
        (("Transformer", "Pooling"), "Transformer, Pooling"),
        (("Transformer", "Pooling", "Dense"), "Transformer, Pooling, Dense"),
        ((), "none"),
    ],
)
def test_other_modules_are_refused_by_name(
    tmp_path: Path, kinds: tuple[str, ...], found: str
) -> None:
    source = checkpoint(tmp_path)
    modules = [
        {"path": "1_Pooling" if kind == "Pooling" else "", "type": f"st.{kind}"}
        for kind in kinds
    ]
    (source / "modules.json").write_text(json.dumps(modules))
    assert errors(source) == [
        "modules.json: not supported; expected Transformer, Pooling, Normalize, found "
        + found
    ]


@pytest.mark.parametrize("name", ["modules.json", "1_Pooling/config.json"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    source = checkpoint(tmp_path)
    (source / name).unlink()
    assert errors(source) == [f"{name}: no such file in 'tiny-encoder'"]


@pytest.mark.parametrize("text", ["{", "3", "[1]", "[{}]", '{"a": 1}'])
def test_modules_that_are_none_are_an_error(tmp_path: Path, text: str) -> None:
    source = checkpoint(tmp_path)
    (source / "modules.json").write_text(text)
    assert errors(source) == [
        "modules.json: not a list of modules; expected type and path of each"
    ]


def test_a_module_that_leads_out_of_the_checkpoint_is_an_error(tmp_path: Path) -> None:
    source = checkpoint(tmp_path)
    modules = [{"type": kind, "path": "../elsewhere"} for kind in KINDS]
    (source / "modules.json").write_text(json.dumps(modules))
    assert errors(source) == [
        "modules.json: not a list of modules; expected type and path of each"
    ]


@pytest.mark.parametrize(
    ("content", "expected", "words"),
    [
        (None, None, []),
        ({"max_seq_length": None}, None, []),
        ({"max_seq_length": 8}, 8, []),
        ({"max_seq_length": 0}, None, ["max_seq_length: expected an integer"]),
        ({"do_lower_case": True}, None, ["do_lower_case: expected false"]),
    ],
)
def test_the_longest_sentence_is_that_of_sentence_transformers(
    tmp_path: Path, content: Any, expected: int | None, words: list[str]
) -> None:
    if content is not None:
        (tmp_path / "sentence_bert_config.json").write_text(json.dumps(content))
    found: list[IngotError] = []
    assert longest_sentence(tmp_path, found) == expected
    assert len(found) == len(words)
    for error, word in zip(found, words, strict=True):
        assert word in error.message
