"""A manifest and a target in, what each level of a check may differ by out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ingot.readers.manifest import Manifest
    from ingot.readers.target import Target

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
    return found | _of_rounding(manifest)


def _of_rounding(manifest: Manifest) -> dict[str, dict[str, Any]]:
    """Return the tolerances towards a reference whose weights were not rounded.

    Only there: the oracle has the weights as they are stored.
    """
    stored = {item.stored for item in manifest.weights.policies} - {"f32"}
    exact = {"of_range": False, "min_cosine": None}
    if not stored:
        source = "the best token is exact"
        return {"tokens": {**exact, "max_abs_error": 0.0, "source": source}}
    source = f"weights stored as {', '.join(sorted(stored))}"
    n_vocab = float(dict(manifest.dims).get("n_vocab", 0))
    found = {"tokens": {**exact, "max_abs_error": n_vocab, "source": source}}
    if "golden" not in {item.level for item in manifest.tolerances if item.own}:
        share = max(ROUNDING[item] for item in stored)
        found["golden"] = {
            **exact,
            "max_abs_error": share,
            "of_range": True,
            "source": source,
        }
    return found
