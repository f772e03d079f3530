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
from ingot.programs.compare_entry_point.spec import ROWS
from ingot.project.catalogue import read
from ingot.stages.check import plan_check, plan_check_inputs
from tests.tiny_model import BLOCKS, ROOT, Tiny, lay_out, run_stage


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
    *pieces, check = actions
    assert check.task == f"check:{name}"
    assert check.outputs == ("check.json", "check.txt")
    wanted = [source for _, source in check.inputs if isinstance(source, Output)]
    tasks = [action.task for action in pieces]
    tasks.append("check-tokenizer:all-minilm-l6-v2")
    assert wanted == [Output(task, ROWS) for task in tasks]
    by_task = {action.task: dict(action.inputs) for action in pieces}
    entry_point = by_task[f"check-entry-point-encode:{name}"]
    assert {"golden.npz", "tokenizer.json", "oracles/linear.py"} <= entry_point.keys()
    assert entry_point["model.vmfb"] == Output(f"compile:{name}", "model.vmfb")
    recorded = plan_check_inputs(manifest, False, ROOT)
    component = by_task[f"check-component-normalization.layer_norm:{name}"]
    compiled = f"compile-component-normalization.layer_norm:{name}"
    assert Output(compiled, "piece.vmfb") in component.values()
    # Another component, its oracle, a golden file or the shipped module changes: it
    # is not compared again.
    assert [path for path in component if path.startswith("oracles/")] == [
        "oracles/__init__.py",
        "oracles/normalization.py",
    ]
    for task, inputs in by_task.items():
        if "entry-point" in task:
            continue
        assert not {"golden.npz", "tokenizer.json", "model.vmfb"} & inputs.keys()
        made = [x for x in inputs.values() if isinstance(x, Output)]
        own = {source.path for source in made if source.task == recorded.task}
        assert own
        assert own <= set(recorded.outputs)
    assert actions == tuple(plan_check(manifest, target, ROOT))


def test_an_edit_of_a_component_concerns_the_pieces_that_use_it() -> None:
    model = "all-minilm-l6-v2"
    found = read(ROOT, (model,)).plan
    shipped = found.needed([f"bundle:{model}@x86_64"])
    changed = "specialize:gelu_erf__n_ff_1536"
    own = {task for task in shipped if changed in found.needed([task])}
    links = "link link-component-activation.gelu_erf link-block-encode.layer"
    compiles = (
        "compile-configured compile compile-component-activation.gelu_erf "
        "compile-block-encode.layer"
    )
    checks = (
        "check-component-activation.gelu_erf check-block-encode.layer "
        "check-chain-encode check-entry-point-encode check"
    )
    assert own == {
        changed,
        *(f"{task}:{model}@packed_n8" for task in links.split()),
        *(f"{task}:{model}@x86_64" for task in f"{compiles} {checks}".split()),
        *(f"{task}:{model}@x86_64" for task in ("bench", "bundle")),
    }


FORMS = [["first", [["encode", "counting"]]], ["second", [["encode", "scaling"]]]]
LEVELS = (
    ("propagated", ["chain.encode.npz"]),
    ("block", ["block.first.npz"]),
    ("block", ["block.second.npz"]),
    ("component", ["component.count__n_vocab_30522.npz"]),
    ("component", ["component.scale__n_2.npz"]),
)
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
    """Compare all pieces and report the result, as the actions of a build do."""
    judged = {name: spec[name] for name in ("task", "model", "target")}
    recorded = {"task": spec["task"], "emulated": False, "forms": FORMS}
    stages = [("check_inputs", recorded)]
    whole = {name: value for name, value in spec.items() if name not in judged}
    whole |= {"task": spec["task"], "entry_point": "encode"}
    stages.append(("compare_entry_point", whole))
    common = {name: spec[name] for name in ("task", "runner", "scope")}
    for level, files in LEVELS:
        own = {
            "level": level,
            "inputs": files,
            "modules": dict.fromkeys(
                ("", "counting", "scaling"),
                "components.vmfb" if level == "component" else "blocks.vmfb",
            ),
            "tolerance": spec["tolerances"][level],
        }
        stages.append(("compare_piece", {**common, "comparisons": [own]}))
    judged |= {"pieces": [], "judge": None, "is_rounded": False}
    judged |= {"unmeasured": None, "gates": {}}
    judged |= {"has_tokenizer": True, "is_quantised": False}
    for stage, specification in stages:
        code, printed = run_stage(folder, stage, specification)
        if code != 0:
            return code, printed
        if stage != "check_inputs":
            judged["pieces"].append(f"{len(judged['pieces'])}.json")
            (folder / "rows.json").rename(folder / judged["pieces"][-1])
    judged |= {name: spec["runner"][name] for name in ("device", "emulated")}
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
    lay_out(tmp_path, Tiny(piece_factor="1.01"))
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
    blocks = BLOCKS.replace("block.encode.scaling", "block.other")
    lay_out(tmp_path, Tiny(blocks=blocks))
    code, printed = run_check(tmp_path, specification())
    assert code == 1
    assert "check tiny@here: @block.encode.scaling of blocks.vmfb does not" in printed
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
