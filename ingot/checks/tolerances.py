"""A manifest and a target in, what each level of a check may differ by out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ingot.model.manifest import Manifest
    from ingot.model.target import Target

# What rounding weights may cost of the logits' range, against a reference that did not
# round: three times what random weights cost, for which it is worst. `doit ablate` says
# where it comes from.
ROUNDING = {
    "bf16": 2e-2,
    "f16": 3e-3,
    "i8": 6e-2,
    "i8_block32": 6e-2,
    "i4_block32": 4e-1,
}

# How far the reference's best token may lie below the best one, where nothing is
# rounded.
EXACT = {
    "max_abs_error": 0.0,
    "of_range": False,
    "min_cosine": None,
    "source": "the best token is exact",
}

LEVELS = ("component", "block", "propagated", "model", "golden")


def tolerances(manifest: Manifest, target: Target) -> dict[str, dict[str, Any]]:
    """Return the tolerances by level, with the line that each comes from.

    A manifest's stands above its architecture's, and that above the target's.
    """
    overrides = {item.level: item for item in manifest.tolerances}
    found = {}
    for level in LEVELS:
        item = overrides.get(level) or target.tolerance(level)
        found[level] = {
            "max_abs_error": item.max_abs_error,
            "of_range": getattr(item, "of_range", False),
            "min_cosine": item.min_cosine,
            "source": item.source,
        }
    rounded = {
        item.stored for item in manifest.weights.policies if item.source != item.stored
    } - {"f32"}
    if not rounded:
        return {**found, "tokens": EXACT}
    # Only towards a reference that did not round: the oracle has the weights as stored.
    if "golden" not in {item.level for item in manifest.tolerances if item.own}:
        found["golden"] = {
            "max_abs_error": max(ROUNDING[item] for item in rounded),
            "of_range": True,
            "min_cosine": None,
            "source": f"weights stored as {', '.join(sorted(rounded))}",
        }
    return {**found, "tokens": {**found["golden"], "min_cosine": None}}
