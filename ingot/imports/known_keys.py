"""Find the keys of a checkpoint that no rule knows, because they may change a model.

A program wrote the checkpoint for its own code, which may read any key. So a key is
either read as a Number, has a Rule, or is known to change nothing; `doit import`
rejects all others, unless the user says that they change nothing either.

Source: transformers, configuration_utils.py and models/*/configuration_*.py;
    ggml-org/llama.cpp, src/llama-arch.cpp.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from ingot.errors import IngotError
from ingot.imports.checkpoint_facts import Survey
from ingot.imports.families import EQUAL_IN_GGUF, Family
from ingot.imports.hyperparameters import spelled

_KEYS = (
    # What the file is, and which program wrote it.
    "architectures model_type _name_or_path name_or_path _commit_hash dtype",
    "torch_dtype transformers_version transformers.js_config unsloth_version",
    "unsloth_fixed is_llama_config tie_word_embeddings",
    # Tokens.
    "bos_token_id eos_token_id pad_token_id sep_token_id unk_token_id",
    "decoder_start_token_id tokenizer_class",
    # Training.
    "initializer_range initializer_factor attention_dropout hidden_dropout",
    "hidden_dropout_prob attention_probs_dropout_prob resid_pdrop embd_pdrop",
    "emb_pdrop attn_pdrop classifier_dropout router_aux_loss_coef",
    "router_jitter_noise moe_loss_weight moe_jitter_eps output_router_logits",
    "finetuning_task problem_type",
    # How the same numbers are computed and returned.
    "use_cache pretraining_tp _attn_implementation attn_implementation",
    "_attn_implementation_autoset attn_impl cache_implementation",
    "output_attentions output_hidden_states output_scores return_dict",
    "return_dict_in_generate torchscript use_bfloat16 chunk_size_feed_forward",
    "tf_legacy_loss",
    # The classes of a classifier, and how text is generated.
    "id2label label2id num_labels prefix task_specific_params max_length",
    "min_length do_sample early_stopping num_beams num_beam_groups",
    "diversity_penalty temperature top_k top_p typical_p repetition_penalty",
    "length_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size",
    "bad_words_ids num_return_sequences forced_bos_token_id forced_eos_token_id",
    "remove_invalid_values suppress_tokens begin_suppress_tokens",
    "exponential_decay_length_penalty",
)
HARMLESS_HF = frozenset(key for line in _KEYS for key in line.split())
"""Keys of config.json that do not change what a decoder computes."""

NEUTRAL_HF: dict[str, tuple[Any, ...]] = {
    "is_decoder": (True, False),
    "is_encoder_decoder": (False,),
    "add_cross_attention": (False,),
    "tie_encoder_decoder": (False,),
    "pruned_heads": ({},),
}
"""Keys of config.json that change nothing with these values."""

HARMLESS_GGUF = frozenset(
    (
        # Without effect while positions are not scaled.
        "rope.scaling.finetuned",
        "rope.scaling.original_context_length",
        "tensor_data_layout",
    )
)
"""Keys of GGUF metadata, without the architecture's name, that change nothing."""

# Rules of their own check these, or their content.
_READ_HF = frozenset(
    (
        "layer_types",
        "rope_scaling",
        "rope_parameters",
        "original_max_position_embeddings",
    )
)

EFFECTS = {
    "no_rope_layers": "some layers have no rotary embedding, as in SmolLM3",
    "no_rope_layer_interval": "some layers have no rotary embedding, as in SmolLM3",
    "embedding_multiplier": "it scales the embedding, as in Granite",
    "residual_multiplier": "it scales each block's output, as in Granite",
    "attention_multiplier": "it scales the scores of attention, as in Granite",
    "logits_scaling": "it scales the logits, as in Granite",
    "sliding_window": "each token sees only a window of positions, as in Mistral; it"
    " changes nothing if n_ctx is not larger",
    "auto_map": "the checkpoint brings its own code, which may compute something else",
}
"""What some keys do that a similar architecture has."""

IGNORE = "if it changes nothing that the model computes: ignore="


def check_keys(
    survey: Survey, family: Family, ignored: Collection[str]
) -> Iterator[IngotError]:
    """Yield an error for each key that no rule knows and the user does not ignore."""
    unknown = unknown_keys(survey, family)
    for key in unknown:
        if key in ignored:
            continue
        stated = survey.stated[key]
        effect = EFFECTS.get(key, "")
        yield IngotError(
            f"{stated.origin}: unknown to architecture '{family.architecture}';"
            f" expected no such key, found {spelled(stated.value)}",
            "\n  ".join(filter(None, (effect, IGNORE + key))),
        )
    for key in ignored:
        if key not in unknown:
            yield IngotError(
                f"ignore={key}: expected a key that the import does not know, found"
                f" '{key}'",
                f"unknown in {survey.file}: {', '.join(unknown) or 'none'}",
            )


def unknown_keys(survey: Survey, family: Family) -> tuple[str, ...]:
    """Return the keys that no rule knows, and whose value is not null."""
    naming = survey.naming
    known = {number.key(naming) for number in family.numbers}
    known |= {rule.key for rule in family.rules(naming)}
    if naming == "gguf":
        known |= {key for key, _ in EQUAL_IN_GGUF} | HARMLESS_GGUF
    else:
        known |= _READ_HF | HARMLESS_HF | set(family.harmless)
    # An object of which a key is read, such as DBRX's attn_config.
    known |= {key.partition(".")[0] for key in known if "." in key}
    return tuple(
        key
        for key, stated in survey.stated.items()
        if stated.value is not None
        and not _is_known(key, known, naming)
        and (naming == "gguf" or stated.value not in NEUTRAL_HF.get(key, ()))
    )


def _is_known(key: str, known: set[str], naming: str) -> bool:
    outer, dot, inner = key.partition(".")
    if key in known or naming == "gguf" or not dot:
        return key in known
    # An object that is not known itself is one error.
    return outer not in known or inner in HARMLESS_HF or inner in NEUTRAL_HF
