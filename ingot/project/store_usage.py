"""Report how much of a store each model, target and stage uses.

A result names the task that it ran for. If several results name a blob, each of them
gets an equal share of its size, so that the shares add up to the size of the store.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ingot.engine.actions import stage_of
from ingot.engine.byte_sizes import format_size
from ingot.errors import counted

if TYPE_CHECKING:
    from ingot.engine.store_survey import StoreSurvey

KINDS = ("model", "target", "stage")


@dataclass(frozen=True, slots=True)
class Share:
    """The part of the store that one model, target or stage uses."""

    name: str
    results: int
    size_bytes: float


@dataclass(frozen=True, slots=True)
class Builds:
    """How many actions the recorded builds ran, restored or left as they were."""

    builds: int = 0
    ran: int = 0
    restored: int = 0
    current: int = 0

    @property
    def hit_rate(self) -> float:
        """Return the share of actions that did not have to run; 1 without actions."""
        asked = self.ran + self.restored
        return self.restored / asked if asked else 1.0


def shares(found: StoreSurvey, kind: str) -> list[Share]:
    """Return the shares by model, target or stage, the largest first.

    "other" is the share of tasks that are not ingot's, and of blobs without a result.
    """
    holders = Counter(name for entry in found.entries.values() for name in entry.blobs)
    sizes: defaultdict[str, float] = defaultdict(float)
    counts: Counter[str] = Counter()
    for entry in found.entries.values():
        name = _part(entry.result.task, kind)
        counts[name] += 1
        sizes[name] += entry.file.size_bytes
        for blob in entry.blobs & found.blobs.keys():
            sizes[name] += found.blobs[blob].size_bytes / holders[blob]
    loose = sum(b.size_bytes for name, b in found.blobs.items() if not holders[name])
    if loose:
        sizes["other"] += loose
    found_shares = [Share(name, counts[name], size) for name, size in sizes.items()]
    return sorted(found_shares, key=lambda share: (-share.size_bytes, share.name))


def usage_text(found: StoreSurvey, builds: Builds, limit_bytes: int | None) -> str:
    """Return the report: the size, the hit rate, the shares."""
    limit = "no limit" if limit_bytes is None else f"limit {format_size(limit_bytes)}"
    results = counted(len(found.entries), "result")
    blobs = counted(len(found.blobs), "blob")
    lines = [
        f"{format_size(found.size_bytes)} in {results} and {blobs}; {limit}",
        "no builds so far"
        if not builds.builds
        else f"{builds.hit_rate:.0%} cache hits: {builds.restored} restored,"
        f" {builds.ran} ran in {counted(builds.builds, 'build')}"
        f" ({builds.current} more were up to date)",
    ]
    for kind in KINDS:
        lines.append(f"{kind:<24} {'results':>8} {'size':>10}")
        lines += [
            f"  {share.name:<22} {share.results:>8} {format_size(share.size_bytes):>10}"
            for share in shares(found, kind)
        ]
    return "\n".join(lines)


def _part(task: str, kind: str) -> str:
    """Return the model, target or stage of a task such as "check:toy@x86_64"."""
    if not task:
        return "other"
    stage = stage_of(task)
    if kind == "stage":
        return stage
    if stage in ("specialize", "fetch"):
        return "shared"
    model, _, target = task.partition(":")[2].partition("@")
    if kind == "model":
        return model
    # The other stages serve all targets of a layout.
    return target if stage in ("compile", "check", "bench", "bundle") else "shared"
