"""Test that `model.h` compiles as C and as C++, and says what bundle.json says."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import clang.cindex
import pytest

from ingot.bundles.c_header import header
from tests import tiny_decoder
from tests.test_bundle_schema import declared
from tests.tiny_bundle import contract as encoder_contract

STRICT = ("-Wall", "-Wextra", "-Wpedantic", "-Wundef", "-Werror")
LANGUAGES = {"c": "c99", "c++": "c++11"}


def decoder_contract() -> dict[str, Any]:
    found = copy.deepcopy(tiny_decoder.contract())
    found |= {"model": "3b-tiny", "licence": 'Li"cence*/', "schema": "v"}
    found["generation"] |= {"bos": 256, "end_tokens": [257, 9], "unused": [[258, 299]]}
    tokens = found["entry_points"][0]["inputs"][0]
    tokens["range"] = {"min": 0, "max": [299, "ctx - 1"]}
    found["target"]["cpu_features"] = ["avx2", "fma"]
    return found


def compiled(folder: Path, language: str, text: str, use: str) -> list[str]:
    """What clang's front end finds wrong with the header and a use of it."""
    (folder / "model.h").write_text(text)
    # Twice: it must be guarded.
    code = f'#include "model.h"\n#include "model.h"\nint main(void) {{\n{use}\n}}\n'
    source = folder / f"use.{language.replace('+', 'x')}"
    source.write_text(code)
    words = ("-x", language, f"-std={LANGUAGES[language]}", *STRICT)
    unit = clang.cindex.Index.create().parse(str(source), [*words, f"-I{folder}"])
    return [item.format() for item in unit.diagnostics]


def asserted(claims: dict[str, str]) -> str:
    """C that compiles if the claims hold: an array has no negative size."""
    lines = [
        f"  {{ char held[({name}) == ({value}) ? 1 : -1]; (void)held; }}"
        for name, value in claims.items()
    ]
    return "\n".join([*lines, "  return 0;"])


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_header_of_a_decoder_compiles_and_is_right(
    tmp_path: Path, language: str
) -> None:
    claims = {
        "M3B_TINY_N_VOCAB": "300",
        "M3B_TINY_SEQ_MAX": "16",
        "M3B_TINY_PREFILL_N_INPUTS": "4",
        "M3B_TINY_PREFILL_IN_CACHE": "3",
        "M3B_TINY_PREFILL_IN_CACHE_RANK": "4",
        "M3B_TINY_PREFILL_OUT_LOGITS": "0",
        "M3B_TINY_PREFILL_IN_TOKENS_LEAST": "0",
        "M3B_TINY_PREFILL_IN_TOKENS_MOST": "299",
        "M3B_TINY_BOS": "256",
        "M3B_TINY_N_END_TOKENS": "2",
        "sizeof(M3B_TINY_DECODE)": "7",
        "sizeof(M3B_TINY_CPU_FEATURES)": 'sizeof("avx2 fma")',
    }
    shapes = (
        "  const long shape[M3B_TINY_PREFILL_IN_CACHE_RANK] ="
        " M3B_TINY_PREFILL_IN_CACHE_SHAPE;\n"
        "  const int ends[M3B_TINY_N_END_TOKENS] = M3B_TINY_END_TOKENS;\n"
        "  (void)shape; (void)ends;\n"
    )
    text = header(decoder_contract())
    assert compiled(tmp_path, language, text, shapes + asserted(claims)) == []
    wrong = asserted({"M3B_TINY_N_VOCAB": "301"})
    assert "negative size" in compiled(tmp_path, language, text, wrong)[0]


@pytest.mark.parametrize("model", ["all-minilm-l6-v2", "smollm2-135m", "mixtral-tiny"])
def test_the_headers_of_models_compile(tmp_path: Path, model: str) -> None:
    written = {key: tiny_decoder.contract()[key] for key in ("parameters", "runtime")}
    text = header(declared(model, "x86_64-v4") | written)
    for language in LANGUAGES:
        assert compiled(tmp_path, language, text, "  return 0;") == []


def test_two_headers_serve_one_program(tmp_path: Path) -> None:
    contract = encoder_contract() | {
        key: tiny_decoder.contract()[key] for key in ("parameters", "runtime")
    }
    text = header(contract) + header(decoder_contract())
    claims = asserted({"TINY_N_VOCAB": "30522", "M3B_TINY_N_VOCAB": "300"})
    assert compiled(tmp_path, "c", text, claims) == []


def test_comments_state_roles_dims_and_preconditions() -> None:
    text = header(decoder_contract())
    assert (
        "/* tokens: i32 [batch, seq], tokens; each number from 0 to 299 and ctx - 1 */"
    ) in text
    assert "in the memory of the input cache */" in text
    assert "#define M3B_TINY_PREFILL_IN_CACHE_SHAPE {1, -1, -1, 2}" in text
