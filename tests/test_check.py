from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from ingot.checks.golden_files import GoldenSentences
from ingot.checks.golden_sentences import choose
from ingot.engine.actions import Output
from ingot.model.manifest import read_manifest
from ingot.model.target import read_target
from ingot.programs.compare.spec import ROWS
from ingot.stages.check import PARTS, plan_check
from tests.tiny_model import PROBE, ROOT, Tiny, lay_out, run_stage


def test_an_emulated_target_keeps_32_sentences_alone_and_a_padded_batch() -> None:
    lengths = [2 + index % 50 for index in range(40)]
    golden = GoldenSentences(
        sentences=("",) * 40,
        tokens=tuple((0,) * length for length in lengths),
        embedding=None,
        batched=None,
        batch=8,
    )
    alone, groups = choose(golden, emulated=True)
    assert len(alone) == 32
    assert groups
    assert all(len(group) == 8 for group in groups)
    alone, groups = choose(golden, emulated=False)
    assert (len(alone), len(groups)) == (40, 5)


def test_the_plan_starts_nothing_and_tells_all_that_the_check_reads() -> None:
    manifest = read_manifest(ROOT / "models/all-minilm-l6-v2.yaml", ROOT)
    target = read_target(ROOT / "targets/x86_64.yaml", ROOT)
    actions = tuple(plan_check(manifest, target, ROOT))
    name = "all-minilm-l6-v2@x86_64"
    components, blocks, entry_points, check = actions
    assert [action.task for action in actions] == [
        f"check-components:{name}",
        f"check-blocks:{name}",
        f"check-entry-points:{name}",
        f"check:{name}",
    ]
    assert check.outputs == ("check.json", "check.txt")
    assert entry_points.outputs == ("rows.json", "golden.json")
    for action in (components, blocks):
        inputs = dict(action.inputs)
        assert inputs["probe.vmfb"] == Output(f"compile-probe:{name}", "probe.vmfb")
        assert "oracles/linear.py" in inputs
        # A changed golden file or shipped module compares no part of it again.
        assert not {"golden.npz", "tokenizer.json", "model.vmfb"} & inputs.keys()
    inputs = dict(entry_points.inputs)
    assert {"golden.npz", "tokenizer.json", "oracles/linear.py"} <= inputs.keys()
    assert "probe.vmfb" not in inputs
    assert dict(check.inputs)["blocks.json"] == Output(f"check-blocks:{name}", ROWS)
    assert actions == tuple(plan_check(manifest, target, ROOT))


LIMITS = {"max_abs_error": 1e-4, "min_cosine": None, "of_range": False}


def specification(**changes: Any) -> dict[str, Any]:
    tolerance = {
        "max_abs_error": 1e-4,
        "min_cosine": None,
        "of_range": False,
        "source": "targets/t.yaml:3",
    }
    levels = ("component", "block", "propagated", "model", "golden")
    return {
        "task": "check tiny@here",
        "model": "tiny",
        "target": "here",
        "runner": {
            "device": "local-sync",
            "prefix": [],
            "runtime": "iree-base-runtime",
            "env": [],
            "emulated": False,
        },
        "scope": "model",
        "tolerances": dict.fromkeys(levels, tolerance),
        "golden": "golden.npz",
        "tokenizer": "tokenizer.json",
        "n_vocab": 30522,
        **changes,
    }


def run_check(folder: Path, spec: dict[str, Any]) -> tuple[int, str]:
    """Compare all parts and report the result, as the actions of a build do."""
    judged = {name: spec[name] for name in ("task", "model", "target")}
    compared = {name: value for name, value in spec.items() if name not in judged}
    compared["task"] = spec["task"]
    for part in PARTS:
        code, printed = run_stage(folder, "compare", {**compared, "part": part})
        if code != 0:
            return code, printed
        (folder / "rows.json").rename(folder / f"{part}.json")
    judged |= {name: spec["runner"][name] for name in ("device", "emulated")}
    judged["parts"] = [f"{part}.json" for part in PARTS]
    return run_stage(folder, "check", judged)


def test_a_right_model_passes_at_every_level(tmp_path: Path) -> None:
    lay_out(tmp_path, Tiny())
    code, printed = run_check(tmp_path, specification())
    assert code == 0, printed
    report = json.loads((tmp_path / "check.json").read_text())
    assert report["passed"]
    assert list(report["levels"]) == [
        "block",
        "component",
        "golden",
        "model",
        "propagated",
        "tokens",
    ]
    assert report["levels"]["golden"]["rows"] == 3 + 2
    assert report["levels"]["tokens"]["rows"] == 3
    assert (tmp_path / "check.txt").read_text() == printed


