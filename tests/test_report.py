"""Test what the page and the graph show of builds, and that a browser can read them."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ingot.engine.actions import Action, Output
from ingot.engine.event_log import EventLog
from ingot.project import history
from ingot.report import action_graph, build_runs, page, plots
from ingot.report.action_graph import Ended
from ingot.report.build_runs import Build, Cell


def figures(**changed: Any) -> dict[str, Any]:
    level = {"worst": 2e-6, "tolerance": 1e-5, "rows": 8, "failed": 0}
    run = {
        "entry_point": "encode",
        "sizes": {"batch": 1, "seq": 16},
        "latency_ms": {"median": 2.0, "min": 1.0, "iqr": 1.0},
        "repetitions_ms": [1.0, 2.0, 3.0, 4.0, 5.0],
    }
    return {
        "passed": True,
        "check": {"component": level, "model": {**level, "worst": 1e-8}},
        "bench": [run],
        "sizes": {"vmfb": 1000, "irpa": 9000},
        **changed,
    }


def row(level: str, name: str, error: float | str, **changed: Any) -> dict[str, Any]:
    """One comparison of a check, as the history keeps it; of a tolerance of 1e-5."""
    passed = isinstance(error, float) and error <= 1e-5
    plain = {"level": level, "name": name, "error": error, "tolerance": 1e-5}
    return {**plain, "inputs": {"batch": 2}, "passed": passed, **changed}


COMPARED = [
    row("component", "add", 1e-8),
    row("component", "gelu", 0.0),
    row("block", "layer.0", 2e-6),
    row("block", "layer.1", 3e-2),
    row("block", "layer.1", 3e-3),
    row("model", "oracle", "inf"),
    row("tokens", "sentence 1", 1.0, tolerance=0.0),
]


def build(
    at_s: float, results: dict[str, Any], code: Any = 0, **hows: str
) -> dict[str, Any]:
    tasks = {name.replace("_", ":", 1): how for name, how in hows.items()}
    return {
        "schema": history.SCHEMA,
        "at": at_s,
        "words": ["build", "model=all"],
        "exit_code": code,
        "wall_s": 12.0,
        "counts": {"ran": len(tasks)},
        "actions": {task: {"how": how, "why": []} for task, how in tasks.items()},
        "results": results,
    }


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout of three builds: the second restored a benchmark, the third failed."""
    there = {"toy@there": {"sizes": {"vmfb": 1000}, "compared": COMPARED}}
    lines: list[Any] = [
        build(1e9, {"toy@here": figures()}, **{"bench_toy@here": "ran"}),
        build(2e9, {"toy@here": figures()}, **{"bench_toy@here": "restored"}),
        "a torn line",
        build(3e9, there, 1, **{"check_toy@there": "failed", "bench_toy@here": "ran"}),
    ]
    failed = lines[-1]["actions"]["check:toy@there"]
    failed |= {"why": ["flag added: <-O3>"], "message": "logits differ: 2 > 1"}
    place = tmp_path / history.FILE
    place.parent.mkdir(parents=True)
    place.write_text("\n".join(json.dumps(line) for line in lines) + '\n{"sch')
    return tmp_path


def test_history_is_read_back_without_its_torn_lines(root: Path) -> None:
    assert [found.at_s for found in build_runs.read(root)] == [1e9, 2e9, 3e9]


def cell(root: Path, target: str, *shared: str) -> Cell:
    """The toy model's cell; `shared` are tasks that it needs and others need too."""
    pair = f"toy@{target}"
    own = {f"{stage}:{pair}" for stage in ("compile", "check", "bench", "bundle")}
    return build_runs.cell(root, build_runs.read(root), pair, own | set(shared))


def add(root: Path, **hows: str) -> None:
    """Add a build that ended so, without results."""
    with (root / history.FILE).open("a", encoding="utf-8") as file:
        file.write(f"\n{json.dumps(build(4e9, {}, **hows))}\n")


def test_a_failure_is_that_of_all_who_need_the_task(root: Path) -> None:
    link = "link:toy@plain"
    add(root, **{"link_toy@plain": "failed", "bake_other@plain": "failed"})
    found = cell(root, "here", link)
    assert (found.status, list(found.failed), found.at_s) == ("failed", [link], 4e9)
    assert cell(root, "here").status == "passed"
    add(root, **{"link_toy@plain": "ran"})
    assert cell(root, "here", link).failed == {}


