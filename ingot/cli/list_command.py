"""doit's command `list`: what a checkout has and a command line may say."""

from __future__ import annotations

from pathlib import Path

from ingot.cli.commands import TaskFree
from ingot.project.catalogue import STAGES, read
from ingot.project.options import VARIABLES


class ListCommand(TaskFree):
    """Models, targets and stages."""

    name = "list"
    doc_purpose = "show models, targets and stages"
    doc_usage = ""
    doc_description = None

    def work(self) -> int:
        """Print the tables."""
        return print_catalogue()


def print_catalogue() -> int:
    """Print models, targets, stages and variables."""
    found = read(Path.cwd())
    print("models")
    settings = found.settings
    for name, model in found.models.items():
        mark = "*" if name == settings.default_model else " "
        text = model.summary
        if model.broken:
            mark, text = "!", f"cannot be read; `doit build model={name}` says why"
        print(_row(mark, name, text))
    print("targets")
    for name, text in settings.targets.items():
        if name in settings.unrunnable:
            text = f"compiles here, cannot run here: {settings.unrunnable[name]}"
        print(_row("*" if name == settings.default_target else " ", name, text))
    for name, meant in settings.aliases.items():
        mark = "*" if name == settings.default_target else " "
        print(_row(mark, name, f"this machine: {meant}"))
    for name in settings.broken:
        text = f"cannot be read; `doit build target={name}` says why"
        print(_row("!", name, text))
    print("stages")
    for name, text in STAGES.items():
        print(_row(" ", name, text))
    print("variables")
    for name, text in VARIABLES.items():
        print(_row(" ", name, text))
    print("* is the default. A single task is STAGE:MODEL@TARGET; wildcards work.")
    return 0


def _row(mark: str, name: str, text: str) -> str:
    return f"  {mark} {name:<20} {text}"
