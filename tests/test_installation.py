"""Test where files are found, and that an ingot of another place is rejected."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import ingot
from ingot.cli import commands, doit_commands, installation, main
from ingot.cli.installation import check_installation, project_root
from ingot.errors import IngotError
from ingot.model import library
from ingot.model.library import check_names, find, name_of, names, place_oracles
from tests.source_tree import ROOT


@pytest.fixture
def roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A project, and a library that has one file of the same name."""
    brought, own = tmp_path / "library", tmp_path / "project"
    for folder, files in (
        (brought, ("components/a/one.mlir", "components/a/two.mlir")),
        (own, ("components/a/two.mlir", "components/own/three.mlir")),
    ):
        for name in (*files, "oracles/__init__.py"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).touch()
    monkeypatch.setattr(library, "LIBRARY", brought)
    return own, brought


def test_a_file_of_the_project_comes_first(roots: tuple[Path, Path]) -> None:
    own, brought = roots
    one, two = "components/a/one.mlir", "components/a/two.mlir"
    assert find(own, one) == brought / one
    assert find(own, two) == own / two
    assert find(own, "targets/none.yaml") == own / "targets/none.yaml"
    assert names(own, "components/*/*.mlir") == [one, two, "components/own/three.mlir"]
    assert [name_of(find(own, name), own) for name in (one, two)] == [one, two]
    assert name_of(Path("/elsewhere/x.yaml"), own) == "/elsewhere/x.yaml"


def test_a_name_that_both_have_must_be_chosen(roots: tuple[Path, Path]) -> None:
    own, _ = roots
    name = "components/a/two.mlir"
    with pytest.raises(IngotError) as caught:
        check_names(own, ())
    assert str(caught.value) == (
        f"{name}: this project and ingot both have a file of this name\n"
        "  rename the project's; or choose it, in pyproject.toml: [tool.ingot]"
        f' overrides = ["{name}"]'
    )
    check_names(own, (name,))


def test_an_override_that_overrides_nothing_is_rejected(
    roots: tuple[Path, Path],
) -> None:
    own, _ = roots
    with pytest.raises(IngotError) as caught:
        check_names(own, ("components/a/two.mlir", "components/a/twoo.mlir"))
    assert str(caught.value) == (
        "pyproject.toml: tool.ingot.overrides: ingot has no file"
        " 'components/a/twoo.mlir'\n  did you mean 'components/a/two.mlir'?"
    )
    with pytest.raises(IngotError) as caught:
        check_names(own, ("components/a/one.mlir", "components/a/two.mlir"))
    assert str(caught.value) == (
        "pyproject.toml: tool.ingot.overrides: the project has no file"
        " 'components/a/one.mlir'\n  remove it from the list"
    )


def test_a_project_is_found_from_every_folder_below_it(tmp_path: Path) -> None:
    below = tmp_path / "a/b"
    below.mkdir(parents=True)
    assert project_root(below) is None
    (tmp_path / "dodo.py").touch()
    assert project_root(below) == tmp_path
    assert project_root(tmp_path) == tmp_path


def test_the_code_of_another_checkout_is_rejected(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "ingot", tmp_path / "ingot")
    for name in ("dodo.py", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    # As the program of the other checkout's environment would run.
    words = [sys.executable, "-P", "-m", "ingot.cli.main", "list"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (
        3,
        "ERROR: this folder is a checkout of ingot, and the code that runs is of"
        f" another one: {ROOT / 'ingot'}\n"
        "  use this checkout's environment, as `./bootstrap COMMAND` does\n",
    )


@pytest.mark.parametrize("name", ["ingot.py", "ingot/__init__.py"])
def test_a_foreign_module_of_the_name_is_rejected(name: str, tmp_path: Path) -> None:
    (tmp_path / "ingot").mkdir()
    (tmp_path / name).touch()
    with pytest.raises(IngotError) as caught:
        check_installation(tmp_path)
    shown = name.removesuffix("__init__.py")
    assert str(caught.value) == (
        f"{shown}: a module of this name hides the package ingot from Python code of"
        " this project\n  give it another name"
    )


def test_a_folder_of_the_name_is_no_module(tmp_path: Path) -> None:
    (tmp_path / "ingot").mkdir()
    check_installation(tmp_path)


def test_a_package_that_another_distribution_has_overwritten_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(ingot, "DISTRIBUTION")
    with pytest.raises(IngotError, match="belongs to another distribution than"):
        check_installation(tmp_path)


def test_two_versions_in_one_environment_are_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for version in ("0.1.0", "0.2.0"):
        (tmp_path / f"ingot_build-{version}.dist-info").mkdir()
    monkeypatch.setattr(installation, "PACKAGE", tmp_path / "ingot")
    with pytest.raises(IngotError) as caught:
        check_installation(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path}: two versions of ingot-build: ingot_build-0.1.0.dist-info,"
        " ingot_build-0.2.0.dist-info\n"
        "  pip uninstall ingot; pip install --force-reinstall ingot-build"
    )


def test_an_editable_ingot_brings_no_library(tmp_path: Path) -> None:
    check_installation(tmp_path)
    (tmp_path / "models").mkdir()
    with pytest.raises(IngotError) as caught:
        check_installation(tmp_path)
    assert str(caught.value) == (
        f"ingot is installed from the checkout {ROOT} as editable, and brings no"
        f" targets and components then\n  install it as a package: pip install {ROOT}"
    )


def test_oracles_of_the_project_and_of_the_library_are_one_package(
    roots: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder, name in zip(roots, ("mine", "theirs"), strict=True):
        (folder / f"oracles/{name}_tested.py").write_text(f"NAME = '{name}'\n")
    for name in ("oracles", "oracles.mine_tested", "oracles.theirs_tested"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
        monkeypatch.delitem(sys.modules, name)
    place_oracles(roots[0])
    for name in ("mine", "theirs"):
        assert name == importlib.import_module(f"oracles.{name}_tested").NAME


def test_an_upgrade_while_a_command_runs_is_reported(
    capsys: pytest.CaptureFixture[str],
) -> None:
    gone = ModuleNotFoundError("No module named 'ingot.gone'", name="ingot.gone")
    assert doit_commands.report_unexpected(gone) == commands.FAILED
    assert capsys.readouterr().err == (
        "ingot was changed or upgraded while this command ran:"
        " No module named 'ingot.gone'\n  run the same command again\n"
    )


def test_a_command_without_a_project_is_rejected(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "ingot.cli.main", "build"]
    ran = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (
        3,
        f"ERROR: no project in {tmp_path} or a folder above: none has a dodo.py\n"
        "  `ingot init` writes a project into an empty folder\n",
    )


def test_paths_lead_to_the_same_files_from_a_folder_below(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dodo.py").touch()
    below = tmp_path / "below"
    below.mkdir()
    (below / "small.gguf").touch()
    monkeypatch.setattr(sys, "argv", ["ingot"])
    for words, seen in (
        (["import", "source=small.gguf"], f"source={below / 'small.gguf'}"),
        (["import", "source=hf:some/model"], "source=hf:some/model"),
        (["migrate", "x.yaml"], f"{below / 'x.yaml'}"),
        (["build", "model=x"], "model=x"),
    ):
        monkeypatch.chdir(below)
        assert main.enter_project(words) == [words[0], seen]
        assert Path.cwd() == tmp_path
