"""Compute logits and a greedy sequence of a model of transformers, as a golden file.

Prompts are random token ids. Of random weights many tokens have nearly the same logit:
prompts are drawn again until the best token is clear, so that a greedy token is right
or wrong whatever the rounding.

Arrays, text as UTF-8 bytes of JSON in uint8:
    metadata        kind "logits", model, versions, the attention's window or null,
                    smallest lead of a best token over the second (share of the range)
    tokens          int32 [sum of lengths], all prompts
    offsets         int32 [n + 1], prompt i has tokens[offsets[i]:offsets[i + 1]]
    ids             int32 [m], token ids, sorted
    logits          float32 [n, m], at `ids`, after the last token of each prompt
    argmax          int32 [n], the token with the largest logit
    range           float32 [n], largest less smallest logit of the whole vocabulary
    greedy          int32 [80], a prompt of 16 tokens, then each the best after the last
                    (fewer if the model has fewer positions)
    greedy_prompt   int32 [], 16
    steps           int32 [s], step i makes greedy[16 + i]
    step_logits     float32 [s, m], at `ids`, of these steps
    step_range      float32 [s]
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from typing import Any, TypeAlias

Array: TypeAlias = Any
Rng: TypeAlias = Any

LENGTHS = (1, 2, 7, 16, 33, 64, 200)
LONGEST = 300
# Longer than the window: the first tokens are out of sight.
LONGEST_WINDOWED = 640
GREEDY_PROMPT, GREEDY_STEPS = 16, 64
STEPS = (0, 1, 2, 4, 8, 16, 32, 63)
CANDIDATES = 8
# Positions of a cache in addition to the written ones, in checks.
SPARE = 3

# 2.5 times what a logit may be wrong by, both as shares of the range: two logits that
# are as wrong as they may be still have their order.
LEAD = 5e-4


def last_logits(model: Any, tokens: Array) -> Array:
    """Return the logits after the last token.

    Shapes: tokens [seq] -> [n_vocab].
    """
    import numpy as np
    import torch

    ids = torch.from_numpy(tokens.astype(np.int64))[None]
    with torch.no_grad():
        made = model(input_ids=ids, use_cache=False, logits_to_keep=1).logits
    return made[0, -1].numpy()


def lead(logits: Array) -> float:
    """Return by which share of the range the best token leads."""
    import numpy as np

    second, best = np.partition(logits, -2)[-2:]
    return float((best - second) / np.ptp(logits))


def prompt(model: Any, rng: Rng, length: int) -> tuple[Array, Array]:
    """Return a prompt with a clear best token, and the logits after it."""
    import numpy as np

    while True:
        tokens = rng.integers(0, model.config.vocab_size, length, np.int32)
        logits = last_logits(model, tokens)
        if lead(logits) >= LEAD:
            return tokens, logits


def greedy(model: Any, rng: Rng, steps: int) -> Array:
    """Return a prompt and what follows by clear steps, made with transformers' cache.

    Shapes: -> [16 + steps].
    """
    import numpy as np
    import torch

    n_vocab, tokens = model.config.vocab_size, np.zeros((0, 0), np.int64)
    while True:
        if not len(tokens):
            # Side by side: reading the weights takes longer than a token's arithmetic.
            tokens = rng.integers(0, n_vocab, (CANDIDATES, GREEDY_PROMPT))
            given, cache = tokens, None
        with torch.no_grad():
            made = model(
                input_ids=torch.from_numpy(given),
                past_key_values=cache,
                use_cache=True,
                logits_to_keep=1,
            )
        logits, cache = made.logits[:, -1].numpy(), made.past_key_values
        clear = [row for row, item in enumerate(logits) if lead(item) >= LEAD]
        cache.batch_select_indices(torch.tensor(clear, dtype=torch.int64))
        given = logits[clear].argmax(1)[:, None]
        tokens = np.concatenate([tokens[clear], given], axis=1)
        if len(tokens) and tokens.shape[1] == GREEDY_PROMPT + steps:
            # Random weights come to repeat themselves; the last to do so says most.
            best = max(tokens, key=lambda row: len(set(row.tolist())))
            return best.astype(np.int32)


def npz(arrays: dict[str, Any]) -> bytes:
    """Return arrays as a file; equal arrays give equal bytes: sorted, dated 1980."""
    import numpy as np

    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(arrays):
            content = io.BytesIO()
            array = np.asarray(arrays[name])
            np.lib.format.write_array(content, array, allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), content.getvalue())
    return file.getvalue()


def text(value: Any) -> Array:
    """Return a JSON value as UTF-8 bytes."""
    import numpy as np

    return np.frombuffer(json.dumps(value, sort_keys=True).encode(), np.uint8)


def judge(
    model: Any, rng: Rng, n_ctx: int, n_ids: int, window: int | None
) -> tuple[dict[str, Any], dict[str, float]]:
    """Return the arrays of the file, and the smallest leads among its best tokens."""
    import numpy as np
    import torch

    n_vocab, n_ctx = model.config.vocab_size, n_ctx - SPARE
    longest = LONGEST_WINDOWED if window else LONGEST
    lengths = [length for length in (*LENGTHS, longest) if length <= n_ctx]
    ids = np.sort(rng.choice(n_vocab, min(n_ids, n_vocab), replace=False))
    prompts, found = zip(*(prompt(model, rng, n) for n in lengths), strict=True)
    count = min(GREEDY_STEPS, n_ctx - GREEDY_PROMPT)
    sequence = greedy(model, rng, count)
    # Without a cache, all steps at once: what the cache made must be the same.
    with torch.no_grad():
        given = torch.from_numpy(sequence[None, :-1].astype(np.int64))
        every = model(input_ids=given, use_cache=False).logits[0].numpy()
    every = every[GREEDY_PROMPT - 1 :]
    assert np.array_equal(every.argmax(1), sequence[GREEDY_PROMPT:])
    chosen = [step for step in STEPS if step < count]
    steps = every[chosen]
    arrays = {
        "tokens": np.concatenate(prompts),
        "offsets": np.cumsum([0, *lengths], dtype=np.int32),
        "ids": ids.astype(np.int32),
        "logits": np.stack([item[ids] for item in found]),
        "argmax": np.array([item.argmax() for item in found], np.int32),
        "range": np.array([np.ptp(item) for item in found]),
        "greedy": sequence,
        "greedy_prompt": np.int32(GREEDY_PROMPT),
        "steps": np.array(chosen, np.int32),
        "step_logits": steps[:, ids],
        "step_range": np.ptp(steps, axis=1),
    }
    return arrays, {"prompts": min(map(lead, found)), "greedy": min(map(lead, every))}


def float32_error(model: Any, arrays: dict[str, Any]) -> float:
    """Return how far short prompts' logits are from float64's, as a share of range."""
    import numpy as np

    model.double()
    errors = []
    for index, stop in enumerate(arrays["offsets"][1:]):
        tokens = arrays["tokens"][arrays["offsets"][index] : stop]
        if len(tokens) <= GREEDY_PROMPT:
            error = last_logits(model, tokens)[arrays["ids"]] - arrays["logits"][index]
            errors.append(np.abs(error).max() / arrays["range"][index])
    return float(max(errors))


def logits_file(
    model: Any, name: str, n_ctx: int, n_ids: int, versions: dict[str, str]
) -> tuple[bytes, dict[str, Any]]:
    """Return the golden file of a model, and its arrays.

    Prompts have at most `n_ctx` tokens.
    """
    import numpy as np

    rng = np.random.default_rng(zlib.crc32(name.encode()))
    # Some families state a window that no layer uses.
    local = "sliding_attention" in (getattr(model.config, "layer_types", None) or ())
    window = model.config.sliding_window if local else None
    arrays, leads = judge(model, rng, n_ctx, n_ids, window)
    metadata = {
        "kind": "logits",
        "model": name,
        "versions": versions,
        "window": window,
        "smallest_lead": leads,
    }
    return npz({**arrays, "metadata": text(metadata)}), arrays


def describe(arrays: dict[str, Any]) -> str:
    """Return in a few words what a golden file contains."""
    different = len(set(arrays["greedy"].tolist()))
    prompts = len(arrays["offsets"]) - 1
    return f"{prompts} prompts, {different} different greedy tokens"
