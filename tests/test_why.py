"""Test the reasons that `doit why` gives: earlier tasks, the store, missing files."""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ingot.cli.tasks import unknown_task
from ingot.cli.why_command import Elsewhere, explain, print_reasons
from ingot.engine import toolchain
from ingot.engine.actions import Action, Output
from ingot.errors import IngotError
from ingot.project.catalogue import Plan
from tests.checkout import Checkout
from tests.project import ROOT
from tests.small_actions import COUNT
from tests.test_executor import upper

NEVER = "  it has not run in this checkout, or its last run did not end"


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    made = Checkout(tmp_path / "a", tmp_path / "cache")
    (made.root / "in.txt").write_text("abc")
    return made


def told(
    checkout: Checkout, capsys: pytest.CaptureFixture[str], *actions: Action
) -> list[str]:
    """The lines about the last of the actions."""
    elsewhere = Elsewhere(checkout.executor, lambda: None)
    print_reasons(Plan(actions), {actions[-1].task}, checkout.executor, elsewhere)
    return capsys.readouterr().out.splitlines()


def test_why_considers_the_tasks_before_a_named_one(
    checkout: Checkout, capsys: pytest.CaptureFixture[str]
) -> None:
    actions = upper(checkout.root), COUNT
    checkout.build(*actions)
    assert told(checkout, capsys, *actions) == [
        "nothing would run: 1 action is up to date"
    ]
    (checkout.root / "in.txt").write_text("abcd")
    assert told(checkout, capsys, *actions) == ["count:x may run: it follows upper:x"]


def test_the_error_of_an_unknown_task_explains_how_tasks_are_named() -> None:
    known = [f"check:m{number}@x86_64" for number in range(2000)]
    assert str(unknown_task("check:m17@x86-64", known)) == (
        "no task named 'check:m17@x86-64'\n  did you mean 'check:m17@x86_64'?"
    )
    assert str(unknown_task("nonsense", known)) == (
        "no task named 'nonsense'\n"
        "  a task is STAGE:MODEL@TARGET, or a pattern: 'check:*@x86_64'; run: doit list"
    )


def test_ctrl_c_before_a_build_begins_shows_no_traceback() -> None:
    program = "from ingot.cli import startup; startup.prepare(); raise {}"
    said = []
    for error in ("KeyboardInterrupt", "ValueError('odd')"):
        words = [sys.executable, "-c", program.format(error)]
        done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT)
        said.append((done.returncode, done.stderr.splitlines()[-1]))
    assert said == [
        (-signal.SIGINT, "stopped; nothing was run"),
        (1, "ValueError: odd"),
    ]


def test_a_stale_earlier_task_alone_is_no_reason_to_run(
    checkout: Checkout, capsys: pytest.CaptureFixture[str]
) -> None:
    other = Action("other:x", ("touch", "o"), (), ("o",))
    checkout.build(other)
    assert told(checkout, capsys, upper(checkout.root), other) == [
        "nothing would run: 1 action is up to date"
    ]


def test_renamed_outputs_of_an_earlier_task_are_a_reason(checkout: Checkout) -> None:
    above = upper(checkout.root)
    checkout.build(above, COUNT)
    renamed = replace(COUNT, inputs=(("upper.txt", Output("upper:x", "new.txt")),))
    assert not checkout.executor.is_up_to_date(renamed)
    assert explain(renamed, checkout.executor, set()) == [
        "input upper:x new.txt: not built yet"
    ]


