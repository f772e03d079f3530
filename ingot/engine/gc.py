"""Remove the results and blobs that were not used for the longest time.

Results are removed before their blobs, so that no result ever names blobs that are
gone. What a running build has leased, and what was used within the grace period, stays.
Builds may run at the same time: they wait while files are removed.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from ingot.engine import leases
from ingot.engine.store_survey import StoreSurvey, blob_path, size_bytes, survey

# More than the time between a build and what a person does with its results.
GRACE_S = 3600.0


@dataclass(frozen=True, slots=True)
class Collection:
    """What was removed, and what is left."""

    results: int
    blobs: int
    freed_bytes: int
    left_bytes: int
    excess_bytes: int  # above the limit: too young to remove, or in use


def collect_garbage(
    root: Path, limit_bytes: int, grace_s: float = GRACE_S
) -> Collection:
    """Remove results and blobs, least recently used first, until the rest fits.

    Raises: OSError if the store cannot be written.
    """
    left = size_bytes(root)
    if left <= limit_bytes:
        return Collection(0, 0, 0, left, 0)
    # Most of the reading happens before builds have to wait.
    known = survey(root)
    with leases.block_leases(root) as leased:
        found = survey(root, known)
        keys, blobs = choose_removals(found, leased, limit_bytes, time.time() - grace_s)
        for key in keys:
            _remove(root / "ac" / key[:2] / key)
        for name in blobs:
            _remove(blob_path(root, name))
    freed = sum(found.entries[key].file.size_bytes for key in keys)
    freed += sum(found.blobs[name].size_bytes for name in blobs)
    left = found.size_bytes - freed
    return Collection(len(keys), len(blobs), freed, left, max(0, left - limit_bytes))


def choose_removals(
    found: StoreSurvey, leased: set[str], limit_bytes: int, before_s: float
) -> tuple[list[str], list[str]]:
    """Return the keys of results and the hashes of blobs to remove, oldest first.

    What was used after `before_s` stays.
    """
    holders = Counter(name for entry in found.entries.values() for name in entry.blobs)
    leased = leased.union(
        *(entry.blobs for key, entry in found.entries.items() if key in leased)
    )
    # A result, or a blob that no result names: from a killed build, or just arriving.
    ages = [(entry.file.used_s, "ac", key) for key, entry in found.entries.items()]
    ages += [
        (blob.used_s, "cas", name)
        for name, blob in found.blobs.items()
        if not holders[name]
    ]
    left_bytes = found.size_bytes
    keys: list[str] = []
    blobs: list[str] = []
    for used_s, kind, name in sorted(ages):
        if left_bytes <= limit_bytes or used_s > before_s:
            break
        if name in leased:
            continue
        unheld = {name}
        if kind == "ac":
            entry = found.entries[name]
            keys.append(name)
            left_bytes -= entry.file.size_bytes
            holders.subtract(entry.blobs)
            unheld = {blob for blob in entry.blobs if not holders[blob]}
        for blob in sorted((unheld - leased) & found.blobs.keys()):
            blobs.append(blob)
            left_bytes -= found.blobs[blob].size_bytes
    return keys, blobs


def _remove(path: Path) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        # A build has discarded it as corrupt.
        return
