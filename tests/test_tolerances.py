"""Test which tolerance each level of a check uses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ingot.checks.tolerances import tolerances
from ingot.model.manifest import Manifest
from ingot.model.manifest_schema import Policy
from ingot.model.target import read_target
from ingot.model.tolerance import TIMES_FLOAT32, Tolerance
from tests.manifest_cases import GOOD_DECODER, ROOT, good

TARGET = read_target(ROOT / "targets/x86_64.yaml", ROOT)
EXACT = (0.0, False)
USUAL = (20.0, False)  # times what float32 loses
Stored = tuple[tuple[str | None, str], ...]


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    """A decoder whose manifest says nothing of golden logits."""
    found = good(tmp_path_factory.mktemp("decoder"), name=GOOD_DECODER)
    return replace(found, tolerances={}, own_tolerances=())


def of(manifest: Manifest, stored: Stored) -> dict[str, tuple[float, bool]]:
    """The tolerances by level, for weights of these types in source and archive."""
    policies = tuple(
        Policy(match="*", source=source, stored=kept, compute="f32")
        for source, kept in stored
    )
    weights = replace(manifest.weights, policies=policies)
    found = tolerances(replace(manifest, weights=weights), TARGET)
    return {k: (v.max_abs_error, v.of_range) for k, v in found.items()}


@pytest.mark.parametrize(
    "stored",
    [
        (("f32", "f32"),),
        # A type that is stored as it is rounds nothing.
        (("bf16", "bf16"),),
        (("f16", "f16"), ("bf16", "f32")),
    ],
)
def test_what_is_not_rounded_may_lose_some_times_what_float32_loses(
    stored: Stored, manifest: Manifest
) -> None:
    found = of(manifest, stored)
    assert found["golden"] == found["block"] == USUAL
    assert found["tokens"] == EXACT


@pytest.mark.parametrize(
    ("stored", "share"),
    [
        ((("f32", "bf16"),), 2e-2),
        # Of a source that may have any type, nothing is known.
        (((None, "f16"),), 3e-3),
        ((("bf16", "i8"), ("bf16", "i4_block32")), 4e-1),
    ],
)
def test_rounding_is_allowed_for_towards_who_did_not_round(
    stored: Stored, share: float, manifest: Manifest
) -> None:
    found = of(manifest, stored)
    assert found["golden"] == found["tokens"] == (share, True)
    # The oracle has the weights as they are stored.
    assert found["model"] == USUAL


def test_a_manifests_own_tolerance_holds_for_best_tokens_too(tmp_path: Path) -> None:
    found: Any = of(good(tmp_path, name=GOOD_DECODER), (("f32", "i8"),))
    assert found["golden"] == found["tokens"] == (1e-4, True)


def test_a_target_may_lose_more_at_a_level_and_a_manifest_still_decides(
    manifest: Manifest,
) -> None:
    fast = Tolerance.losses(100, "targets/fast.yaml:7")
    own = Tolerance(1e-3, 0.99, "models/m.yaml:9")
    target = replace(TARGET, tolerances={"component": fast, "model": fast})
    found = tolerances(replace(manifest, tolerances={"model": own}), target)
    assert (found["component"], found["model"]) == (fast, own)
    assert found["block"].of_losses
    assert found["block"].max_abs_error == TIMES_FLOAT32