def test_an_artifact_that_was_not_checked_has_not_passed(tmp_path: Path) -> None:
    folder = tmp_path / "build/toy/here"
    folder.mkdir(parents=True)
    (folder / "check.json").write_text('{"passed": true}')
    (folder / "model.vmfb").write_bytes(b"x" * 10)
    journal = EventLog(tmp_path, ["compile"])
    seen = []
    for ends in ({}, {"check": "failed"}, {"check": "up to date"}):
        journal.ends = {f"{stage}:toy@here": how for stage, how in ends.items()}
        journal.ends["compile:toy@here"] = "ran"
        history.add(journal, 0, 1.0)
        seen.append(build_runs.read(tmp_path)[-1].results["toy@here"])
    assert [sorted(found) for found in seen] == [
        ["sizes"],
        ["sizes"],
        ["check", "passed", "sizes"],
    ]
    assert Cell("toy@here", seen[0]).status == "built"


def test_a_cell_is_the_newest_that_is_known(root: Path) -> None:
    here, there = (cell(root, name) for name in ("here", "there"))
    assert (here.status, here.at_s) == ("passed", 2e9)
    assert here.margin == pytest.approx(0.2)
    assert (there.status, there.failed) == (
        *("failed", {"check:toy@there": "logits differ: 2 > 1"}),
    )
    assert cell(root, "nowhere").status == "none"
    assert Cell("a@b", {"sizes": {"vmfb": 1}}).status == "built"
    assert Cell("a@b", figures(passed=False)).status == "failed"


def test_a_restored_benchmark_is_no_new_measurement(root: Path) -> None:
    series = build_runs.benchmarks(build_runs.read(root))
    ((key, points),) = series.items()
    assert key == ("toy@here", "encode batch 1 seq 16")
    assert [(p.at_s, p.low_ms, p.median_ms, p.high_ms) for p in points] == [
        (1e9, 2.0, 3.0, 4.0)
    ]


def written(root: Path) -> str:
    found = build_runs.read(root)
    names = ("here", "there", "nowhere")
    cells = {("toy", name): cell(root, name) for name in names}
    return page.page(["toy"], names, cells, found, build_runs.benchmarks(found))


def test_the_page_needs_no_other_file(root: Path) -> None:
    text = written(root).replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?://|<script|<link|<img|@import|url\(| src=", text)
    assert '<meta name="viewport" content="width=device-width' in text
    assert "prefers-color-scheme: dark" in text


def test_the_page_says_what_failed_and_why(root: Path) -> None:
    text = written(root)
    assert "<h1>1 failed; 1 passed</h1>" in text
    assert '<td class="failed" data-target="there"><b>✗ failed</b>' in text
    assert '<td class="passed" data-target="here"><b>✓ passed</b>' in text
    assert "error 0.2 of tolerance" in text
    assert "<b>check:toy@there</b></p><pre>logits differ: 2 &gt; 1</pre>" in text
    assert "check:toy@there: failed<br><span class=dim>flag added: &lt;-O3&gt;" in text


def test_every_picture_is_well_formed_and_within_its_frame(root: Path) -> None:
    pictures = re.findall(r"<svg.*?</svg>", written(root), re.DOTALL)
    assert len(pictures) == 5
    for picture in pictures:
        tree = ET.fromstring(picture)
        width, height = (float(n) for n in tree.attrib["viewBox"].split()[2:])
        for item in tree.iter():
            x = float(item.get("x", item.get("cx", "0")))
            y = float(item.get("y", item.get("cy", "0")))
            wide, high = (float(item.get(k, "0")) for k in ("width", "height"))
            if not item.tag.endswith("svg"):
                assert 0 <= x <= x + wide <= width + 1, picture
                assert 0 <= y <= y + high <= height + 1, picture


def test_the_page_says_which_weights_are_synthetic(root: Path) -> None:
    found = build_runs.read(root)
    cells = {("toy", "here"): replace(cell(root, "here"), weights="synthetic weights")}
    text = page.page(["toy"], ["here"], cells, found, build_runs.benchmarks(found))
    assert "<th>toy<small>synthetic weights</small></th>" in text
    assert "toy@here, synthetic weights" in text
    assert "synthetic" not in written(root)


def test_a_page_without_builds_says_so(tmp_path: Path) -> None:
    cells = {("toy", "here"): cell(tmp_path, "here")}
    text = page.page(["toy"], ["here"], cells, (), {})
    assert "<h1>no build yet</h1>" in text
    assert "<svg" not in text


def test_a_single_benchmark_has_its_band_too() -> None:
    one = plots.benchmark("encode", [build_runs.Point(0.0, 1.0, 2.0, 4.0)])
    assert 'class="band"' in one
    assert "2 ms, half of the repetitions 1 ms to 4 ms" in one


