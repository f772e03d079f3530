"""Find in a `tokenizer.json` which ids end a text, and which ids have no token.

`bundle.json` states both, so that a caller of the module needs no tokenizer to generate
token ids.
"""

from __future__ import annotations

from typing import Any

# A `tokenizer.json` lists special tokens without their purpose. These end a text or a
# turn, in addition to the manifest's: Gemma, Llama, Qwen and SmolLM, Mistral.
ENDS = (
    "<eos>",
    "<end_of_turn>",
    "</s>",
    "<|end_of_text|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|endoftext|>",
    "<|im_end|>",
)


def ending_ids(tokenizer: dict[str, Any]) -> list[int]:
    """Return the ids of the special tokens that end a text.

    A name counts only if the tokenizer treats it as special: for Gemma 3 and Qwen 3,
    `</s>` is ordinary text.
    """
    special = {
        token["content"]: int(token["id"])
        for token in tokenizer.get("added_tokens") or ()
        if token.get("special")
    }
    return [special[name] for name in ENDS if name in special]


def unused_ids(tokenizer: dict[str, Any], n_vocab: int) -> list[list[int]]:
    """Return the first and the last of each run of ids without a token.

    Ids may have gaps, and a model may have more rows than its tokenizer has tokens.
    """
    vocab = tokenizer["model"]["vocab"]
    # A unigram model has a list of tokens with their scores.
    ids = vocab.values() if isinstance(vocab, dict) else range(len(vocab))
    added = (token["id"] for token in tokenizer.get("added_tokens") or ())
    used = {*ids, *added, n_vocab}
    runs, first = [], 0
    for token in sorted(used):
        if first < token <= n_vocab:
            runs.append([first, token - 1])
        first = token + 1
    return runs
