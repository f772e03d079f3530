"""Compute golden logits of a checkpoint with transformers, an independent judge.

transformers reads the checkpoint's own config.json, or the metadata of a GGUF file, so
a number that `doit import` misread makes the check fail, although the oracles and the
target agree on it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from ingot.codec import from_json
from ingot.programs.golden.judged_logits import describe, logits_file
from ingot.programs.golden.spec import GOLDEN, GoldenSpec


def main() -> None:
    """Write the golden file of the specification in `argv[1]`."""
    import torch

    specification = from_json(GoldenSpec, Path(sys.argv[1]).read_bytes())
    # Sums that are split over threads depend on their number.
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    try:
        model = load(
            Path(specification.folder), specification.gguf, specification.n_ctx
        )
    except (OSError, ValueError, KeyError, ImportError, RuntimeError) as error:
        raise SystemExit(f"{specification.task}: transformers: {error}") from None
    content, told = logits_file(
        model,
        specification.model,
        specification.n_ctx,
        specification.n_ids,
        dict(specification.packages),
    )
    Path(GOLDEN).write_bytes(content)
    print(f"{specification.task}: {describe(told)}")


def load(folder: Path, gguf: str | None, n_ctx: int) -> Any:
    """Return the checkpoint as transformers reads it, in float32.

    transformers chooses the divisors of longrope by the length of each text; a model
    that is compiled for n_ctx positions has those of n_ctx for all texts.

    Raises: ValueError if transformers finds no value for a parameter, because it would
        make one up.
    """
    import torch
    import transformers

    config = transformers.AutoConfig.from_pretrained(folder, gguf_file=gguf)
    rope = getattr(config, "rope_parameters", None) or {}
    is_longrope = rope.get("rope_type") == "longrope"
    if is_longrope and n_ctx > rope["original_max_position_embeddings"]:
        rope["short_factor"] = rope["long_factor"]
    auto: Any = transformers.AutoModelForCausalLM
    model, loading = auto.from_pretrained(
        folder,
        config=config,
        gguf_file=gguf,
        dtype=torch.float32,
        attn_implementation="eager",
        output_loading_info=True,
    )
    wrong = {
        key: sorted(map(str, loading.get(key) or ()))
        for key in ("missing_keys", "mismatched_keys")
    }
    if any(wrong.values()):
        found = "; ".join(f"{key} {names[:4]}" for key, names in wrong.items() if names)
        raise ValueError(f"the checkpoint does not fit its config: {found}")
    return model.eval()


if __name__ == "__main__":
    main()
