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


TIMES_FLOAT32 = 20.0
"""How many times the loss of float32 a target may differ by.

docs/writing-a-target.md has the distribution: right artifacts reach 13 times.
"""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """By how much a level may differ, and the line that states it."""

    max_abs_error: float
    min_cosine: float | None
    source: str  # "targets/aarch64.yaml:12"
    # Whether the largest error is a share of the range of what is expected.
    of_range: bool = False
    # Whether it is a multiple of what float32 loses, by `ingot.checks.losses`.
    of_losses: bool = False

    def limit(self, expected: Array) -> float:
        """Return the largest difference from these values."""
        if not self.of_range:
            return self.max_abs_error
        # Of a single value the range says nothing; nor do zeros.
        return self.max_abs_error * max(
            float(expected.max() - expected.min()), float(abs(expected).max()), 1e-6
        )

    @classmethod
    def losses(cls, times: float, source: str) -> Tolerance:
        """Return the tolerance of so many times what float32 loses."""
        return cls(times, None, source, of_losses=True)

    def among(self, typical: Array) -> Tolerance:
        """Return the tolerance for values of which these are typical."""
        if not self.of_range:
            return self
        return replace(self, max_abs_error=self.limit(typical), of_range=False)