def test_an_axis_has_round_numbers_and_does_not_magnify_noise() -> None:
    assert plots.axis([2.1, 5.9]) == [2.0, 4.0, 6.0]
    assert plots.axis([100.0, 101.0]) == [80.0, 90.0, 100.0, 110.0]
    assert plots.axis([0.0, 0.0]) == [0.0, 1.0]
    assert all(2 <= len(plots.axis([low, 9.0])) <= 6 for low in (0.0, 1.0, 5.0, 8.9))


def test_times_and_days_are_said_in_their_unit() -> None:
    said = [plots.say_ms(value) for value in (0.0125, 1.5, 250.0, 2500.0)]
    assert said == ["12 µs", "1.5 ms", "250 ms", "2.5 s"]


def test_figures_come_from_the_reports_of_the_build(tmp_path: Path) -> None:
    folder = tmp_path / "build/toy/here"
    folder.mkdir(parents=True)
    level = {"max_abs_error": 1e-6, "tolerance": 1e-5, "rows": 3, "failed": 0}
    check = {"passed": True, "levels": {"block": level}, "quality": None}
    check["judge"] = "no independent judge"
    (folder / "check.json").write_text(json.dumps(check))
    (folder / "model.vmfb").write_bytes(b"x" * 10)
    (folder / "bench.json").write_text("damaged")
    assert history.figures(tmp_path, "toy", "here") == {
        "sizes": {"vmfb": 10},
        "passed": True,
        "judge": "no independent judge",
        "check": {"block": {"worst": 1e-6, "tolerance": 1e-5, "rows": 3, "failed": 0}},
    }


def action(task: str, *needed: str) -> Action:
    inputs = tuple((name, Output(name, "out")) for name in needed)
    return Action(task, ("true",), inputs, ("out",))


def test_the_graph_has_sources_at_the_left_and_every_edge() -> None:
    above = {"a": [], "b": [], "c": ["b"], "d": ["a"], "e": ["a", "c"]}
    assert action_graph.ordered(above) == [["a", "b"], ["d", "c"], ["e"]]
    plan = tuple(action(task, *needed) for task, needed in above.items())
    ended = {"a": Ended("ran", 1500.0), "b": Ended("restored", 20.0)}
    text = action_graph.picture("toy <1>", plan, ended)
    tree = ET.fromstring(text)
    paths = [item for item in tree.iter() if item.tag.endswith("path")]
    assert len(paths) == 4
    words = [item.text for item in tree.iter() if item.tag.endswith("text")]
    assert words[0] == "toy <1>"
    assert {"ran, 1.5 s", "restored, 0.0 s", "not built here"} <= set(words)
    assert "prefers-color-scheme" in text
    # Viewers of files know no variables: all would be black.
    assert "var(" not in text


def test_the_page_of_a_build_names_its_words() -> None:
    found = Build(0.0, ("build", "a&b"), 1, 2.5, {"ran": 3}, {}, {})
    text = page.page([], [], {}, [found], {})
    assert "<code>doit build a&amp;b</code>" in text
    assert "ended with 1 after 2.5 s: 3 ran" in text


@pytest.mark.parametrize(
    ("reasons", "told"),
    [
        (["it follows link:m"], "1, because of the above"),
        (["it has not run in this checkout", "it follows link:m"], "1, because of"),
        (["it has not run in this checkout"], "1, 1 changed directly"),
        (["flag added: -O3", "it follows link:m"], "1, 1 changed directly"),
    ],
    ids=["follows", "never", "first", "both"],
)
def test_the_page_counts_what_changed_itself(reasons: list[str], told: str) -> None:
    done = {"compile:m@t": {"how": "ran", "why": reasons}}
    found = Build(0.0, ("build",), 0, 2.5, {"ran": 1}, done, {})
    assert told in page.page([], [], {}, [found], {})


def test_the_report_says_what_rounding_costs_and_that_no_judge_is_independent() -> None:
    quality = {"perplexity_ratio": 1.16, "kl": 0.451}
    judged = figures(judge="transformers 5.23.0", quality=quality)
    alone = figures(judge="no independent judge")
    cells = {
        ("a", "here"): Cell("a@here", judged),
        ("b", "here"): Cell("b@here", alone),
    }
    text = page.page(["a", "b"], ["here"], cells, [], {})
    assert "0.2 of tolerance; perplexity 1.16 times f32&#x27;s; KL 0.451<" in text
    assert "0.2 of tolerance; no independent judge<" in text
