"""Describe how checkpoints name each known architecture, and which numbers it needs.

A key of a checkpoint that would change what a model computes is either a Number, which
is read, or has a Rule, which rejects every value that no component computes. The module
`known_keys` lists the keys that change nothing; `doit import` rejects all others.

Source: transformers, models/*/configuration_*.py; ggml-org/ggml, docs/gguf.md, and
    ggml-org/llama.cpp, src/llama-model.cpp (load_hparams) for default values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

ANY = "no component computes other values"


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A number of a manifest, under its keys in config.json and in GGUF metadata.

    The default is used where the key is missing. None makes a missing key an error; a
    text is another number, or a quotient of two, such as `n_embd/n_head`.
    """

    name: str  # in the manifest: "n_embd"
    hf: str
    gguf: str  # without the architecture's name in front
    whole: bool = True
    hf_default: int | float | str | None = None
    gguf_default: int | float | str | None = None
    hf_other: str = ""  # what other versions of transformers call it

    def key(self, naming: str) -> str:
        """Return the number's key in a checkpoint of this naming."""
        return self.gguf if naming == "gguf" else self.hf

    def default(self, naming: str) -> int | float | str | None:
        """Return the number's default in a checkpoint of this naming."""
        return self.gguf_default if naming == "gguf" else self.hf_default


@dataclass(frozen=True, slots=True)
class Rule:
    """The values of a key that the architecture computes; a missing key is valid."""

    key: str
    allowed: tuple[Any, ...]  # empty: all except the rejected ones
    hint: str = ""
    rejected: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """An architecture, and the checkpoints that use it."""

    architecture: str  # models/architectures/<name>.yaml, and its name in GGUF
    hf_class: str  # in config.json: architectures
    model_type: str
    numbers: tuple[Number, ...]
    # Kinds of attention where the config lists none; the sequence repeats.
    layer_types: tuple[str, ...]
    hf_rules: tuple[Rule, ...]
    gguf_rules: tuple[Rule, ...]
    harmless: tuple[str, ...] = ()  # keys of config.json without effect in this family
    is_encoder: bool = False  # of sentences, without a cache
    unused: tuple[str, ...] = ()  # patterns of tensors that it does not compute with
    # By kind of attention, the block of such a layer.
    layers: tuple[tuple[str, str], ...] = (("full_attention", "layer"),)
    # Before the name of a block: the one without rotary embeddings; "" if all have one.
    nope: str = ""
    # By kind of attention, its table of rope angles; empty if it cannot be scaled.
    tables: tuple[tuple[str, str], ...] = (("full_attention", "rope.table"),)
    # By key: the family of checkpoints that state it, with a value that is not false.
    instead: tuple[tuple[str, Family], ...] = ()

    def rules(self, naming: str) -> tuple[Rule, ...]:
        """Return the rules for a checkpoint of this naming."""
        return self.gguf_rules if naming == "gguf" else self.hf_rules


# Numbers that are not in the manifest, but from which some of its numbers derive.
POSITIONS = "n_positions"  # the number that the model was trained for
ATTENTION_DIM = "attention_dim"  # attention_scale is 1 / sqrt(this)
ROTATED_SHARE = "rotated_share"  # of the dims of a head: n_rot
OUTPUT_DIVISOR = "output_divisor"  # of logits

EQUAL_IN_GGUF = (
    ("rope.dimension_count", "head_dim"),
    ("attention.value_length", "head_dim"),
    ("vocab_size", "n_vocab"),
)
"""Keys of GGUF metadata that must agree with a number."""

QUOTIENT = "n_embd/n_head"
N_VOCAB = "token_embd.weight"
"""The key for the rows of that tensor, which GGUF metadata may omit."""

_SIZES = (
    Number(name="n_vocab", hf="vocab_size", gguf=N_VOCAB),
    Number(name="n_embd", hf="hidden_size", gguf="embedding_length"),
    Number(name="n_head", hf="num_attention_heads", gguf="attention.head_count"),
    Number(name="n_ff", hf="intermediate_size", gguf="feed_forward_length"),
    Number(name="n_layer", hf="num_hidden_layers", gguf="block_count"),
    Number(name=POSITIONS, hf="max_position_embeddings", gguf="context_length"),
    Number(
        name="rms_norm_eps",
        hf="rms_norm_eps",
        gguf="attention.layer_norm_rms_epsilon",
        whole=False,
        hf_default=1e-6,
    ),
)


