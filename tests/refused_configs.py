"""List configurations that `doit import` rejects, with the error of each.

By what is wrong: the architecture, what of its small config is changed, the message.
"""

from __future__ import annotations

from typing import Any

from tests.import_cases import LOCAL

ROPES = "expected 'default', 'linear', 'dynamic', 'llama3', 'yarn' or 'longrope'"
CLASSES = (
    "BertModel CwmForCausalLM DbrxForCausalLM Gemma2ForCausalLM Gemma3ForCausalLM"
    " GemmaForCausalLM GraniteForCausalLM Grok1ModelForCausalLM LlamaForCausalLM"
    " MinistralForCausalLM MistralForCausalLM MixtralForCausalLM Olmo2ForCausalLM"
    " Olmo3ForCausalLM Phi3ForCausalLM Qwen2ForCausalLM Qwen2MoeForCausalLM"
    " Qwen3ForCausalLM Qwen3MoeForCausalLM SeedOssForCausalLM SmolLM3ForCausalLM"
)
KNOWN = ", ".join(CLASSES.split())
TYPES = (
    "bert, cwm, dbrx, gemma, gemma2, gemma3_text, granite, grok-1, llama, ministral,"
    " mistral, mixtral, olmo2, olmo3, phi3, qwen2, qwen2_moe, qwen3, qwen3_moe,"
    " seed_oss, smollm3"
)
NO_BIASES = "expected null or false, found true\n  the architecture has no such biases"


def unknown(key: str, found: str, architecture: str = "llama") -> str:
    """The first line about a key that no rule knows."""
    return (
        f"{key}: unknown to architecture '{architecture}'; expected no such key,"
        f" found {found}"
    )


REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "unknown class": (
        "llama",
        {"architectures": ["LlamaForCasualLM"]},
        "architectures: not a known architecture; found 'LlamaForCasualLM'\n"
        f"  known: {KNOWN}",
    ),
    # The third Ministral scales its queries by their positions.
    "similar class": (
        "llama",
        {"architectures": ["Ministral3ForCausalLM"], "model_type": "ministral3"},
        "architectures: not a known architecture; found 'Ministral3ForCausalLM'\n"
        f"  known: {KNOWN}",
    ),
    "SmolLM3 as Llama": (
        "llama",
        {"no_rope_layers": [1, 1]},
        unknown("no_rope_layers", "[1, 1]")
        + "\n  some layers have no rotary embedding, as in SmolLM3"
        "\n  if it changes nothing that the model computes: ignore=no_rope_layers",
    ),
    "Granite as Llama": (
        "llama",
        {"residual_multiplier": 0.22},
        unknown("residual_multiplier", "0.22")
        + "\n  it scales each block's output, as in Granite"
        "\n  if it changes nothing that the model computes: ignore=residual_multiplier",
    ),
    "Mistral as Llama": (
        "llama",
        {"sliding_window": 4096},
        unknown("sliding_window", "4096")
        + "\n  each token sees only a window of positions, as in Mistral; it changes"
        " nothing if n_ctx is not larger"
        "\n  if it changes nothing that the model computes: ignore=sliding_window",
    ),
    "code of its own": (
        "qwen3",
        {"auto_map": {"AutoModel": "modeling.Model"}},
        unknown("auto_map", "{'AutoModel': 'modeling.Model'}", "qwen3")
        + "\n  the checkpoint brings its own code, which may compute something else"
        "\n  if it changes nothing that the model computes: ignore=auto_map",
    ),
    "unknown key": (
        "gemma3",
        {"qk_clip": 0.0},
        unknown("qk_clip", "0.0", "gemma3")
        + "\n  if it changes nothing that the model computes: ignore=qk_clip",
    ),
    "unknown key of rope": (
        "llama",
        {"rope_scaling": {"rope_type": "default", "mscale": 2.0}},
        unknown("rope_scaling.mscale", "2.0")
        + "\n  if it changes nothing that the model computes:"
        " ignore=rope_scaling.mscale",
    ),
    "vision": (
        "gemma3",
        {"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3"},
        "architectures: not a known architecture; found"
        " 'Gemma3ForConditionalGeneration'\n  it also reads images: use a checkpoint of"
        " Gemma3ForCausalLM, the text model",
    ),
    "model type": (
        "llama",
        {"architectures": None, "model_type": "mamba"},
        f"model_type: not a known architecture; found 'mamba'\n  known: {TYPES}",
    ),
    "two names": (
        "llama",
        {"model_type": "mistral"},
        "model_type: expected 'llama', as architectures has 'LlamaForCausalLM', found"
        " 'mistral'",
    ),
    "older rope type": (
        "llama",
        {"rope_scaling": {"type": "ntk", "factor": 2.0}},
        f"rope_scaling.type: not supported; {ROPES}, found 'ntk'",
    ),
    "untyped rope": (
        "llama",
        {"rope_scaling": {"factor": 2.0}},
        f"rope_scaling: not supported; {ROPES}, found {{'factor': 2.0}}",
    ),
    "rope of one kind of layer": (
        "gemma3",
        {"rope_parameters": {"full_attention": {"rope_type": "yarn"}}},
        "rope_parameters.full_attention.factor: missing; rope of type 'yarn' needs it",
    ),
    "two rope bases": (
        "llama",
        {"rope_parameters": {"rope_type": "default", "rope_theta": 7.0}},
        "rope_parameters.rope_theta: expected 100000, as config.json: rope_theta has,"
        " found 7.0",
    ),
    "rope of another kind": (
        "llama",
        {"rope_scaling": "linear"},
        "rope_scaling: expected an object or null, found 'linear'",
    ),
    "partial rope": (
        "llama",
        {"partial_rotary_factor": 0.5},
        "partial_rotary_factor: not supported; expected null or 1, found 0.5\n"
        "  the architecture rotates all dims of a head",
    ),
    "bias": ("llama", {"mlp_bias": True}, f"mlp_bias: not supported; {NO_BIASES}"),
    "activation": (
        "gemma3",
        {"hidden_activation": "gelu"},
        "hidden_activation: not supported; expected 'gelu_pytorch_tanh', found 'gelu'\n"
        "  its MLP is GeGLU, by tanh",
    ),
    "sliding window": (
        "qwen2",
        {"use_sliding_window": True},
        "use_sliding_window: not supported; expected null or false, found true\n"
        "  every layer sees all positions",
    ),
    "layer types": (
        "gemma3",
        {"layer_types": [*LOCAL * 3, "chunked_attention", *LOCAL * 3]},
        "layer_types[3]: not supported; expected 'sliding_attention' or"
        " 'full_attention', found 'chunked_attention'\n"
        "  the architecture has no such layers",
    ),
    "count of layer types": (
        "gemma3",
        {"layer_types": LOCAL * 3},
        "layer_types: expected a type for each of 7 layers (config.json:"
        " num_hidden_layers), found 3",
    ),
    "soft cap": (
        "gemma3",
        {"final_logit_softcapping": 30.0},
        "final_logit_softcapping: not supported; expected null, found 30.0\n"
        "  no component computes other values",
    ),
    "both ways": (
        "gemma3",
        {"use_bidirectional_attention": True},
        "use_bidirectional_attention: not supported; expected null or false, found"
        " true\n  it generates from left to right",
    ),
    "quantised": (
        "qwen3",
        {"quantization_config": {"bits": 4}},
        "quantization_config: not supported; expected null, found {'bits': 4}\n"
        "  use the checkpoint that it was quantised from, or a GGUF file",
    ),
    "missing number": (
        "qwen2",
        {"hidden_size": None},
        "hidden_size: missing; expected a number",
    ),
    "truth as a number": (
        "llama",
        {"vocab_size": True},
        "vocab_size: expected an integer, 1 or more, found true",
    ),
    "no number": (
        "llama",
        {"rms_norm_eps": -1},
        "rms_norm_eps: expected a number above 0, found -1",
    ),
    "heads of no whole dims": (
        "llama",
        {"num_attention_heads": 6},
        "head_dim: missing, and n_embd = 32 is not a multiple of n_head = 6",
    ),
    "odd heads": (
        "qwen3",
        {"head_dim": 15},
        "head_dim: expected an even head_dim, whose halves are rotated, found 15",
    ),
    "tied by no truth value": (
        "llama",
        {"tie_word_embeddings": 1},
        "tie_word_embeddings: expected true or false, found 1",
    ),
}

GGUF: dict[str, tuple[str, dict[str, Any], str]] = {
    "rope scaling": (
        "llama",
        {"rope__scaling__type": "yarn"},
        "llama.rope.scaling.type: not supported; expected 'none' or 'linear', found"
        " 'yarn'\n  import its safetensors",
    ),
    "experts": (
        "qwen3",
        {"expert_count": 8},
        "qwen3.expert_count: not supported; expected 0, found 8\n"
        "  each layer has one MLP",
    ),
    "window": (
        "qwen2",
        {"attention__sliding_window": 4096},
        "qwen2.attention.sliding_window: not supported; expected 0, found 4096\n"
        "  every layer sees all positions",
    ),
    "soft cap": (
        "gemma3",
        {"final_logit_softcapping": 30.0},
        "gemma3.final_logit_softcapping: not supported; expected 0, found 30.0\n"
        "  no component computes other values",
    ),
    "Granite as Llama": (
        "llama",
        {"residual_scale": 0.5},
        "llama.residual_scale: unknown to architecture 'llama'; expected no such key,"
        " found 0.5\n"
        "  if it changes nothing that the model computes: ignore=residual_scale",
    ),
    "partial rope": (
        "qwen3",
        {"rope__dimension_count": 8},
        "qwen3.rope.dimension_count: expected head_dim = 16 (m.gguf:"
        " qwen3.attention.key_length), found 8",
    ),
}