def test_the_check_keeps_a_few_sentences_that_the_model_was_right_about(
    tmp_path: Path,
) -> None:
    lay_out(tmp_path, Tiny())
    kept = json.loads((tmp_path / "golden.json").read_text())
    assert run_check(tmp_path, specification())[0] == 0
    golden = json.loads((tmp_path / "golden.json").read_text())
    assert golden["judge"] == "golden file"
    assert golden["tolerance"] == LIMITS
    for case, other in zip(golden["cases"], kept["cases"], strict=True):
        assert case["tokens"] == other["tokens"]
        np.testing.assert_allclose(case["embedding"], other["embedding"], rtol=1e-6)


def test_without_a_golden_file_the_oracle_judges_sentences(tmp_path: Path) -> None:
    lay_out(tmp_path, Tiny())
    spec = specification(golden=None)
    # What rounded weights cost is none of the oracle's: it has them as they are.
    loose = {**spec["tolerances"]["golden"], "max_abs_error": 0.4}
    spec["tolerances"]["golden"] = loose
    code, printed = run_check(tmp_path, spec)
    assert code == 0, printed
    golden = json.loads((tmp_path / "golden.json").read_text())
    assert golden["judge"] == "oracle"
    assert golden["tolerance"] == LIMITS
    assert len(golden["cases"]) == 3
    report = json.loads((tmp_path / "check.json").read_text())
    assert "golden" not in report["levels"]
    names = [row["name"] for row in report["rows"] if row["level"] == "model"]
    assert {"sentence 0", "sentence 1", "sentence 2"} < set(names)


def test_without_a_tokenizer_no_sentence_is_judged(tmp_path: Path) -> None:
    lay_out(tmp_path, Tiny())
    spec = specification(golden=None, tokenizer=None)
    assert run_check(tmp_path, spec)[0] == 0
    assert json.loads((tmp_path / "golden.json").read_text())["cases"] == []


def test_a_wrong_component_fails_and_names_the_first_wrong_block(
    tmp_path: Path,
) -> None:
    lay_out(tmp_path, Tiny(probe_factor="1.01"))
    code, printed = run_check(tmp_path, specification())
    assert code == 1
    assert "check tiny@here encode: y differs from the oracle\n" in printed
    assert "  first wrong block: scaling\n" in printed
    assert "(targets/t.yaml:3)" in printed
    report = json.loads((tmp_path / "check.json").read_text())
    failed = {level for level, item in report["levels"].items() if item["failed"]}
    assert failed == {"component", "block", "propagated"}


def test_a_wrong_model_of_right_parts_fails(tmp_path: Path) -> None:
    lay_out(tmp_path, Tiny(model_factor="1.01"))
    code, printed = run_check(tmp_path, specification())
    assert code == 1
    report = json.loads((tmp_path / "check.json").read_text())
    failed = {level for level, item in report["levels"].items() if item["failed"]}
    assert failed == {"model", "golden"}
    assert "encode: embedding differs from the oracle" in printed


def test_nan_from_the_target_fails(tmp_path: Path) -> None:
    # 0x7FC00000 is a NaN of f32.
    lay_out(tmp_path, Tiny(model_factor="0x7FC00000"))
    code, printed = run_check(tmp_path, specification())
    assert code == 1
    assert "got nan, error inf > 1.0e-04 (targets/t.yaml:3)" in printed


def test_a_function_that_is_not_there_is_named(tmp_path: Path) -> None:
    probe = PROBE.replace("block.encode.scaling", "block.other")
    lay_out(tmp_path, Tiny(probe=probe))
    code, printed = run_check(tmp_path, specification())
    assert code == 1
    assert "check tiny@here: @block.encode.scaling of probe.vmfb does not" in printed
    assert "the module has no function of that name" in printed


def test_wrong_token_ids_fail(tmp_path: Path) -> None:
    lay_out(tmp_path, Tiny())
    path = tmp_path / "golden.npz"
    with np.load(path) as arrays:
        changed = dict(arrays)
    changed["tokens"][1] = 7
    np.savez(path, **changed)
    code, _ = run_check(tmp_path, specification())
    assert code == 1
    report = json.loads((tmp_path / "check.json").read_text())
    wrong = [item for item in report["rows"] if not item["passed"]]
    assert ("tokens", "sentence 0", [1]) in [
        (item["level"], item["name"], item["worst"]) for item in wrong
    ]
