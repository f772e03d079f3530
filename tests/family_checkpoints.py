"""Write small checkpoints of every family, whose golden outputs transformers computed.

transformers names the tensors and writes config.json, so that neither is taken from
this project; the numbers come from a seed. After a change, where the extra `golden` is
installed, write the files of tests/data/families again:

    python -m tests.family_checkpoints [CASE...]
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tests.import_cases import LOCAL, write_config
from tests.weights_cases import save

DATA = Path(__file__).parent / "data/families"
N_IDS = 48
FULL = ["full_attention"]
F32 = np.float32


@dataclass(frozen=True)
class Case:
    """A checkpoint of a family: what its config has beside the small sizes."""

    model_type: str
    architecture: str  # of this project
    config: dict[str, Any] = field(default_factory=dict)
    n_ctx: int = 64  # for the golden outputs, and for the import


SMALL: dict[str, Any] = {
    "vocab_size": 160,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5,
    "pad_token_id": None,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
WIDE = {"head_dim": 16}


def rope(kind: str, **settings: Any) -> dict[str, Any]:
    """The rope settings of a config, with the context before the scaling."""
    return {
        "rope_parameters": {
            "rope_type": kind,
            "rope_theta": 10000.0,
            "original_max_position_embeddings": 16,
            **settings,
        }
    }


_PAIRS = {"partial_rotary_factor": 0.75, "rope_theta": 10000.0, "rope_type": "longrope"}
_LONG: dict[str, Any] = {
    "max_position_embeddings": 96,
    "original_max_position_embeddings": 48,
    "tie_word_embeddings": True,
    "hidden_size": 64,  # heads of 16 dims, of which 12 turn
    "rope_parameters": {
        **_PAIRS,
        "short_factor": [1.0, 1.1, 1.2, 1.3, 1.4, 1.5],
        "long_factor": [1.0, 1.5, 2.5, 4.0, 8.0, 16.0],
    },
}
CASES: dict[str, Case] = {
    "llama-llama3": Case(
        "llama",
        "llama",
        WIDE
        | rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=2.0)
        | {"tie_word_embeddings": True},
    ),
    "llama-linear": Case(
        "llama",
        "llama",
        {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e4}},
    ),
    "llama-dynamic": Case(
        "llama",
        "llama",
        {"rope_parameters": {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 1e4}},
    ),
    "llama-yarn": Case("llama", "llama", WIDE | rope("yarn", factor=4.0)),
    "qwen3-yarn": Case(
        "qwen3",
        "qwen3",
        WIDE | rope("yarn", factor=4.0, beta_fast=4.0, truncate=False),
    ),
    "llama-biases": Case("llama", "llama-biased", {"attention_bias": True}),
    "mistral": Case("mistral", "llama", {"sliding_window": None}),
    "mistral-window": Case("mistral", "mistral", WIDE | {"sliding_window": 8}),
    "ministral": Case(
        "ministral",
        "mistral",
        WIDE
        | {"sliding_window": 8, "num_hidden_layers": 3}
        | {"layer_types": [*FULL, *LOCAL, *LOCAL]},
    ),
    "smollm3": Case("smollm3", "smollm3", {"num_hidden_layers": 5}),
    "smollm3-window": Case(
        "smollm3",
        "smollm3",
        {
            "num_hidden_layers": 3,
            "no_rope_layers": [0, 1, 0],
            "use_sliding_window": True,
            "sliding_window": 8,
            "layer_types": [*LOCAL, *LOCAL, *FULL],
        },
    ),
    "phi3": Case("phi3", "phi3", {"sliding_window": 8}),
    "phi3-short": Case("phi3", "phi3", _LONG, n_ctx=48),
    "phi3-long": Case("phi3", "phi3", _LONG, n_ctx=96),
    "granite": Case(
        "granite",
        "granite",
        {
            "embedding_multiplier": 12.0,
            "residual_multiplier": 0.22,
            "attention_multiplier": 0.1,
            "logits_scaling": 8.0,
        },
    ),
    "olmo2": Case("olmo2", "olmo2"),
    "olmo3": Case(
        "olmo3",
        "olmo3",
        {"num_hidden_layers": 3, "sliding_window": 8}
        | {"layer_types": [*LOCAL, *FULL, *LOCAL]}
        | {
            "rope_parameters": {
                "full_attention": {
                    "rope_type": "yarn",
                    "rope_theta": 5e5,
                    "factor": 4.0,
                    "original_max_position_embeddings": 16,
                },
                "sliding_attention": {"rope_type": "default", "rope_theta": 5e5},
            }
        },
    ),
    "cwm": Case(
        "cwm",
        "mistral",
        WIDE
        | {"num_hidden_layers": 3, "sliding_window": 8}
        | {"layer_types": [*FULL, *LOCAL, *LOCAL]}
        | rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=2.0),
    ),
    "seed-oss": Case("seed_oss", "qwen2", WIDE),
    "gemma": Case("gemma", "gemma", WIDE),
    "qwen3-moe": Case(
        "qwen3_moe",
        "qwen3moe",
        WIDE
        | {"moe_intermediate_size": 24, "num_experts": 6, "num_experts_per_tok": 2}
        | {"norm_topk_prob": True},
    ),
    "gemma2": Case(
        "gemma2",
        "gemma2",
        WIDE
        | {"num_hidden_layers": 3, "sliding_window": 8, "query_pre_attn_scalar": 24}
        # So small that most scores and logits come near them.
        | {"attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0},
    ),
    "gemma3-scaled": Case(
        "gemma3_text",
        "gemma3",
        WIDE
        | {"num_hidden_layers": 4, "sliding_window": 8, "query_pre_attn_scalar": 24}
        | {"layer_types": [*LOCAL, *FULL, *LOCAL, *LOCAL]}
        | {
            "rope_parameters": {
                "full_attention": {
                    "rope_type": "linear",
                    "rope_theta": 1e6,
                    "factor": 8.0,
                },
                "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
            }
        },
    ),
}
"""By name: the checkpoints, in the order of the page on families."""


def _true(
    model_type: str, embd: int, ff: int, heads: int, kv: int, dim: int, **more: Any
) -> Case:
    """A checkpoint of real widths, with few layers and a small vocabulary."""
    sizes = {
        **SMALL,
        "vocab_size": 1024,
        "hidden_size": embd,
        "intermediate_size": ff,
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
        "num_hidden_layers": 1,
        "max_position_embeddings": 1024,
        "head_dim": dim,
        "tie_word_embeddings": True,
    }
    return Case(model_type, "", sizes | more)


_TURNS = rope("llama3", factor=32.0, low_freq_factor=1.0, high_freq_factor=4.0)
_TURNS["rope_parameters"]["original_max_position_embeddings"] = 256
_BOTH = {"num_hidden_layers": 2, "sliding_window": 128}
_BOTH["layer_types"] = [*LOCAL, *FULL]  # type: ignore[assignment]
_PHI4 = {
    **_PAIRS,
    "short_factor": [1.0 + 0.01 * pair for pair in range(48)],
    "long_factor": [1.0 + 0.1 * pair for pair in range(48)],
}
TRUE_WIDTHS: dict[str, Case] = {
    "llama3.2-1b": _true("llama", 2048, 8192, 32, 8, 64, **_TURNS),
    "mistral-7b": _true("mistral", 4096, 14336, 32, 8, 128, sliding_window=None),
    "mistral-7b-window": _true("mistral", 4096, 14336, 32, 8, 128, sliding_window=128),
    "smollm3-3b": _true(
        *("smollm3", 2048, 11008, 16, 4, 128),
        num_hidden_layers=2,
        no_rope_layers=[1, 0],
    ),
    "phi4-mini": _true(
        *("phi3", 3072, 8192, 24, 8, 128),
        original_max_position_embeddings=256,
        rope_parameters=_PHI4,
    ),
    "granite3-2b": _true(
        *("granite", 2048, 8192, 32, 8, 64),
        embedding_multiplier=12.0,
        residual_multiplier=0.22,
        attention_multiplier=0.015625,
        logits_scaling=8.0,
    ),
    "olmo2-1b": _true("olmo2", 2048, 8192, 16, 16, 128),
    "olmo3-7b": _true("olmo3", 4096, 11008, 32, 32, 128, **_BOTH),
    "qwen3-30b-a3b": _true(
        *("qwen3_moe", 2048, 6144, 32, 4, 128),
        moe_intermediate_size=768,
        num_experts=8,
        num_experts_per_tok=4,
        norm_topk_prob=True,
    ),
    "gemma2b": _true("gemma", 2048, 16384, 8, 1, 256),
    "gemma2-2b": _true("gemma2", 2304, 9216, 8, 4, 256, **_BOTH),
    "gemma3-1b": _true("gemma3_text", 1152, 6912, 4, 1, 256, **_BOTH),
    "gemma3-4b": _true("gemma3_text", 2560, 10240, 8, 4, 256, **_BOTH),
}
"""By name of the checkpoint whose widths they have; windows are 128 positions."""


def write_true_widths(folder: Path, name: str) -> Path:
    """Write a checkpoint of real widths, with transformers and its own names."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    case = TRUE_WIDTHS[name]
    config = AutoConfig.for_model(case.model_type, **case.config)
    auto: Any = AutoModelForCausalLM
    torch.manual_seed(7)
    auto.from_config(config).save_pretrained(folder)
    return folder


