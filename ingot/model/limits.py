"""Define what a manifest or a target says about the limits of its actions."""

from __future__ import annotations

from dataclasses import dataclass

from ingot.engine.actions import Limits
from ingot.model.schema_types import Integer, Section, optional

_GIB = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsSection(Section):
    """When an action is stopped; what is left out is the target's, or the default."""

    time_s: int = optional(
        Integer(1), "seconds after which it is stopped (21600: 6 hours)", default=0
    )
    memory_gib: int = optional(
        Integer(1), "memory that its processes may use (the machine's)", default=0
    )
    processes: int = optional(
        Integer(1), "processes that it may have at once (2000)", default=0
    )

    def over(self, other: LimitsSection) -> Limits:
        """Return these limits, and the other's where these say nothing."""
        return Limits(
            self.time_s or other.time_s,
            (self.memory_gib or other.memory_gib) * _GIB,
            self.processes or other.processes,
        )
