"""Mistakes that change no result, each with the reason."""

from __future__ import annotations

# What only has to be above zero, so that nothing is divided by it.
_GUARD = "keeps a division by zero away; any number that small does"

EQUIVALENT: dict[str, str] = {
    "pooling/mean_pool: %least_count 1.0e-9 -> 1.5000000000000002e-09": _GUARD,
}
