from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingot.engine.machine import machine
from ingot.errors import IngotError
from ingot.model.manifest import read_manifest
from ingot.model.target import read_target
from ingot.programs.bench.main import input_flags, measured, quartiles, report_text
from ingot.programs.bench.spec import BenchCase
from ingot.stages.bench import plan_bench
from tests.tiny_model import ROOT, Tiny, lay_out, run_stage
from tests.toy_decoder import read


def repetition(real_time: float, **changes: Any) -> dict[str, Any]:
    return {
        "run_type": "iteration",
        "real_time": real_time,
        "cpu_time": 2 * real_time,
        "time_unit": "ms",
        "iterations": 7,
        **changes,
    }


def test_times_are_median_minimum_and_spread() -> None:
    found = measured([repetition(x) for x in (4.0, 1.0, 3.0, 2.0, 90.0)], {"seq": 6})
    assert found["latency_ms"] == {"median": 3.0, "min": 1.0, "iqr": 2.0}
    assert found["cpu_ms"] == 6.0
    assert found["tokens_per_s"] == 2000.0
    assert found["repetitions_ms"] == [4.0, 1.0, 3.0, 2.0, 90.0]


def test_aggregates_of_the_tool_are_no_repetitions() -> None:
    aggregate = repetition(99.0, run_type="aggregate")
    assert measured([repetition(1.0), aggregate], {})["repetitions_ms"] == [1.0]


@pytest.mark.parametrize(("unit", "scale"), [("ns", 1e-6), ("us", 1e-3), ("s", 1e3)])
def test_every_unit_becomes_milliseconds(unit: str, scale: float) -> None:
    found = measured([repetition(5.0, time_unit=unit)], {})
    assert found["latency_ms"]["min"] == pytest.approx(5.0 * scale, abs=1e-4)


def test_a_failed_repetition_is_an_error() -> None:
    failed = repetition(0.0, error_occurred=True, error_message="OUT_OF_RANGE")
    with pytest.raises(IngotError) as caught:
        measured([repetition(1.0), failed], {})
    assert str(caught.value) == "iree-benchmark-module failed: OUT_OF_RANGE"


def test_no_repetition_is_an_error() -> None:
    with pytest.raises(IngotError, match="it ran no repetition"):
        measured([], {})


def test_a_single_time_has_no_spread() -> None:
    assert quartiles([5.0]) == (5.0, 5.0, 5.0)


def test_the_plan_is_exclusive_and_keyed_by_the_machine() -> None:
    manifest = read_manifest(ROOT / "models/all-minilm-l6-v2.yaml", ROOT)
    target = read_target(ROOT / "targets/x86_64.yaml", ROOT)
    action = plan_bench(manifest, target)
    assert action.task == "bench:all-minilm-l6-v2@x86_64"
    assert action.exclusive
    assert action.platform == machine()
    assert {name for name, _ in machine()} == {"cpu", "cores", "memory"}
    # An oracle or a golden file changes no time.
    assert not any(path.startswith("oracles/") for path, _ in action.inputs)


def specification(emulated: bool) -> dict[str, Any]:
    return {
        "task": "bench tiny@here",
        "model": "tiny",
        "target": "here",
        "weights": "synthetic weights" if emulated else "",
        "machine": {"cpu": "a processor", "cores": "2", "memory": "4 GiB"},
        "runner": {
            "device": "local-task",
            "prefix": [],
            "runtime": "iree-base-runtime",
            "env": [],
            "emulated": emulated,
        },
        "scope": "model",
        "cases": [
            {"entry_point": "encode", "sizes": {"batch": 1, "seq": 4}},
            {"entry_point": "encode", "sizes": {"batch": 4, "seq": 16}},
        ],
    }


def test_an_emulated_time_is_marked_and_only_the_shortest_is_taken(
    tmp_path: Path,
) -> None:
    lay_out(tmp_path, Tiny())
    code, printed = run_stage(tmp_path, "bench", specification(emulated=True))
    assert code == 0, printed
    report = json.loads((tmp_path / "bench.json").read_text())
    assert report["emulated"]
    assert [run["sizes"] for run in report["runs"]] == [{"batch": 1, "seq": 4}]
    assert report["skipped"][0]["reason"] == "emulated, and more than 16 tokens"
    assert len(report["runs"][0]["repetitions_ms"]) == 3
    assert printed.startswith(
        "bench tiny@here: EMULATED, says nothing about the device; synthetic weights; "
    )
    assert report_text("bench tiny@here", report) + "\n" == printed


def test_a_native_time_has_ten_repetitions(tmp_path: Path) -> None:
    lay_out(tmp_path, Tiny())
    code, printed = run_stage(tmp_path, "bench", specification(emulated=False))
    assert code == 0, printed
    report = json.loads((tmp_path / "bench.json").read_text())
    assert not report["emulated"]
    assert report["threads"] >= 1
    assert [len(run["repetitions_ms"]) for run in report["runs"]] == [10, 10]
    assert report["machine"]["cpu"] == "a processor"


def test_an_entry_point_that_fails_is_an_error(tmp_path: Path) -> None:
    lay_out(tmp_path, Tiny())
    spec = specification(emulated=True)
    (tmp_path / "model.irpa").write_bytes(b"no archive")
    code, printed = run_stage(tmp_path, "bench", spec)
    assert code == 1
    assert printed.startswith("bench tiny@here: iree-benchmark-module failed with exit")


def test_a_decoder_is_timed_at_the_end_of_its_cache(tmp_path: Path) -> None:
    graph = read(tmp_path / "toy-decoder")
    case = BenchCase("decode", {"batch": 2, "ctx": 7})
    flags = input_flags(graph, case, tmp_path)
    tokens, start, cache_k, cache_v = (
        np.load(flag.removeprefix("--input=@")) for flag in flags
    )
    assert tokens.shape == (2, 1)
    assert start[0] == 6
    assert cache_k.shape == cache_v.shape == (3, 2, 7, 8)
