"""Test what a build records: its log, its profile and its line of history."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingot.engine import event_log, json_lines
from ingot.engine.event_log import EventLog, Span, chrome_trace
from ingot.project import history
from tests.project import TOY, Project, Run, builds, edit
from tests.trace_format import defects

pytestmark = builds(TOY)

TASK = "specialize:add__n_embd_32"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project in which two actions ran, and then had nothing to do."""
    base = tmp_path_factory.mktemp("built")
    project = Project.create(base / "checkout", base / "cache")
    run = project.doit(TASK, "specialize:gelu_erf__n_ff_64")
    assert set(run.done.values()) == {"ran"}, run.out + run.err
    assert project.doit(TASK, "specialize:gelu_erf__n_ff_64").done == {}
    return project


@pytest.fixture
def other(built: Project, tmp_path: Path) -> Iterator[Project]:
    """A second checkout that shares the store."""
    yield Project.create(tmp_path / "other", built.cache)
    shutil.rmtree(tmp_path / "other")


def logs(project: Project) -> list[list[dict[str, Any]]]:
    """The events of each build, oldest first."""
    folders = sorted((project.root / event_log.FOLDER).iterdir())
    return [list(json_lines.read(folder / "events.jsonl")) for folder in folders]


def test_a_build_is_logged_event_by_event(built: Project) -> None:
    first, _ = logs(built)
    kinds = [event["event"] for event in first]
    assert kinds[0] == "build started"
    assert kinds[-1] == "build ended"
    about = [event for event in first if event.get("task") == TASK]
    assert [event["event"] for event in about] == [
        *("action stale", "action started", "action ended")
    ]
    assert about[0]["reasons"] == [
        "it has not run in this checkout, or its last run did not end"
    ]
    assert about[2]["how"] == "ran"
    assert first[-1]["counts"] == {"ran": 2}
    assert first[-1]["exit_code"] == 0
    times = [event["at_ms"] for event in first]
    assert times == sorted(times)


def test_a_build_with_nothing_to_do_is_logged_in_three_lines(built: Project) -> None:
    _, second = logs(built)
    assert [event["event"] for event in second] == [
        *("build started", "up to date", "build ended")
    ]
    assert TASK in second[1]["tasks"]


def test_the_profile_has_each_phase_within_its_action(built: Project) -> None:
    folder = min((built.root / event_log.FOLDER).iterdir())
    profile = json.loads((folder / "profile.json").read_text())
    spans = [event for event in profile["traceEvents"] if event["ph"] == "X"]
    whole = next(event for event in spans if event["name"] == TASK)
    assert (whole["cat"], whole["args"]["how"]) == ("specialize", "ran")
    phases = [e for e in spans if e["args"]["task"] == TASK and e is not whole]
    assert {event["name"] for event in phases} == {
        *("key", "look up", "stage inputs", "run", "store outputs", "export")
    }
    for event in phases:
        assert event["tid"] == whole["tid"]
        assert whole["ts"] <= event["ts"]
        assert event["ts"] + event["dur"] <= whole["ts"] + whole["dur"]


def whole(project: Project) -> list[tuple[str, str]]:
    """Actions and how they ended, of the last build's profile; it is well formed."""
    folder = max((project.root / event_log.FOLDER).iterdir())
    profile = json.loads((folder / "profile.json").read_text())
    assert defects(profile) == []
    spans = [event for event in profile["traceEvents"] if event["ph"] == "X"]
    return sorted(
        (event["name"], event["args"]["how"])
        for event in spans
        if event["name"] == event["args"]["task"]
    )


