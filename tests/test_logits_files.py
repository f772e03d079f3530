"""Test the content of decoders' golden files, and the part that a bundle ships."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingot.checks.bundle_cases import golden_cases
from ingot.checks.compare import Place, compare
from ingot.checks.golden_files import NEEDED, GoldenSentences, golden_kind, read_logits
from ingot.errors import IngotError
from ingot.model.manifest import read_manifest
from ingot.model.tolerance import Tolerance
from tests.source_tree import ROOT

FOLDER = ROOT / "models/golden"
FILES = sorted(
    path.stem for path in FOLDER.glob("*.npz") if golden_kind(path) == "logits"
)

Array = Any


def write(path: Path, change: Callable[[dict[str, Array]], None]) -> Path:
    with np.load(FOLDER / "clm-60m.npz") as arrays:
        found = dict(arrays)
    change(found)
    np.savez(path, **found)
    return path


@pytest.mark.parametrize("name", NEEDED.split()[1:])
def test_a_file_without_an_array_is_refused_by_name(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "g.npz", lambda arrays: arrays.pop(name))
    with pytest.raises(IngotError, match=f"no array '{name}'"):
        read_logits(path)


def test_a_file_that_says_nothing_of_itself_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "g.npz", lambda arrays: arrays.pop("metadata"))
    with pytest.raises(IngotError, match="no array 'metadata'"):
        golden_kind(path)


@pytest.mark.parametrize("model", FILES)
def test_a_file_fits_its_model(model: str) -> None:
    judged = read_logits(FOLDER / f"{model}.npz")
    dims = dict(read_manifest(ROOT / f"models/{model}.yaml", ROOT).dims)
    lengths = [len(prompt) for prompt in judged.prompts]
    assert lengths == [1, 2, 7, 16, 33, 64, 200, 640 if "n_swa" in dims else 300]
    assert judged.window == dims.get("n_swa")
    tokens = [*judged.greedy, *judged.ids, *(t for p in judged.prompts for t in p)]
    assert 0 <= min(tokens) <= max(tokens) < dims["n_vocab"]
    assert len(judged.greedy) == 80
    kept = min(1024, dims["n_vocab"] // 4)
    assert len(set(judged.ids.tolist())) == kept
    assert [step for step, _ in judged.steps] == [0, 1, 2, 4, 8, 16, 32, 63]
    known = [*judged.expected, *(expected for _, expected in judged.steps)]
    for expected in known:
        assert expected.logits.shape == (kept,)
        assert np.isfinite(expected.logits).all()
        assert 0 < float(np.ptp(expected.logits)) <= expected.range
    assert (FOLDER / f"{model}.npz").stat().st_size < 200_000


@pytest.mark.parametrize("model", FILES)
def test_a_best_token_leads_by_more_than_logits_may_be_wrong(model: str) -> None:
    with np.load(FOLDER / f"{model}.npz") as arrays:
        metadata = json.loads(arrays["metadata"].tobytes())
    leads = metadata["smallest_lead"]
    # As shares of the range; a target may be wrong by a tenth of it.
    assert min(leads.values()) > 4e-4


def test_a_share_of_the_range_stays_one_in_a_bundle_of_sentences() -> None:
    # As an absolute limit, 0.4 would let embeddings of unit length be zeros.
    share = Tolerance(0.4, None, "x", of_range=True)
    one = np.eye(1, 8, dtype=np.float32)
    judged = GoldenSentences(("hello",), ((1, 2),), one, one, batch=1)
    kept = golden_cases(judged, "golden file", {"golden": share})
    tolerance = Tolerance(**kept["tolerance"], source="golden.json")
    place = Place("golden", "golden.json", "encode", (), "embedding")
    assert not compare(place, one, np.zeros_like(one), tolerance).passed


def test_a_bundle_gets_short_prompts_with_a_few_logits() -> None:
    judged = read_logits(FOLDER / "clm-60m.npz")
    tolerance: dict[str, Any] = {
        "max_abs_error": 2e-4,
        "min_cosine": None,
        "of_range": True,
    }
    exact: Any = {**tolerance, "max_abs_error": 0.0}
    limits = {
        "golden": Tolerance(**tolerance, source="t.yaml:1"),
        "tokens": Tolerance(**exact, source="t.yaml:1"),
    }
    kept = json.loads(json.dumps(golden_cases(judged, "golden file", limits)))
    assert kept["tolerance"] == tolerance
    assert kept["token_tolerance"] == exact
    assert [len(case["tokens"]) for case in kept["cases"]] == [1, 2, 7, 16]
    assert len(kept["ids"]) == 64
    place = {token: index for index, token in enumerate(judged.ids.tolist())}
    for case, expected in zip(kept["cases"], judged.expected, strict=False):
        logits = expected.logits[[place[token] for token in kept["ids"]]]
        np.testing.assert_array_equal(np.float32(case["logits"]), logits)
        assert case["best_token"] == expected.token
        assert case["range"] == pytest.approx(expected.range, rel=1e-7)