def _heads_kv(hf_default: str | None = None) -> Number:
    return Number(
        name="n_head_kv",
        hf="num_key_value_heads",
        gguf="attention.head_count_kv",
        hf_default=hf_default,
        gguf_default="n_head",
    )


def _head_dim(hf_default: int | str) -> Number:
    return Number(
        name="head_dim",
        hf="head_dim",
        gguf="attention.key_length",
        hf_default=hf_default,
        gguf_default=QUOTIENT,
    )


def _rope_base(hf_default: float) -> Number:
    return Number(
        name="rope_freq_base",
        hf="rope_theta",
        gguf="rope.freq_base",
        whole=False,
        hf_default=hf_default,
        gguf_default=10000.0,
    )


_PLAIN_SCALE = Number(
    name=ATTENTION_DIM,
    hf="",
    gguf="",
    hf_default="head_dim",
    gguf_default="head_dim",
)


def plain(head_dim: int | str, heads_kv: str | None = None) -> tuple[Number, ...]:
    """Return the numbers of Llama and similar models; the arguments are defaults."""
    heads = (_heads_kv(heads_kv), _head_dim(head_dim))
    return (*_SIZES, *heads, _rope_base(10000.0), _PLAIN_SCALE)


BLOCK_SIZE = Number(name="block_size", hf="", gguf="", hf_default=16, gguf_default=16)
"""Positions per block of the caches; no checkpoint states it."""

QUANTISED = Rule(
    "quantization_config",
    (None,),
    "use the checkpoint that it was quantised from, or a GGUF file",
)
_ROTATED = Rule(
    "partial_rotary_factor", (None, 1), "the architecture rotates all dims of a head"
)
BIAS = Rule("attention_bias", (None, False), "the architecture has no such biases")
SILU = (QUANTISED, _ROTATED, Rule("hidden_act", ("silu",), "its MLP is SwiGLU"))
NO_WINDOW = Rule("use_sliding_window", (None, False), "every layer sees all positions")
UNUSED_WINDOW = ("sliding_window", "max_window_layers")  # without use_sliding_window
_GGUF = (
    Rule("rope.scaling.type", ("none", "linear"), "import its safetensors"),
    Rule("rope.scaling.factor", ()),  # read with the type
    Rule("rope.scale_linear", (0, 1), "the architecture does not scale positions"),
    Rule("expert_count", (0,), "each layer has one MLP"),
    Rule("expert_used_count", (0,), "each layer has one MLP"),
    Rule("attention.causal", (True,), "attention is causal"),
    Rule("attention.scale", (0,), "the scale follows from head_dim"),
    Rule("attn_logit_softcapping", (0,), ANY),
    Rule("final_logit_softcapping", (0,), ANY),
)
_GGUF_NO_WINDOW = (
    *_GGUF,
    Rule("attention.sliding_window", (0,), "every layer sees all positions"),
)

_NO_BIAS = "the architecture has no such biases"
_WITH_BIASES = "every matrix of its attention has a bias"
_MLP_BIAS = Rule("mlp_bias", (None, False), _NO_BIAS)

