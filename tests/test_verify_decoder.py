"""Test that `doit verify` runs the golden prompts of a decoder's bundle."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from ingot.bundles.reader import read_bundle
from ingot.bundles.target_runner import module_of, runner_for
from ingot.bundles.verify import verify
from ingot.checks.oracle_decoder import Given, run_decoder
from ingot.errors import IngotError
from tests import tiny_decoder

PROMPTS = ((256,), (256, 104, 105), tuple(range(40, 52)))
IDS = (0, 7, 100, 257, 299)


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle whose golden prompts are what it makes of them."""
    folder = tiny_decoder.lay_out(tmp_path_factory.mktemp("decoder") / "bundle")
    bundle = read_bundle(folder)
    runner = runner_for(bundle, folder)
    assert not isinstance(runner, str)
    cases = []
    for prompt in PROMPTS:
        given = Given((prompt,), (0,), len(prompt))
        entry, module = bundle.entry_points[0], module_of(bundle)
        logits = run_decoder(runner, module, entry, given).logits[0]
        cases.append(
            {
                "tokens": prompt,
                "logits": logits[list(IDS)].tolist(),
                "range": float(logits.max() - logits.min()),
                "best_token": int(logits.argmax()),
            }
        )
    golden = {
        "schema": "ingot.golden.v1",
        "judge": "golden file",
        "tolerance": {"max_abs_error": 2e-4, "min_cosine": None, "of_range": True},
        "ids": IDS,
        "cases": cases,
    }
    (folder / "golden.json").write_text(json.dumps(golden))
    return tiny_decoder.sealed(folder, tiny_decoder.contract())


def changed(right: Path, folder: Path, **changes: Any) -> Path:
    """A copy with another last case."""
    shutil.copytree(right, folder)
    golden = json.loads((folder / "golden.json").read_text())
    golden["cases"][-1] |= changes
    (folder / "golden.json").write_text(json.dumps(golden))
    return tiny_decoder.sealed(folder, tiny_decoder.contract())


def test_a_right_decoder_is_verified(right: Path, tmp_path: Path) -> None:
    printed = verify(right, tmp_path).text
    assert "reads prefill, decode" in printed
    assert (
        "correct: 3 prompts of the golden file on local-task: best tokens equal, "
        "worst error 0.0e+00 (at most " in printed
    )


def test_a_wrong_best_token_is_refused(right: Path, tmp_path: Path) -> None:
    bundle = changed(right, tmp_path / "bundle", best_token=3)
    with pytest.raises(
        IngotError,
        match=r"golden prompt 2: wrong best token on local-task; expected 3, found \d+",
    ):
        verify(bundle, tmp_path)


def test_a_best_token_that_the_check_allowed_is_verified(
    right: Path, tmp_path: Path
) -> None:
    # Of weights that are rounded, another token may be best than of the reference.
    golden = json.loads((right / "golden.json").read_text())
    case, second = golden["cases"][-1], IDS[3]
    reach = (max(case["logits"]) - case["logits"][3]) / case["range"]
    assert case["best_token"] != second
    for share, allowed in ((1.01 * reach, True), (0.99 * reach, False)):
        folder = changed(right, tmp_path / str(allowed), best_token=second)
        golden = json.loads((folder / "golden.json").read_text())
        tolerance = {**golden["tolerance"], "max_abs_error": share}
        golden["token_tolerance"] = tolerance
        (folder / "golden.json").write_text(json.dumps(golden))
        tiny_decoder.sealed(folder, tiny_decoder.contract())
        if allowed:
            assert "2 of 3 best tokens equal" in verify(folder, tmp_path).text
        else:
            with pytest.raises(IngotError, match="golden prompt 2: wrong best token"):
                verify(folder, tmp_path)


def test_wrong_logits_are_refused_with_the_worst_token(
    right: Path, tmp_path: Path
) -> None:
    golden = json.loads((right / "golden.json").read_text())
    case = golden["cases"][-1]
    case["logits"][2] += 3e-4 * case["range"]
    bundle = changed(right, tmp_path / "bundle", logits=case["logits"])
    with pytest.raises(IngotError) as caught:
        verify(bundle, tmp_path)
    assert caught.value.message == "golden prompt 2: wrong logits on local-task"
    assert "worst at token 100: expected " in str(caught.value)


def test_a_difference_below_the_share_of_the_range_passes(
    right: Path, tmp_path: Path
) -> None:
    golden = json.loads((right / "golden.json").read_text())
    case = golden["cases"][-1]
    case["logits"][2] += 1e-4 * case["range"]
    verify(changed(right, tmp_path / "bundle", logits=case["logits"]), tmp_path)
