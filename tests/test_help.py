"""Test the help of the program and of each of its commands."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ingot.cli import help as help_
from ingot.cli.commands import COMMANDS, TASKS, Command
from ingot.errors import IngotError
from ingot.project.catalogue import STAGES
from tests.source_tree import ROOT


def test_the_overview_names_every_command_and_stage() -> None:
    told = help_.text(["--help"])
    for name in ("build", *STAGES, *(command.name for command in COMMANDS)):
        assert f"\n  {name} " in told


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_the_page_of_a_command_has_its_variables_and_options(command: Command) -> None:
    told = help_.text([command.name, "--help"])
    assert told.startswith(f"usage: ingot {command.name}")
    for name in command.variables or ():
        assert f"\n  {name}= " in told
    for option in command.options:
        assert f"\n  -{option['short']}, --{option['long']} " in told


def test_the_page_of_a_stage_is_that_of_a_build() -> None:
    told = help_.text(["check", "model=toy", "-h"])
    assert told.startswith("usage: ingot [OPTION ...] check [NAME=VALUE ...]\n")
    for name in TASKS:
        assert f"\n  {name}= " in told


def test_help_on_no_command_suggests_one() -> None:
    with pytest.raises(IngotError) as caught:
        help_.text(["biuld", "--help"])
    told = "no command named 'biuld'\n  did you mean 'build'?"
    assert str(caught.value) == told


def test_the_version_names_the_package_and_its_place() -> None:
    program = [sys.executable, "-m", "ingot.cli.main", "--version"]
    ran = subprocess.run(program, cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0
    assert ran.stdout.startswith("ingot-build ")
    assert ran.stdout.endswith(f" ({ROOT / 'ingot'})\n")


def test_help_imports_neither_doit_nor_yaml() -> None:
    program = (
        "import sys, time; start = time.process_time()\n"
        "from ingot.cli import main; main.run(['--help'])\n"
        "assert time.process_time() - start < 0.15\n"
        "assert not {'doit', 'yaml', 'numpy', 'rich'} & {*sys.modules}"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True
    )
    assert (ran.returncode, ran.stderr) == (0, "")
