"""Describe mixtures of experts as Hugging Face checkpoints state them.

Source: transformers, models/{mixtral,qwen2_moe,dbrx}/configuration_*.py, and
    modeling_dbrx.py for DBRX's norms, which use PyTorch's default epsilon. transformers
    has no class for Grok-1; its source is HPC-AI Tech, grok-1, configuration_grok1.py
    and modeling_grok1.py. That code uses the exact GELU for the experts, while this
    project uses tanh, as xAI's own code does.
"""

from __future__ import annotations

from ingot.imports.families import (
    ATTENTION_DIM,
    BIAS,
    BLOCK_SIZE,
    FAMILIES,
    HF_ONLY,
    NO_WINDOW,
    POSITIONS,
    QUANTISED,
    QUOTIENT,
    SILU,
    UNUSED_WINDOW,
    Family,
    Number,
    Rule,
    plain,
)


def _number(name: str, hf: str, default: int | float | str | None = None) -> Number:
    whole = not isinstance(default, float)
    return Number(name=name, hf=hf, gguf="", whole=whole, hf_default=default)


def _changed(*numbers: Number) -> tuple[Number, ...]:
    """Return the numbers of Llama and similar models, with these added or replaced."""
    found = (*plain(QUOTIENT), *numbers, BLOCK_SIZE)
    return tuple({item.name: item for item in found}.values())


# Numbers of Llama that differ here.
_GROKS_OWN = ("rms_norm_eps", "rope_freq_base", ATTENTION_DIM)

_DENSE_LAYERS = (
    Rule("decoder_sparse_step", (1,), "every layer has its experts"),
    Rule("mlp_only_layers", ([], None), "every layer has its experts"),
)

MIXTRAL = Family(
    architecture="mixtral",
    hf_class="MixtralForCausalLM",
    model_type="mixtral",
    numbers=_changed(
        _number("rope_freq_base", "rope_theta", 1e6),
        _number("rms_norm_eps", "rms_norm_eps", 1e-5),
        _number("n_expert", "num_local_experts"),
        _number("n_expert_used", "num_experts_per_tok"),
    ),
    layer_types=("full_attention",),
    hf_rules=(
        *SILU,
        BIAS,
        Rule("sliding_window", (None,), "every layer sees all positions"),
    ),
    gguf_rules=(),
)
QWEN2_MOE = Family(
    architecture="qwen2moe",
    hf_class="Qwen2MoeForCausalLM",
    model_type="qwen2_moe",
    numbers=_changed(
        # Its intermediate_size applies to layers without experts.
        _number("n_ff", "moe_intermediate_size"),
        _number("n_ff_shexp", "shared_expert_intermediate_size"),
        _number("n_expert", "num_experts"),
        _number("n_expert_used", "num_experts_per_tok"),
    ),
    layer_types=("full_attention",),
    hf_rules=(
        *SILU,
        NO_WINDOW,
        *_DENSE_LAYERS,
        Rule(
            "norm_topk_prob",
            (False,),
            "the weights of experts are those of the softmax",
        ),
        Rule("qkv_bias", (True,), "queries, keys and values have biases"),
    ),
    gguf_rules=(),
    # The size belongs to layers without experts, of which there are none.
    harmless=(*UNUSED_WINDOW, "intermediate_size"),
)
QWEN3_MOE = Family(
    architecture="qwen3moe",
    hf_class="Qwen3MoeForCausalLM",
    model_type="qwen3_moe",
    numbers=_changed(
        # Its intermediate_size applies to layers without experts.
        _number("n_ff", "moe_intermediate_size"),
        Number(
            name="n_expert", hf="num_experts", gguf="", hf_other="num_local_experts"
        ),
        _number("n_expert_used", "num_experts_per_tok"),
    ),
    layer_types=("full_attention",),
    hf_rules=(
        *SILU,
        BIAS,
        NO_WINDOW,
        *_DENSE_LAYERS,
        Rule("norm_topk_prob", (True,), "the weights of experts add up to 1"),
    ),
    gguf_rules=(),
    harmless=(*UNUSED_WINDOW, "intermediate_size"),
)
DBRX = Family(
    architecture="dbrx",
    hf_class="DbrxForCausalLM",
    model_type="dbrx",
    numbers=(
        _number("n_vocab", "vocab_size"),
        _number("n_embd", "d_model"),
        _number("n_head", "n_heads"),
        _number("n_head_kv", "attn_config.kv_n_heads"),
        _number("head_dim", "", QUOTIENT),
        _number("n_ff", "ffn_config.ffn_hidden_size"),
        _number("n_layer", "n_layers"),
        _number("n_expert", "ffn_config.moe_num_experts"),
        _number("n_expert_used", "ffn_config.moe_top_k"),
        _number(POSITIONS, "max_seq_len"),
        _number("layer_norm_eps", "", 1e-5),
        _number("rope_freq_base", "rope_theta", 10000.0),
        Number(name="attn_clamp_high", hf="attn_config.clip_qkv", gguf="", whole=False),
        _number(ATTENTION_DIM, "", "head_dim"),
        BLOCK_SIZE,
    ),
    layer_types=("full_attention",),
    hf_rules=(
        QUANTISED,
        Rule(
            "ffn_config.moe_normalize_expert_weights",
            (1,),
            "the weights of the chosen experts add up to 1",
        ),
        Rule("ffn_config.ffn_act_fn", ({"name": "silu"},), "its MLP is SwiGLU"),
        Rule("tie_word_embeddings", (False,), "it has a separate head"),
    ),
    gguf_rules=(),
    # The base is compared with that of rope_parameters; the others repeat sizes, and
    # the first checkpoints brought the code that is now part of transformers.
    harmless=(
        "attn_config.rope_theta",
        "ffn_config.hidden_size",
        "num_key_value_heads",
        "auto_map",
    ),
)
GROK = Family(
    architecture="grok",
    hf_class="Grok1ModelForCausalLM",
    model_type="grok-1",
    numbers=(
        *(n for n in plain(QUOTIENT, "n_head") if n.name not in _GROKS_OWN),
        _number("rms_norm_eps", "rms_norm_eps", 1e-5),
        _number("rope_freq_base", "", 10000.0),
        _number("n_expert", "num_experts"),
        _number("n_expert_used", "num_experts_per_tok"),
        *(
            Number(name=name, hf=hf, gguf="", whole=False)
            for name, hf in (
                ("attention_scale", "attn_output_multiplier"),
                ("attention_cap", "max_attn_value"),
                ("embedding_scale", "embedding_multiplier_scale"),
                ("output_scale", "output_multiplier_scale"),
            )
        ),
        BLOCK_SIZE,
    ),
    layer_types=("full_attention",),
    hf_rules=(
        QUANTISED,
        Rule("rope_theta", (None, 10000), "its class always uses this base"),
    ),
    gguf_rules=(),
    tables=(),  # its class knows no scaling
    # The code that this family describes, which always uses GELU.
    harmless=("auto_map", "hidden_act"),
)

HF_FAMILIES = (*FAMILIES, *HF_ONLY, MIXTRAL, QWEN2_MOE, QWEN3_MOE, DBRX, GROK)
"""The architectures in config.json; GGUF files use FAMILIES only."""