def ended(events: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Actions and how they ended, of a build's log."""
    kind = "action ended"
    return sorted((e["task"], e["how"]) for e in events if e["event"] == kind)


def test_phases_nest_whatever_the_clock_says() -> None:
    rng = np.random.default_rng(3)
    spans = []
    for number in range(200):
        ends = sorted(rng.uniform(number, number + 1, 6).tolist())
        spans.append(Span("bake:m@t", "action", ends[0], ends[-1], thread=1))
        spans += [Span("bake:m@t", "run", a, b, thread=1) for a, b in pairwise(ends)]
    assert defects(chrome_trace(spans, 0.0, {})) == []
    crossed = [
        Span("bake:m@t", "action", 0.0, 1.0, thread=1),
        Span("bake:m@t", "run", 0.5, 1.000001, thread=1),
    ]
    (defect,) = defects(chrome_trace(crossed, 0.0, {}))
    assert defect.startswith("it ends after what it is in")
    (defect,) = defects(
        chrome_trace([Span("bake:m@t", "action", 1.0, 0.0, 1)], 0.0, {})
    )
    assert defect.startswith("dur is no such thing")


def test_history_has_a_line_for_a_build_that_did_something(built: Project) -> None:
    (line,) = json_lines.read(built.root / "build/.ingot/history.jsonl")
    assert line["counts"] == {"ran": 2}
    assert line["actions"][TASK]["how"] == "ran"


def test_the_store_counts_what_builds_found(built: Project) -> None:
    run = built.doit("store")
    assert run.code == 0, run.err
    assert "specialize" in run.out
    assert re.search(
        r"0 restored, 2 ran in 2 builds \(2 more were up to date\)", run.out
    )
    assert built.doit("store", "verify").out.rstrip().endswith("0 corrupt")
    wrong = built.doit("store", "verfy")
    assert wrong.code == 3
    assert "store takes nothing or 'verify', found 'verfy'" in wrong.err


def test_gc_needs_a_limit_and_does_not_remove_recent_results(built: Project) -> None:
    run = built.doit("gc", "limit=1")
    assert run.code == 0, run.err
    assert "removed 0 results and 0 blobs" in run.out
    assert "above the limit: in use, or used within the last 1 h" in run.out
    assert "limit=: expected a size, found 'much'" in built.doit("gc", "limit=much").err
    none = built.doit("gc", "limit=none")
    assert none.code == 3
    assert "gc: no limit is set" in none.err


def test_a_failed_action_and_its_output_are_logged(other: Project) -> None:
    component = other.root / "components/elementwise/add.mlir"
    edit(component, "arith.addf", "arith.nothing")
    assert other.doit(TASK).code == 1
    (events,) = logs(other)
    failed = next(event for event in events if event.get("how") == "failed")
    assert "arith.nothing" in failed["message"]
    assert events[-1]["exit_code"] == 1
    (line,) = json_lines.read(other.root / "build/.ingot/history.jsonl")
    assert line["actions"][TASK]["how"] == "failed"
    assert "arith.nothing" in line["actions"][TASK]["message"]
    assert len(line["actions"][TASK]["message"].splitlines()) <= history.MOST_LINES


def test_a_build_that_continues_after_a_failure_exits_with_its_code(
    other: Project,
) -> None:
    edit(other.root / "components/elementwise/add.mlir", "arith.addf", "arith.nothing")
    run = other.doit("-c", "specialize")
    assert run.done[TASK] == "FAILED"
    told = ended(logs(other)[-1])
    assert whole(other) == told
    assert dict(told) == {task: how.lower() for task, how in run.done.items()}
    assert {how for _, how in told} == {"ran", "restored", "failed"}
    assert "not tried: specialize" in run.err
    assert (run.code, logs(other)[-1][-1]["exit_code"]) == (1, 1)
    assert other.doit("specialize").code == 1


def test_why_lists_the_results_that_the_store_would_restore(other: Project) -> None:
    run = other.doit("why", TASK)
    assert run.out == (
        f"{TASK} would be restored: the store has its result\n"
        "nothing would run: 0 actions are up to date, 1 would be restored\n"
    )


def test_why_compares_with_the_results_of_another_checkout(other: Project) -> None:
    edit(other.root / "components/elementwise/add.mlir", "arith.addf", "arith.mulf")
    lines = why(other.doit("why", TASK))
    assert lines[0] == "it has not run in this checkout, or its last run did not end"
    assert re.match(
        r"against its last result in the store, \w{12}, last used", lines[1]
    )
    what = r"input components/elementwise/add.mlir: \w{12} -> \w{12}"
    assert re.fullmatch(what, lines[2])
    assert len(lines) == 3


def why(run: Run) -> list[str]:
    """The reasons for the one task."""
    head, *lines = run.out.splitlines()
    assert head == f"{TASK} would run:", run.out + run.err
    return [line.strip() for line in lines]


def test_a_profile_has_a_row_for_each_thread() -> None:
    spans = [
        Span("bake:m@t", "run", 11.0, 12.0, thread=77),
        Span("bake:m@t", "action", 10.5, 12.5, thread=77),
        Span("link:m@t", "action", 10.0, 13.0, thread=78),
    ]
    events = chrome_trace(spans, 10.0, {"bake:m@t": "ran"})["traceEvents"]
    assert [event["args"]["name"] for event in events if event["ph"] == "M"] == [
        *("ingot build", "worker 1", "worker 2")
    ]
    told = [(e["name"], e["tid"], e["ts"], e["dur"]) for e in events if e["ph"] == "X"]
    assert told == [
        ("link:m@t", 2, 0, 3_000_000),
        ("bake:m@t", 1, 500_000, 2_000_000),
        ("run", 1, 1_000_000, 1_000_000),
    ]


def test_logs_of_old_builds_are_deleted(tmp_path: Path) -> None:
    for number in range(event_log.N_KEPT + 5):
        (tmp_path / event_log.FOLDER / f"20200101T0000{number:02}Z-1").mkdir(
            parents=True
        )
    EventLog(tmp_path, ["build"]).finish(0)
    left = sorted((tmp_path / event_log.FOLDER).iterdir())
    assert len(left) == event_log.N_KEPT
    assert left[0].name == "20200101T000006Z-1"
    assert (left[-1] / "profile.json").exists()


def test_a_build_continues_if_no_log_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "build").write_text("in the way")
    log = EventLog(tmp_path, ["build"])
    log.ended("a:b", "ran")
    log.finish(0)
    assert log.counts == {"ran": 1}
