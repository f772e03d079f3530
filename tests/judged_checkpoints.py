"""Write small checkpoints, whose golden outputs transformers has computed.

The numbers are small, so that epsilons matter. After a change, compute the golden
outputs again, where the extra `golden` is installed:

    python -m tests.judged_checkpoints
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from ingot.checks.archive_parameters import read_parameters
from ingot.codec import from_json
from ingot.engine.actions import InlineText
from ingot.errors import IngotError
from ingot.model.manifest import Manifest
from ingot.programs.bake.main import bake
from ingot.programs.bake.spec import BakeSpec
from ingot.stages.bake import plan_bake
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


def baked(root: Path, manifest: Manifest, source: Path) -> dict[str, Any]:
    """The parameters of the plain graph, as the bake writes them.

    Raises: IngotError if the bake refuses the checkpoint.
    """
    (text,) = (
        given.text
        for name, given in plan_bake(manifest).inputs
        if name == "spec.json" and isinstance(given, InlineText)
    )
    (root / "weights").mkdir()
    for path in (source,) if source.is_file() else source.glob("*.safetensors"):
        shutil.copy(path, root / "weights")
    with contextlib.chdir(root):
        try:
            bake(from_json(BakeSpec, text.encode()))
        except* IngotError as group:
            raise IngotError(str(group.exceptions[0])) from None
    return read_parameters(manifest.graph, root / "model.irpa")


def main() -> None:
    """Compute the golden outputs of every checkpoint again."""
    from ingot.programs.golden.judged_logits import logits_file
    from ingot.programs.golden.main import load

    for family, config in FAMILIES.items():
        n_ctx = config["max_position_embeddings"]
        with tempfile.TemporaryDirectory() as folder:
            model = load(write_judged(Path(folder), family), None, n_ctx)
        content, _ = logits_file(model, family, n_ctx, N_IDS, {})
        (DATA / f"{family}.npz").write_bytes(content)


if __name__ == "__main__":
    main()
