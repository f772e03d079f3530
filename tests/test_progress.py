"""Test the progress bar of a build, and its estimate of the time left."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from ingot.cli.reporter import Reporter, time_left_s
from ingot.engine.event_log import EventLog, last_durations_s

TOOK_S = {"compile:a@x": 10.0, "compile:b@x": 20.0, "bake:a@y": 4.0}


@pytest.mark.parametrize(
    ("unseen", "threads", "expected"),
    [
        ({"compile:a@x", "bake:a@y"}, 1, 14.0),
        ({"compile:a@x", "bake:a@y"}, 2, 7.0),
        ({"compile:new@x"}, 1, 15.0),  # the mean of its stage
        ({"compile:a@x", "bench:a@x"}, 1, None),
        (set(), 1, 0.0),
    ],
)
def test_the_time_left_comes_from_how_long_actions_took(
    unseen: set[str], threads: int, expected: float | None
) -> None:
    assert time_left_s(frozenset(unseen), TOOK_S, threads) == expected


def test_an_action_takes_as_long_as_when_it_last_ran(tmp_path: Path) -> None:
    log = EventLog(tmp_path, ["build"])
    log.ended("bake:a@y", "ran", wall_ms=7000.0)
    log.ended("bake:a@y", "ran", wall_ms=5000.0)
    log.ended("compile:a@x", "restored", wall_ms=1.0)
    log.finish(0)
    assert last_durations_s(tmp_path) == {"bake:a@y": 5.0}


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_one_bar_counts_names_what_runs_and_estimates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    before = EventLog(tmp_path, ["build"])
    for task, seconds in TOOK_S.items():
        before.ended(task, "ran", wall_ms=seconds * 1e3)
    before.finish(0)
    out, log = Terminal(), EventLog(tmp_path, ["build"])
    reporter = Reporter(out, log)
    reporter.begin(frozenset(TOOK_S), threads=2)
    for task in TOOK_S:
        reporter.started(task)
    shown = reporter._progress
    assert len(shown.tasks) == 1
    assert shown.tasks[0].description == (
        "about 0:17 left, compile:a@x, compile:b@x, 1 more"
    )
    reporter.succeeded("compile:a@x")
    assert shown.tasks[0].completed == 1
    assert shown.tasks[0].description == "about 0:12 left, compile:b@x, bake:a@y"
    reporter.finish()
    assert "0/3" in out.getvalue()
