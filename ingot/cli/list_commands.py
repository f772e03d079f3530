"""Run `doit list`, `doit info` and `doit help`: show what exists and how to use it."""

from __future__ import annotations

from doit.cmd_help import Help

from ingot.cli.commands import Call
from ingot.cli.json_output import ListedModel, ListedTarget, ListOutput, print_json
from ingot.cli.tasks import choose, load
from ingot.cli.variables import VARIABLES
from ingot.errors import IngotError
from ingot.project.catalogue import STAGES, Catalogue, read


def list_catalogue(call: Call) -> int:
    """Print models, targets, stages and variables."""
    found = read(call.root, with_actions=False)
    if call.json:
        print_json(_listed(found))
        return 0
    settings = found.settings
    print("models")
    for name, model in found.models.items():
        mark = "*" if name == settings.default_model else " "
        text = "; ".join(filter(None, (model.summary, model.weights)))
        if model.broken:
            mark, text = "!", f"cannot be read; `doit build model={name}` shows why"
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
        text = f"cannot be read; `doit build target={name}` shows why"
        print(_row("!", name, text))
    print("stages")
    for name, text in STAGES.items():
        print(_row(" ", name, text))
    print("variables")
    for name, text in VARIABLES.items():
        print(_row(" ", name, text))
    print("* is the default. A single task is STAGE:MODEL@TARGET; wildcards work.")
    return 0


def _listed(found: Catalogue) -> ListOutput:
    settings = found.settings
    models = (
        ListedModel(
            name,
            model.summary,
            model.weights,
            default=name == settings.default_model,
            error=model.broken,
        )
        for name, model in found.models.items()
    )
    texts = {
        **settings.targets,
        **dict.fromkeys((*settings.aliases, *settings.broken), ""),
    }
    targets = (
        ListedTarget(
            name,
            text,
            default=name == settings.default_target,
            alias_of=settings.aliases.get(name, ""),
            cannot_run=settings.unrunnable.get(name, ""),
            error=settings.broken.get(name, ""),
        )
        for name, text in texts.items()
    )
    return ListOutput(tuple(models), tuple(targets), dict(STAGES))


def info(call: Call) -> int:
    """Print a task and the tasks before it; `doit why` shows whether it would run."""
    if len(call.words) != 1:
        raise IngotError("info needs one task", "usage: doit info TASK")
    _, tasks = load(call, call.words)
    for name in choose(tasks, call.words, call.root):
        print(f"\n{name}")
        if tasks[name].doc:
            print(f"\n{tasks[name].doc}")
        if tasks[name].task_dep:
            print("\ntask_dep   : ")
            for other in tasks[name].task_dep:
                print(f" - {other}")
    return 0


def help_(call: Call) -> int:
    """Print the commands; or doit's help on a command, a task or task dictionaries."""
    given = {name: part for name, part in call.doit.items() if name != "command"}
    helper = Help(**given)
    if len(call.words) != 1 or call.words[0] in (*helper.cmds, "task"):
        return int(helper.execute(call.options, list(call.words)))
    try:
        _, tasks = load(call, call.words)
    except IngotError:
        tasks = {}
    if call.words[0] in tasks:
        print(f"{call.words[0]}  {tasks[call.words[0]].doc}")
    else:
        helper.print_usage(helper.cmds)
    return 0


def _row(mark: str, name: str, text: str) -> str:
    return f"  {mark} {name:<20} {text}"
