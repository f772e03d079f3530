"""Test what the page shows of a failed check, and what counts as checked."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ingot.engine.event_log import EventLog
from ingot.project import history
from ingot.report import build_runs, error_growth, page
from ingot.report.build_runs import Cell
from tests.test_report import COMPARED, build, cell, root, row, written

__all__ = ["root"]  # a fixture


def test_a_failed_check_shows_where_its_error_comes_from(root: Path) -> None:
    (card,) = re.findall(r"Where the error comes from.*?</svg>", written(root), re.S)
    words = re.findall(r"<text[^>]*>([^<]*)<", card)
    assert words == [
        *("1/10000", "1/100", "tolerance", "100 times", "10000 times"),
        "component: 2 right",
        *("block: 2 of 3 wrong", "layer.0", "layer.1"),
        *("model: 1 of 1 wrong", "oracle", "tokens: 1 of 1 wrong", "sentence 1"),
    ]
    dots = re.findall(r'cx="([\d.]+)"[^>]*class="(\w+)[^>]*><title>([^<]*)<', card)
    limit = float(re.findall(r'd="M([\d.]+) [^"]*" class="limit"', card)[0])
    assert len(dots) == len(COMPARED)
    for x, kind, about in dots:
        assert (kind == "red") == (float(x) > limit), about
    places = {about: float(x) for x, _, about in dots}
    end = max(places.values())
    assert places["model oracle (batch 2): error inf, tolerance 1.0e-05"] == end
    assert (
        places["tokens sentence 1 (batch 2): error 1.0e+00, tolerance 0.0e+00"] == end
    )


def test_a_plot_of_a_failure_shows_the_worst_and_counts_the_rest() -> None:
    rows = [row("golden", f"sentence {n}", 1e-5 * n, passed=n < 20) for n in range(40)]
    found = Cell("toy@here", {"compared": rows}).comparisons
    words = re.findall(r"<text[^>]*>([^<]*)<", error_growth.origins(found))
    names = [f"sentence {n}" for n in range(32, 40)]
    assert words[-10:] == ["golden: 20 of 40 wrong", *names, "32 more"]
    odd = Cell("a@b", {"compared": [row("model", "x", 1e-9, passed=False)]})
    assert "the cosine is too low" in error_growth.origins(odd.comparisons)


def test_what_a_failed_check_compared_is_remembered(tmp_path: Path) -> None:
    folder = tmp_path / history.FAILED / "check-toy@here"
    folder.mkdir(parents=True)
    journal = EventLog(tmp_path, ["build"])
    journal.ends = {"check:toy@here": "failed"}
    seen = []
    report = {key: x for key, x in row("block", "b", "nan").items() if key != "error"}
    rows = [{**report, "max_abs_error": "nan", "worst": [0], "got": 1.0}]
    for text in ("", "torn", json.dumps({"passed": False, "rows": rows})):
        if text:
            (folder / "check.json").write_text(text)
        history.add(journal, 1, 1.0)
        seen.append(
            build_runs.cell(
                tmp_path, build_runs.read(tmp_path), "toy@here", {"check:x@y"}
            )
        )
    assert [found.comparisons for found in seen[:2]] == [[], []]
    (only,) = seen[2].comparisons
    assert (only.name, only.sizes, only.passed, only.ratio) == (
        *("b", "batch 2", False, float("inf")),
    )


def test_a_check_stands_until_something_of_it_is_made_anew(root: Path) -> None:
    seen = []
    for results, checked, hows in (
        ({"toy@here": {"sizes": {"vmfb": 1}}}, [], {"bench_toy@here": "ran"}),
        ({}, [], {"link_toy@plain": "ran"}),
        # The linked module came out as before: the check had nothing to do.
        ({}, ["toy@here"], {"link_toy@plain": "ran"}),
        ({"toy@here": {"sizes": {"vmfb": 2}}}, [], {"compile_toy@here": "ran"}),
    ):
        line = build(4e9, results, **hows) | {"checked": checked}
        with (root / history.FILE).open("a", encoding="utf-8") as file:
            file.write(f"\n{json.dumps(line)}\n")
        found = cell(root, "here", "link:toy@plain")
        seen.append((found.status, found.figures["sizes"]["vmfb"], found.margin))
    near = pytest.approx(0.2)
    assert seen == [
        ("passed", 1, near),
        ("changed", 1, None),
        ("passed", 1, near),
        ("changed", 2, None),
    ]


def test_what_is_only_compiled_is_never_called_passed() -> None:
    built = Cell("toy@here", {"sizes": {"vmfb": 1}}, unchecked="no weights to check")
    text = page.page(["toy"], ["here"], {("toy", "here"): built}, [], {})
    assert "<h1>1 compiled, not checked</h1>" in text
    assert "<b>compiled, not checked</b><small>no weights to check</small>" in text
    assert "passed</" not in text
    assert "error" not in text.partition("<body>")[2]