_LLAMA_RULES = (
    *SILU,
    _MLP_BIAS,
    Rule("rope_interleaved", (None, False), "heads are rotated by halves"),
)
LLAMA_BIASED = Family(
    architecture="llama-biased",
    hf_class="LlamaForCausalLM",
    model_type="llama",
    numbers=plain(QUOTIENT, heads_kv="n_head"),
    layer_types=("full_attention",),
    hf_rules=(*_LLAMA_RULES, Rule("attention_bias", (True,), _WITH_BIASES)),
    gguf_rules=(),
)
LLAMA = Family(
    architecture="llama",
    hf_class="LlamaForCausalLM",
    model_type="llama",
    numbers=plain(QUOTIENT, heads_kv="n_head"),
    layer_types=("full_attention",),
    hf_rules=(*_LLAMA_RULES, BIAS),
    gguf_rules=_GGUF_NO_WINDOW,
    instead=(("attention_bias", LLAMA_BIASED),),
)
QWEN2 = Family(
    architecture="qwen2",
    hf_class="Qwen2ForCausalLM",
    model_type="qwen2",
    numbers=plain(QUOTIENT),
    layer_types=("full_attention",),
    hf_rules=(*SILU, NO_WINDOW),
    gguf_rules=_GGUF_NO_WINDOW,
    harmless=UNUSED_WINDOW,
)
QWEN3 = Family(
    architecture="qwen3",
    hf_class="Qwen3ForCausalLM",
    model_type="qwen3",
    numbers=plain(128),
    layer_types=("full_attention",),
    hf_rules=(*SILU, BIAS, NO_WINDOW),
    gguf_rules=_GGUF_NO_WINDOW,
    harmless=UNUSED_WINDOW,
)