def write_case(folder: Path, name: str) -> Path:
    """Write the checkpoint of a case: the same numbers every time."""
    stated = json.loads((DATA / f"{name}.json").read_text())
    rng = np.random.default_rng(7)
    arrays = {
        tensor: values(rng, tensor, shape, stated["config"]["model_type"])
        for tensor, shape in stated["tensors"].items()
    }
    write_config(folder, stated["config"])
    save(
        folder / "model.safetensors",
        {tensor: ("F32", array) for tensor, array in arrays.items()},
    )
    return folder


def values(
    rng: np.random.Generator, tensor: str, shape: list[int], model_type: str
) -> Any:
    """Numbers of a size that a trained tensor may have."""
    drawn = rng.standard_normal(shape)
    if "norm" in tensor and tensor.endswith("weight"):
        # Gemma adds 1 when it computes.
        return (0.2 * drawn + (not model_type.startswith("gemma"))).astype(F32)
    return (drawn * (0.05 if "embed" in tensor else 0.3)).astype(F32)


def main(names: list[str]) -> None:
    """Write the files of these cases again, of all if none is named."""
    import torch

    from ingot.programs.golden.judged_logits import logits_file
    from ingot.programs.golden.main import load

    torch.set_num_threads(1)
    DATA.mkdir(exist_ok=True)
    for name in names or CASES:
        case = CASES[name]
        write_names(name)
        with tempfile.TemporaryDirectory() as folder:
            model = load(write_case(Path(folder), name), None, case.n_ctx)
        content, _ = logits_file(model, name, case.n_ctx, N_IDS, {})
        (DATA / f"{name}.npz").write_bytes(content)
        print(name, len(content))


def write_names(name: str) -> None:
    """Write what transformers calls the tensors of a case, and its config."""
    from safetensors import safe_open
    from transformers import AutoConfig, AutoModelForCausalLM

    case = CASES[name]
    config = AutoConfig.for_model(case.model_type, **{**SMALL, **case.config})
    with tempfile.TemporaryDirectory() as folder:
        auto: Any = AutoModelForCausalLM
        auto.from_config(config).save_pretrained(folder)
        stated = json.loads((Path(folder) / "config.json").read_text())
        with safe_open(Path(folder) / "model.safetensors", "np") as file:
            names = list(file.keys())
            tensors = {key: file.get_slice(key).get_shape() for key in names}
    text = json.dumps({"config": stated, "tensors": tensors}, indent=1)
    (DATA / f"{name}.json").write_text(text + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
