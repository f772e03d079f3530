"""List the commands: name, purpose, usage, variables and function of each.

A function takes a `Call` and returns the exit code. Its module is imported only when
the command is used, so that `doit list` does not wait for imports of `doit ablate`.

Exit codes: 0 done; 1 an action failed, or a check found something; 2 an internal error
of ingot or doit; 3 the command line, a manifest or the store is wrong, and nothing was
run; 130 stopped by Ctrl-C; 143 stopped by SIGTERM; 141 the reader closed the output.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ingot.errors import IngotError

FAILED, INTERNAL_ERROR, INTERRUPTED = 1, 2, 130

# Variables that select the tasks of a command, and where they run.
TASKS = ("model", "target", "executor")

# Variables with which `doit run` encodes sentences instead of running tasks.
SENTENCES = ("input", "other", "inputs", "long", "to")

# Variables that say how tokens are drawn.
SAMPLING = ("temperature", "top_k", "top_p", "seed")

# The options of commands that build, in the form in which doit declares options.
BUILD_OPTIONS: tuple[dict[str, Any], ...] = (
    {
        "name": "always",
        "short": "a",
        "long": "always-execute",
        "type": bool,
        "default": False,
        "help": "treat no action as up to date; results still come from the store",
    },
    {
        "name": "continue",
        "short": "c",
        "long": "continue",
        "inverse": "no-continue",
        "type": bool,
        "default": False,
        "help": "continue after a failure with whatever does not need it",
    },
    {
        "name": "num_process",
        "short": "n",
        "long": "process",
        "type": int,
        "default": None,
        "help": "number of actions that run at once [default: one per core]",
    },
    {
        "name": "outfile",
        "short": "o",
        "long": "output-file",
        "default": None,
        "help": "write the progress into a file [default: standard output]",
    },
    {
        "name": "single",
        "short": "s",
        "long": "single",
        "type": bool,
        "default": False,
        "help": "run the named tasks without the tasks that they need",
    },
    {
        "name": "quiet",
        "short": "q",
        "long": "quiet",
        "type": bool,
        "default": False,
        "help": "print failures only",
    },
)

JSON: dict[str, Any] = {
    "name": "json",
    "short": "j",
    "long": "json",
    "type": bool,
    "default": False,
    "help": "print one line of JSON; docs/command-line.schema.json is its schema",
}

RUN_JSON = JSON | {
    "help": "print how the actions ended, checks and benchmarks as one line of JSON;"
    " with input= or inputs=, whole embeddings"
}

AUDIT_JSON: dict[str, Any] = JSON | {"help": "print the comparison as JSON"}

MARKDOWN: dict[str, Any] = {
    "name": "markdown",
    "short": "m",
    "long": "markdown",
    "type": bool,
    "default": False,
    "help": "print a section for a changelog",
}

UNCHECKED: dict[str, Any] = {
    "name": "unchecked",
    "short": "u",
    "long": "unchecked",
    "type": bool,
    "default": False,
    "help": "leave out the check and the benchmark that follow the text",
}

IDS: dict[str, Any] = {
    "name": "ids",
    "short": "i",
    "long": "ids",
    "type": bool,
    "default": False,
    "help": "write the ids of the tokens, with commas between, in place of the text",
}

DRY_RUN: dict[str, Any] = {
    "name": "dry_run",
    "short": "n",
    "long": "dry-run",
    "type": bool,
    "default": False,
    "help": "show what would change, and write nothing",
}

PRUNE_DRY_RUN: dict[str, Any] = {
    "name": "dry_run",
    "short": "d",
    "long": "dry-run",
    "type": bool,
    "default": False,
    "help": "with prune: show what would be removed, and remove nothing",
}


@dataclass(frozen=True)
class Command:
    """A command of the table."""

    name: str
    purpose: str
    function: str  # "module:function" in this package
    usage: str = ""
    variables: tuple[str, ...] | None = ()  # None: the function checks them itself
    takes_tasks: bool = False  # or files
    options: tuple[dict[str, Any], ...] = ()  # in doit's own form

    def load(self) -> Any:
        """Import the function."""
        module, _, function = self.function.partition(":")
        return getattr(importlib.import_module(f"ingot.cli.{module}"), function)


@dataclass(frozen=True)
class Call:
    """A command as the user typed it."""

    words: tuple[str, ...]  # tasks, mostly
    variables: Mapping[str, str]
    options: Mapping[str, Any]
    doit: Mapping[str, Any]  # what doit gives every command: `task_loader`, `cmds`, ...

    @property
    def root(self) -> Path:
        """Return the checkout: the command runs in its folder."""
        return Path.cwd()

    @property
    def json(self) -> bool:
        """Return whether the command prints JSON in place of text."""
        return bool(self.options.get("json"))


COMMANDS = (
    Command(
        name="run",
        purpose="run tasks and what they need; with input=..., the built bundle",
        usage="[TASK ...]",
        variables=None,
        function="build_command:run",
        takes_tasks=True,
        options=(*BUILD_OPTIONS, RUN_JSON),
    ),
    Command(
        name="init",
        purpose="write the files of a new project into an empty folder",
        function="init_command:init",
    ),
    Command(
        name="list",
        purpose="show models, targets and stages",
        function="list_commands:list_catalogue",
        options=(JSON,),
    ),
    Command(
        name="why",
        purpose="show for each stale action which input, flag or tool changed",
        usage="[TASK ...]",
        variables=TASKS,
        function="why_command:why",
        takes_tasks=True,
        options=(JSON,),
    ),
    Command(
        name="info",
        purpose="show what a task is and which tasks come before it",
        usage="TASK",
        variables=TASKS,
        function="list_commands:info",
        takes_tasks=True,
    ),
    Command(
        name="help",
        purpose="show help",
        usage="[TASK] [COMMAND]",
        variables=None,
        function="list_commands:help_",
        takes_tasks=True,
    ),
    Command(
        name="completion",
        purpose="print the script with which a shell completes command lines",
        usage="bash|zsh|fish",
        function="completion:completion",
        takes_tasks=True,
    ),
    Command(
        name="doctor",
        purpose="test tools, emulators, drivers, store and disk",
        function="doctor_command:doctor",
        options=(JSON,),
    ),
    Command(
        name="verify",
        purpose="re-hash a bundle, load it and re-run its golden input",
        usage="[bundle=PATH|oci://HOST/REPO:TAG] [key=FILE] [policy=FILE]",
        variables=(
            *("bundle", "run", "model", "target"),
            *("key", "policy", "version", "to"),
        ),
        function="verify_command:verify",
        options=(JSON,),
    ),
    Command(
        name="diff",
        purpose="show what differs between two bundles, and why",
        usage="A B, each a folder, a tar, MODEL@TARGET or a release",
        variables=("target",),
        function="diff_command:diff",
        takes_tasks=True,
        options=(JSON, MARKDOWN),
    ),
    Command(
        name="tar",
        purpose="pack a built bundle as a reproducible tar",
        usage="[model=NAME target=NAME | bundle=PATH] [to=PATH|-]",
        variables=("model", "target", "bundle", "to"),
        function="tar_command:tar",
    ),
    Command(
        name="release",
        purpose="publish a model's bundles as OCI images; promote or prune versions",
        usage="model=NAME version=1.4.0 to=oci://HOST/REPO [key=FILE]"
        " | promote | prune",
        variables=None,
        function="release_command:release",
        takes_tasks=True,
        options=(*BUILD_OPTIONS, PRUNE_DRY_RUN),
    ),
    Command(
        name="pull",
        purpose="bring a bundle of a release into a folder, and compare every byte",
        usage="from=oci://HOST/REPO:TAG to=FOLDER [target=NAME]",
        variables=("from", "to", "target"),
        function="release_command:pull_bundle",
    ),
    Command(
        name="keys",
        purpose="make the keys that sign releases and results",
        usage="to=FOLDER",
        variables=("to",),
        function="release_command:make_keys",
    ),
    Command(
        name="generate",
        purpose="generate text after a prompt, then check what generated it",
        usage='model=NAME prompt="..."',
        variables=(
            *("model", "target", "prompt", "ids", "system", "template", "tokens"),
            *SAMPLING,
        ),
        function="generate_command:generate",
        options=(*BUILD_OPTIONS, UNCHECKED, IDS),
    ),
    Command(
        name="chat",
        purpose="talk to a chat model, line by line",
        usage="model=NAME",
        variables=("model", "target", "system", "tokens", *SAMPLING),
        function="chat_command:chat",
        options=(*BUILD_OPTIONS, UNCHECKED),
    ),
    Command(
        name="import",
        purpose="write the manifest of a checkpoint: safetensors or GGUF",
        usage="source=PATH [model=NAME] [licence=SPDX-ID] [n_ctx=N] [stored=TYPE]"
        " [ignore=KEY,...]",
        variables=("source", "model", "licence", "n_ctx", "stored", "ignore"),
        function="import_command:import_",
    ),
    Command(
        name="migrate",
        purpose="rewrite YAML files that use renamed keys, values or names",
        usage="[-n] [FILE ...]",
        variables=(),
        function="migrate_command:migrate",
        takes_tasks=True,
        options=(DRY_RUN,),
    ),
    Command(
        name="ablate",
        purpose="show which block a low-precision model's error comes from",
        usage="model=NAME [modes=...] [weights=SCHEME]",
        variables=("model", "target", "modes", "weights", "tokens", "seed"),
        function="ablate_command:ablate",
        options=BUILD_OPTIONS,
    ),
    Command(
        name="inspect",
        purpose="show a model as its graph, in linalg, as buffers or as a program",
        usage="model=NAME target=NAME level=graph|linalg|tensor|program [filter=...]",
        variables=("model", "target", "level", "filter"),
        function="inspect_command:inspect",
        options=BUILD_OPTIONS,
    ),
    Command(
        name="cluster",
        purpose="start a scheduler and workers here, to try executor=dask://...",
        usage="[workers=N] [port=N]",
        variables=("workers", "port"),
        function="cluster_command:cluster",
    ),
    Command(
        name="gc",
        purpose="remove the least recently used results until the store fits its limit",
        usage="[limit=SIZE]",
        variables=("limit",),
        function="store_commands:collect_garbage",
    ),
    Command(
        name="store",
        purpose="show size, hit rate and users of the store; `verify` re-hashes it",
        usage="[verify]",
        function="store_commands:show_or_verify",
        takes_tasks=True,
        options=(JSON,),
    ),
    Command(
        name="audit",
        purpose="run cached actions again and compare: finds wrong results in a cache",
        usage="[sample=N|all] [TASK ...]",
        variables=("model", "target", "sample", "seed"),
        function="audit_command:audit",
        takes_tasks=True,
        options=(AUDIT_JSON,),
    ),
    Command(
        name="graph",
        purpose="draw the actions of a model and target, or of tasks, as SVG",
        usage="[TASK ...]",
        variables=TASKS,
        function="report_commands:graph",
        takes_tasks=True,
    ),
    Command(
        name="report",
        purpose="write a page on the builds: checks, benchmarks, sizes, reasons",
        function="report_commands:report",
    ),
)

# Commands of doit that change or show doit's own records, which ingot does not write,
# and what to use instead of each.
UNSUPPORTED = {
    "clean": "`rm -r build` removes the build outputs, `doit gc` old results",
    "forget": "`INGOT_CACHE=FOLDER doit ...` runs everything again, with another store",
    "ignore": "`doit STAGE`, such as `doit check`, stops at that stage",
    "reset-dep": "`doit why` shows what would run, and which input changed",
    "dumpdb": "`doit report` shows the builds, `doit why` what changed since",
    "strace": "an action sees only declared inputs; its failure names missing ones",
}

BY_NAME = {command.name: command for command in COMMANDS} | {
    name: Command(name, "has no effect here", function="") for name in UNSUPPORTED
}


def unsupported(name: str) -> IngotError:
    """Return the error for a command of doit that would have no effect."""
    return IngotError(
        f"doit {name} has no effect here: ingot keeps its own records",
        UNSUPPORTED[name],
    )
