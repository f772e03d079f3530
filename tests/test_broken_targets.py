"""Test that a broken target is an error only of commands that name it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingot.bundles.reader import Bundle
from ingot.bundles.target_runner import runner_for
from ingot.cli.list_commands import list_catalogue
from ingot.cli.tasks import choose
from ingot.errors import IngotError
from ingot.project.catalogue import read
from ingot.project.selection import select
from tests.command_calls import call
from tests.project import edit, one_model


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a checkout of one model, the default."""
    one_model(tmp_path)
    edit(
        tmp_path / "pyproject.toml",
        'all-minilm-l6-v2"\ndefault-t',
        'toy-moe"\ndefault-t',
    )
    return tmp_path


@pytest.mark.parametrize(("kind", "name"), [("model", "toy-moe"), ("target", "x86_64")])
def test_a_file_that_ends_in_yml_is_reported(kind: str, name: str, root: Path) -> None:
    path = root / f"{kind}s/{name}.yaml"
    path.rename(path.with_suffix(".yml"))
    with pytest.raises(IngotError) as caught:
        select(read(root), {"model": "toy-moe", "target": "x86_64"})
    assert str(caught.value) == (
        f"{kind}s/{name}.yml:1:1: expected the extension .yaml, found '{name}.yml'\n"
        f"  mv {kind}s/{name}.yml {kind}s/{name}.yaml"
    )


def test_a_broken_target_is_an_error_only_of_commands_that_name_it(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (root / "targets/aarch64.yaml").read_text()
    bad = root / "targets/bad.yaml"
    bad.write_text(text.replace("target: aarch64\nsummary", "target: bad\nsumary"))
    (root / "targets/here.yaml").write_text(
        "target: here\nsummary: this machine\nfirst_of: [bad, x86_64]\n"
    )
    found = read(root)
    assert select(found, {"target": "x86_64"}).targets == ("x86_64",)
    assert f"check:toy-moe@{found.settings.aliases['host']}" in found.plan.by_task
    told = "targets/bad.yaml:3:1: sumary: unknown key\n  did you mean 'summary'?"
    for asked_for in ("bad", "x86_64,bad", "here", "all"):
        with pytest.raises(IngotError) as caught:
            select(found, {"target": asked_for})
        assert str(caught.value) == told
    with pytest.raises(IngotError) as caught:
        choose(found.plan.by_task, ["check:toy-moe@bad"], root)
    assert str(caught.value) == told
    monkeypatch.chdir(root)
    assert list_catalogue(call()) == 0
    printed = capsys.readouterr().out
    for name in ("bad", "here"):
        line = f"  ! {name:<20} cannot be read; `doit build target={name}` shows why\n"
        assert line in printed
    edit(bad, "sumary", "summary")
    mended = read(root)
    assert "bad" in mended.settings.targets
    assert "check:toy-moe@bad" in mended.plan.by_task


def test_a_broken_default_target_is_no_error_of_tasks_that_name_others(
    root: Path,
) -> None:
    edit(root / "targets/host.yaml", "summary", "sumary")
    assert select(read(root, ()), {}).models == ()
    with pytest.raises(IngotError, match=r"^targets/host\.yaml:3:1: sumary: unknown"):
        select(read(root, {""}), {})


def test_a_bundle_of_a_broken_target_has_no_runner(root: Path) -> None:
    edit(root / "targets/x86_64.yaml", "summary", "sumary")
    bundle = Bundle(root, {"target": {"name": "x86_64"}}, ())
    assert str(runner_for(bundle, root)).endswith(
        ": sumary: unknown key\n  did you mean 'summary'?"
    )