# A window as large as all positions is none.
_WINDOW = Number(
    name="n_swa",
    hf="sliding_window",
    gguf="attention.sliding_window",
    hf_default=POSITIONS,
    gguf_default=POSITIONS,
)
_BY_WINDOW = (
    ("sliding_attention", "layer.local"),
    ("full_attention", "layer.global"),
)
_BY_TABLE = (
    ("full_attention", "rope_global.table"),
    ("sliding_attention", "rope_local.table"),
)
_MISTRAL_WINDOWED = Family(
    architecture="mistral",
    hf_class="MistralForCausalLM",
    model_type="mistral",
    numbers=(*plain(QUOTIENT), _WINDOW),
    layer_types=("sliding_attention",),
    layers=_BY_WINDOW[:1],
    hf_rules=(*SILU, BIAS),
    gguf_rules=(),
)
MISTRAL = Family(
    architecture="llama",
    hf_class="MistralForCausalLM",
    model_type="mistral",
    numbers=plain(QUOTIENT),
    layer_types=("full_attention",),
    hf_rules=(*SILU, BIAS, Rule("sliding_window", (None, False))),
    gguf_rules=(),
    instead=(("sliding_window", _MISTRAL_WINDOWED),),
)
MINISTRAL = Family(
    architecture="mistral",
    hf_class="MinistralForCausalLM",
    model_type="ministral",
    numbers=(*plain(QUOTIENT), _WINDOW),
    layer_types=("sliding_attention",),
    layers=_BY_WINDOW,
    hf_rules=(*SILU, BIAS),
    gguf_rules=(),
)
SMOLLM3 = Family(
    architecture="smollm3",
    hf_class="SmolLM3ForCausalLM",
    model_type="smollm3",
    numbers=(
        *(item for item in plain(QUOTIENT) if item.name != "rope_freq_base"),
        _rope_base(2000000.0),
        _WINDOW,
    ),
    layer_types=("full_attention",),
    layers=_BY_WINDOW,
    nope="nope_",
    hf_rules=(*SILU, BIAS, _MLP_BIAS),
    gguf_rules=(),
    harmless=(
        "use_sliding_window",
        "max_window_layers",
        "no_rope_layers",
        "no_rope_layer_interval",
    ),
)
PHI3 = Family(
    architecture="phi3",
    hf_class="Phi3ForCausalLM",
    model_type="phi3",
    numbers=(
        *plain(QUOTIENT, heads_kv="n_head"),
        _WINDOW,
        Number(
            name=ROTATED_SHARE,
            hf="partial_rotary_factor",
            gguf="",
            whole=False,
            hf_default=1.0,
        ),
    ),
    layer_types=("sliding_attention",),
    layers=_BY_WINDOW[:1],
    hf_rules=(
        QUANTISED,
        Rule("hidden_act", ("silu",), "its MLP is SwiGLU"),
        BIAS,
    ),
    gguf_rules=(),
    # Phi-4-mini states which of transformers' parts it needs.
    harmless=("auto_map", "full_attn_mod", "interpolate_factor", "lm_head_bias"),
)
GRANITE = Family(
    architecture="granite",
    hf_class="GraniteForCausalLM",
    model_type="granite",
    numbers=(
        *(item for item in plain(QUOTIENT, "n_head") if item.name != ATTENTION_DIM),
        *(
            Number(name=name, hf=hf, gguf=gguf, whole=False, hf_default=1.0)
            for name, hf, gguf in (
                ("attention_scale", "attention_multiplier", "attention.scale"),
                ("embedding_scale", "embedding_multiplier", "embedding_scale"),
                ("residual_scale", "residual_multiplier", "residual_scale"),
                (OUTPUT_DIVISOR, "logits_scaling", "logit_scale"),
            )
        ),
    ),
    layer_types=("full_attention",),
    hf_rules=(*SILU, BIAS, _MLP_BIAS),
    gguf_rules=tuple(rule for rule in _GGUF_NO_WINDOW if rule.key != "attention.scale"),
)
_OLMO_SIZES = (
    *(n for n in plain(QUOTIENT, "n_head") if n.name != "rms_norm_eps"),
    Number(
        name="rms_norm_eps",
        hf="rms_norm_eps",
        gguf="attention.layer_norm_rms_epsilon",
        whole=False,
        hf_default=1e-5,
    ),
)
OLMO2 = Family(
    architecture="olmo2",
    hf_class="Olmo2ForCausalLM",
    model_type="olmo2",
    numbers=_OLMO_SIZES,
    layer_types=("full_attention",),
    hf_rules=(*SILU, BIAS),
    gguf_rules=_GGUF_NO_WINDOW,
)
OLMO3 = Family(
    architecture="olmo3",
    hf_class="Olmo3ForCausalLM",
    model_type="olmo3",
    numbers=(
        *(n for n in _OLMO_SIZES if n.name != "rope_freq_base"),
        _rope_base(500000.0),
        Number(
            name="rope_freq_base_swa",
            hf="rope_local_base_freq",
            gguf="",
            whole=False,
            hf_default="rope_freq_base",
        ),
        _WINDOW,
    ),
    layer_types=(*("sliding_attention",) * 3, "full_attention"),
    layers=_BY_WINDOW,
    tables=_BY_TABLE,
    hf_rules=(*SILU, BIAS),
    gguf_rules=(),
)
CWM = Family(
    architecture="mistral",
    hf_class="CwmForCausalLM",
    model_type="cwm",
    numbers=(
        *(n for n in plain(128) if n.name != "rope_freq_base"),
        _rope_base(1000000.0),
        _WINDOW,
    ),
    layer_types=("full_attention", *("sliding_attention",) * 3),
    layers=_BY_WINDOW,
    hf_rules=(*SILU, BIAS, _MLP_BIAS),
    gguf_rules=(),
)
SEED_OSS = Family(
    architecture="qwen2",
    hf_class="SeedOssForCausalLM",
    model_type="seed_oss",
    numbers=plain(128),
    layer_types=("full_attention",),
    hf_rules=(
        *SILU,
        _MLP_BIAS,
        Rule("attention_bias", (None, True), "queries, keys and values have biases"),
        Rule("attention_out_bias", (None, False), _NO_BIAS),
    ),
    gguf_rules=(),
    harmless=("residual_dropout",),
)
_GEMMA = (
    *_SIZES,
    _heads_kv(),
    _head_dim(256),
    Number(name="n_swa", hf="sliding_window", gguf="attention.sliding_window"),
    Number(
        name=ATTENTION_DIM,
        hf="query_pre_attn_scalar",
        gguf="",
        whole=False,
        hf_default=256,
        gguf_default="head_dim",
    ),
)
_GEGLU = "its MLP is GeGLU, by tanh"
_TANH = ("gelu_pytorch_tanh",)
_GEMMA_RULES = (
    QUANTISED,
    _ROTATED,
    # For these models transformers takes gelu for its approximation by tanh.
    Rule("hidden_act", (*_TANH, "gelu"), _GEGLU),
    BIAS,
    Rule(
        "use_bidirectional_attention", (None, False), "it generates from left to right"
    ),
)
GEMMA = Family(
    architecture="gemma",
    hf_class="GemmaForCausalLM",
    model_type="gemma",
    numbers=(*_SIZES, _heads_kv(), _head_dim(256), _rope_base(10000.0), _PLAIN_SCALE),
    layer_types=("full_attention",),
    hf_rules=(*_GEMMA_RULES, Rule("hidden_activation", (None, *_TANH), _GEGLU)),
    gguf_rules=_GGUF_NO_WINDOW,
)
_CAPPED = "without bounds it is another architecture"
GEMMA2 = Family(
    architecture="gemma2",
    hf_class="Gemma2ForCausalLM",
    model_type="gemma2",
    numbers=(
        *_GEMMA,
        _rope_base(10000.0),
        Number(
            name="attention_cap",
            hf="attn_logit_softcapping",
            gguf="attn_logit_softcapping",
            whole=False,
            hf_default=50.0,
            gguf_default=50.0,
        ),
        Number(
            name="output_cap",
            hf="final_logit_softcapping",
            gguf="final_logit_softcapping",
            whole=False,
            hf_default=30.0,
            gguf_default=30.0,
        ),
        BLOCK_SIZE,
    ),
    layer_types=("sliding_attention", "full_attention"),
    layers=_BY_WINDOW,
    hf_rules=(
        *_GEMMA_RULES,
        Rule("hidden_activation", _TANH, _GEGLU),
        Rule("attn_logit_softcapping", (), _CAPPED, rejected=(None,)),
        Rule("final_logit_softcapping", (), _CAPPED, rejected=(None,)),
    ),
    gguf_rules=(
        *(rule for rule in _GGUF if "softcapping" not in rule.key),
        # llama.cpp recognises the largest model by its layers, and scales it by n_embd.
        Rule(
            "block_count",
            (),
            "the 27B model has another scale: import its safetensors",
            rejected=(46,),
        ),
    ),
    harmless=("cache_implementation",),
)
GEMMA3 = Family(
    architecture="gemma3",
    hf_class="Gemma3ForCausalLM",
    model_type="gemma3_text",
    numbers=(
        *_GEMMA,
        _rope_base(1000000.0),
        Number(
            name="rope_freq_base_swa",
            hf="rope_local_base_freq",
            gguf="rope.freq_base_swa",
            whole=False,
            hf_default=10000.0,
            gguf_default=10000.0,
        ),
    ),
    layer_types=(*("sliding_attention",) * 5, "full_attention"),
    layers=_BY_WINDOW,
    tables=_BY_TABLE,
    hf_rules=(
        *_GEMMA_RULES,
        Rule("hidden_activation", _TANH, _GEGLU),
        Rule("attn_logit_softcapping", (None,), ANY),
        Rule("final_logit_softcapping", (None,), ANY),
    ),
    gguf_rules=(
        *_GGUF,
        Rule(
            "attention.sliding_window_pattern",
            (6,),
            "every sixth layer sees all positions",
        ),
        # llama.cpp recognises the largest model by its layers, and scales it by n_embd.
        Rule(
            "block_count",
            (),
            "the 27B model has another scale: import its safetensors",
            rejected=(62,),
        ),
    ),
    harmless=("sliding_window_pattern", "_sliding_window_pattern"),
)

FAMILIES = (GEMMA, GEMMA2, GEMMA3, GRANITE, LLAMA, OLMO2, QWEN2, QWEN3)
"""The architectures that GGUF files may have, too."""

HF_ONLY = (CWM, MINISTRAL, MISTRAL, OLMO3, PHI3, SEED_OSS, SMOLLM3)

_NO_HEAD = "it computes embeddings and has no head: use a checkpoint of"

OTHERS = {
    "Gemma3ForConditionalGeneration": "it also reads images: use a checkpoint of"
    " Gemma3ForCausalLM, the text model",
    "Gemma3TextModel": f"{_NO_HEAD} Gemma3ForCausalLM",
    "Qwen2Model": f"{_NO_HEAD} Qwen2ForCausalLM",
    "Qwen3Model": f"{_NO_HEAD} Qwen3ForCausalLM",
    "LlamaModel": f"{_NO_HEAD} LlamaForCausalLM",
}
"""Classes that are similar to a known one, and what to do about them."""
