"""Why an action would run: what is above it, what is not there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ingot.catalogue import Plan
from ingot.edges import toolchain
from ingot.errors import IngotError
from ingot.front.why import Elsewhere, explain, print_reasons
from ingot.values import Action, Output
from tests.checkout import Checkout
from tests.test_executor import COUNT, upper


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    made = Checkout(tmp_path / "a", tmp_path / "cache")
    (made.root / "in.txt").write_text("abc")
    return made


def told(
    checkout: Checkout, capsys: pytest.CaptureFixture[str], *actions: Action
) -> list[str]:
    """What is said of the last of the actions."""
    elsewhere = Elsewhere(checkout.executor, lambda: None)
    print_reasons(Plan(actions), {actions[-1].task}, checkout.executor, elsewhere)
    return capsys.readouterr().out.splitlines()


def test_what_is_above_a_named_task_is_looked_at(
    checkout: Checkout, capsys: pytest.CaptureFixture[str]
) -> None:
    actions = upper(checkout.root), COUNT
    checkout.build(*actions)
    assert told(checkout, capsys, *actions) == [
        "nothing would run: 1 actions are up to date"
    ]
    (checkout.root / "in.txt").write_text("abcd")
    assert told(checkout, capsys, *actions) == [
        "count:x would run:",
        "  it follows upper:x",
    ]


def test_a_stale_task_above_alone_makes_nothing_that_was_asked_run(
    checkout: Checkout, capsys: pytest.CaptureFixture[str]
) -> None:
    other = Action("other:x", ("touch", "o"), (), ("o",))
    checkout.build(other)
    assert told(checkout, capsys, upper(checkout.root), other) == [
        "nothing would run: 1 actions are up to date"
    ]


def test_renamed_outputs_above_are_a_reason_and_no_defect(checkout: Checkout) -> None:
    above = upper(checkout.root)
    checkout.build(above, COUNT)
    renamed = replace(COUNT, inputs=(("upper.txt", Output("upper:x", "new.txt")),))
    assert not checkout.executor.is_current(renamed)
    assert explain(renamed, checkout.executor, set()) == [
        "input upper:x new.txt: not built yet"
    ]


def test_a_tool_that_is_gone_is_a_reason_and_then_the_error(
    checkout: Checkout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "tool"
    tool.write_text("x")
    monkeypatch.setitem(toolchain.SYSTEM_FILES, "odd-tool", (str(tool),))
    action = replace(upper(checkout.root), tools=("odd-tool",))
    toolchain.places.cache_clear()
    assert checkout.build(action) == [("upper:x", "ran")]
    tool.unlink()
    later = Checkout(checkout.root, checkout.store.root)
    assert not later.executor.is_current(action)
    assert explain(action, later.executor, set()) == [
        "tool 'odd-tool' is not installed"
    ]
    with pytest.raises(IngotError, match="tool 'odd-tool' is not installed\n  run: "):
        later.build(action)
    toolchain.places.cache_clear()
