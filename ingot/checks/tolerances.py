"""Combine the tolerances of a manifest and a target into those of a check."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ingot.model.judge import rounded_types
from ingot.model.tolerance import CHECK_LEVELS, TIMES_FLOAT32, Tolerance

if TYPE_CHECKING:
    from ingot.model.manifest import Manifest
    from ingot.model.target import Target

# The share of the logits' range that rounded weights may cost, compared with a
# reference that did not round: three times the cost for random weights, which is the
# worst case. `doit ablate` shows where it comes from.
ROUNDING = {
    "bf16": 2e-2,
    "f16": 3e-3,
    "i8": 6e-2,
    "i8_block32": 6e-2,
    "i4_block32": 4e-1,
    "i4_block32_hqq": 4e-1,
    # The blocks of a GGUF file are kept; synthetic weights are rounded to them.
    "q8_0": 6e-2,
    "q6_k": 1e-1,
    "q5_0": 2e-1,
    "q4_0": 4e-1,
    "q4_1": 4e-1,
    "q4_k": 4e-1,
}

USUAL = Tolerance.losses(TIMES_FLOAT32, f"{TIMES_FLOAT32:g} times float32's loss")

# How far the reference's best token may be below the best one if no weight is rounded.
EXACT = Tolerance(0.0, None, "the best token is exact")


def tolerances(manifest: Manifest, target: Target) -> dict[str, Tolerance]:
    """Return the tolerances by level, and of the best tokens.

    A manifest overrides its architecture, that overrides the target, and where none of
    them says anything, what float32 loses decides.
    """
    found = {
        level: manifest.tolerances.get(level) or target.tolerances.get(level, USUAL)
        for level in CHECK_LEVELS
    }
    rounded = rounded_types(manifest)
    if not rounded:
        return {**found, "tokens": EXACT}
    # Only for a reference that did not round: the oracle uses the stored weights.
    if "golden" not in manifest.own_tolerances:
        share = max(ROUNDING[item] for item in rounded)
        source = f"weights stored as {', '.join(sorted(rounded))}"
        found["golden"] = Tolerance(share, None, source, of_range=True)
    return {**found, "tokens": replace(found["golden"], min_cosine=None)}
