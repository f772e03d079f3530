"""Write small checkpoints, whose golden outputs transformers has computed.

The numbers are small, so that epsilons matter. After a change, compute the golden
outputs again, where the extra `golden` is installed:

    python -m tests.judged_checkpoints
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from tests.import_cases import F32, TINY, Config, shapes, write_config, write_hf

DATA = Path(__file__).parent / "data/judged"
N_IDS = 96
FAMILIES: dict[str, Config] = {
    name: {**config, "rms_norm_eps": 1e-5} for name, config in TINY.items()
}
"""By architecture: the config of its checkpoint."""


def write_judged(folder: Path, family: str) -> Path:
    """Write the checkpoint of an architecture: the same numbers every time."""
    config = FAMILIES[family]
    rng = np.random.default_rng(5)
    arrays: dict[str, Any] = {}
    for name, shape in shapes(config).items():
        values = rng.standard_normal(shape)
        if "norm" in name:
            # Gemma adds 1 when it computes.
            values = 0.2 * values + (family != "gemma3")
        else:
            values *= 0.02 if "embed" in name else 0.3
        arrays[name] = values.astype(F32)
    if family == "qwen2":
        head = rng.standard_normal((config["vocab_size"], config["hidden_size"]))
        arrays["lm_head.weight"] = (0.3 * head).astype(F32)
        config = {**config, "tie_word_embeddings": False}
    write_hf(folder, config, **arrays)
    write_config(folder, config)
    return folder


def main() -> None:
    """Compute the golden outputs of every checkpoint again."""
    from ingot.programs.golden.judged_logits import logits_file
    from ingot.programs.golden.main import load

    for family, config in FAMILIES.items():
        with tempfile.TemporaryDirectory() as folder:
            model = load(write_judged(Path(folder), family), None)
        n_ctx = config["max_position_embeddings"]
        content, _ = logits_file(model, family, n_ctx, N_IDS, {})
        (DATA / f"{family}.npz").write_bytes(content)


if __name__ == "__main__":
    main()
