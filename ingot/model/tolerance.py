"""Define by how much a computed value may differ from the expected one.

Targets, architectures and manifests give tolerances by check level. Each becomes this
value, by which the check judges.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

Array: TypeAlias = Any

CHECK_LEVELS = ("component", "block", "propagated", "model", "golden")
"""From the smallest piece to the whole; the last two test the model as it ships."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """By how much a level may differ, and the line that states it."""

    max_abs_error: float
    min_cosine: float | None
    source: str  # "targets/aarch64.yaml:12"
    # Whether the largest error is a share of the range of what is expected.
    of_range: bool = False

    def limit(self, expected: Array) -> float:
        """Return the largest difference from these values."""
        if not self.of_range:
            return self.max_abs_error
        # Of a single value the range says nothing; nor do zeros.
        return self.max_abs_error * max(
            float(expected.max() - expected.min()), float(abs(expected).max()), 1e-6
        )

    def among(self, typical: Array) -> Tolerance:
        """Return the tolerance for values of which these are typical."""
        if not self.of_range:
            return self
        return replace(self, max_abs_error=self.limit(typical), of_range=False)