def test_a_missing_tool_is_a_reason_and_then_the_error(
    checkout: Checkout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "tool"
    tool.write_text("x")
    monkeypatch.setitem(toolchain.SYSTEM_FILES, "odd-tool", (str(tool),))
    action = replace(upper(checkout.root), tools=("odd-tool",))
    toolchain.paths.cache_clear()
    assert checkout.build(action) == [("upper:x", "ran")]
    tool.unlink()
    later = Checkout(checkout.root, checkout.store.root)
    assert not later.executor.is_up_to_date(action)
    assert explain(action, later.executor, set()) == [
        "tool 'odd-tool' is not installed"
    ]
    with pytest.raises(IngotError, match="tool 'odd-tool' is not installed\n  run: "):
        later.build(action)
    toolchain.paths.cache_clear()


def test_a_stored_result_would_be_restored_and_the_change_is_shown(
    checkout: Checkout, capsys: pytest.CaptureFixture[str]
) -> None:
    source, actions = checkout.root / "in.txt", (upper(checkout.root), COUNT)
    old = checkout.store.digests.of_file(source)
    checkout.build(*actions)
    source.write_text("abcd")
    new = checkout.store.digests.of_file(source)
    checkout.build(*actions)
    source.write_text("abc")
    assert told(checkout, capsys, actions[0]) == [
        "upper:x would be restored: the store has its result",
        f"  input in.txt: {new} -> {old}",
        "nothing would run: 0 actions are up to date, 1 would be restored",
    ]
    # What it makes is known then, so what follows is told as exactly.
    lines = told(checkout, capsys, *actions)
    assert lines[0] == "count:x would be restored: the store has its result"
    assert checkout.build(*actions) == [
        ("upper:x", "restored"),
        ("count:x", "restored"),
    ]


def test_a_deleted_copy_would_be_restored(
    checkout: Checkout, capsys: pytest.CaptureFixture[str]
) -> None:
    action = upper(checkout.root)
    checkout.build(action)
    (checkout.root / "build/out.txt").unlink()
    assert told(checkout, capsys, action)[:2] == [
        "upper:x would be restored: the store has its result",
        "  build/out.txt is missing; it will be restored from the store",
    ]
    checkout.store.blob(
        dict(checkout.executor.resolve(COUNT).inputs)["upper.txt"]
    ).unlink()
    lines = told(checkout, capsys, action)
    assert (lines[0], len(lines)) == ("upper:x would run:", 3)
    assert checkout.build(action) == [("upper:x", "ran")]


def test_many_earlier_tasks_are_shown_in_one_line(
    checkout: Checkout, capsys: pytest.CaptureFixture[str]
) -> None:
    above = [
        replace(upper(checkout.root), task=f"u:{n}", argv=("cp", "in.txt", "out.txt"))
        for n in range(5)
    ]
    above = [replace(a, exported_to=(), env=(("N", a.task),)) for a in above]
    inputs = tuple((f"{n}.txt", Output(a.task, "out.txt")) for n, a in enumerate(above))
    last = Action("last:x", ("touch", "o"), inputs, ("o",))
    checkout.build(*above, last)
    (checkout.root / "in.txt").write_text("abcd")
    assert told(checkout, capsys, *above, last) == [
        "last:x may run: it follows u:0, u:1, u:2 and 2 more"
    ]


def test_a_changed_action_would_run_whatever_comes_before_it(
    checkout: Checkout, capsys: pytest.CaptureFixture[str]
) -> None:
    checkout.build(upper(checkout.root), COUNT)
    (checkout.root / "in.txt").write_text("abcd")
    changed = replace(COUNT, env=(("LEVEL", "2"),))
    assert told(checkout, capsys, upper(checkout.root), changed) == [
        "count:x would run:",
        "  variable LEVEL: none -> 2",
        "  it follows upper:x",
    ]


def test_without_records_an_action_whose_result_may_be_stored_may_run(
    checkout: Checkout, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    later = Checkout(tmp_path / "b", checkout.store.root)
    (later.root / "in.txt").write_text("ABC")
    reasons = [NEVER, "  it follows upper:x"]
    # Nobody has ever run it: nothing can spare it.
    assert told(later, capsys, upper(later.root), COUNT) == [
        "count:x would run:",
        *reasons,
    ]
    checkout.build(upper(checkout.root), COUNT)
    assert told(later, capsys, upper(later.root), COUNT) == [
        "count:x may run:",
        *reasons,
    ]
    done = later.build(upper(later.root), COUNT)
    assert done == [("upper:x", "ran"), ("count:x", "restored")]
