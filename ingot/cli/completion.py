"""Complete words of a command line for shells: `ingot completion bash`.

A shell asks `ingot --complete LINE` for what may stand at the end of a line. It answers
from file names and the table of commands, and plans nothing, so that it takes no longer
than `ingot --help`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ingot.cli.commands import BY_NAME, COMMANDS, SENTENCES, TASKS, UNSUPPORTED, Call
from ingot.cli.installation import project_root
from ingot.errors import IngotError, did_you_mean
from ingot.model import library
from ingot.project.catalogue import STAGES

# What readline takes for the start of a word is cut off what it gets.
_BASH = """\
_ingot() {
    local line=${COMP_LINE:0:COMP_POINT}
    local word=${line##*[[:space:]]}
    local kept=${word%"${word##*[=:]}"}
    mapfile -t COMPREPLY < <(ingot --complete "$line" 2>/dev/null)
    COMPREPLY=("${COMPREPLY[@]#"$kept"}")
    case ${COMPREPLY[0]-} in *=) compopt -o nospace ;; esac
}
complete -o default -F _ingot ingot doit
"""
_ZSH = """\
#compdef ingot doit
_ingot() {
    local -a found
    found=(${(f)"$(ingot --complete "$LBUFFER" 2>/dev/null)"})
    if (( ! $#found )); then
        compset -P '*='
        _files
        return
    fi
    compadd -S '' -- ${(M)found:#*=}
    compadd -- ${found:#*=}
}
compdef _ingot ingot doit
"""
_FISH = """\
for program in ingot doit
    complete -c $program -f -a '(ingot --complete (commandline -cp | string collect))'
end
"""
SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}

# Values of variables that are one of a few words.
_CHOICES = {
    "long": ("refuse", "cut", "split"),
    "run": ("yes", "no"),
    "level": ("graph", "linalg", "tensor", "program"),
    "template": ("none",),
    "executor": ("local", "dask://", "grpc://"),
}


def completion(call: Call) -> int:
    """Print the script that makes a shell complete ingot's command lines.

    Raises: IngotError if the shell is none of those that are known.
    """
    if len(call.words) != 1 or call.words[0] not in SCRIPTS:
        found = " ".join(call.words) or "nothing"
        hint = did_you_mean(found, list(SCRIPTS), "shells")
        raise IngotError(f"completion: expected a shell, found {found}", hint)
    print(SCRIPTS[call.words[0]], end="")
    return 0


def candidates(line: str, folder: Path) -> list[str]:
    """Return the words with which the last one of a line may be completed.

    `line` is the command line up to the cursor, with the name of the program.
    """
    *before, word = line.split(" ")
    words = [item for item in before[1:] if item]
    root = project_root(folder) or folder
    name, equals, value = word.partition("=")
    if equals:
        found = _values(name, value, root)
    elif word.startswith("-"):
        found = _options(words)
    elif ":" in word:
        found = _tasks(word.partition(":")[0], root)
    else:
        found = _names(words)
    return sorted(item for item in found if item.startswith(word))


def _command(words: list[str]) -> str:
    """Return the command of a line; a build has none, or options before a task."""
    return words[0] if words and words[0] in BY_NAME else "run"


def _names(words: list[str]) -> Iterable[str]:
    """Return commands and stages for the first word, and variables for others."""
    command = BY_NAME[_command(words)]
    own = (*TASKS, *SENTENCES) if command.name == "run" else command.variables or ()
    variables = (f"{name}=" for name in own)
    if words:
        return variables
    commands = (item.name for item in COMMANDS if item.name not in UNSUPPORTED)
    return (*commands, "build", *STAGES)


def _options(words: list[str]) -> Iterable[str]:
    options = BY_NAME[_command(words)].options
    return ("--help", *(f"--{option['long']}" for option in options))


def _values(name: str, value: str, root: Path) -> Iterable[str]:
    """Return NAME=VALUE for each value; of several, the last is completed."""
    choices: Iterable[str] = _CHOICES.get(name, ())
    before = ""
    if name in ("model", "target"):
        before, comma, _ = value.rpartition(",")
        before += comma
        choices = (*_stems(root, f"{name}s"), "all")
    return (f"{name}={before}{choice}" for choice in choices)


def _tasks(stage: str, root: Path) -> Iterable[str]:
    """Return STAGE:MODEL@TARGET for each model and target."""
    if stage not in STAGES:
        return ()
    targets = _stems(root, "targets")
    return (
        f"{stage}:{model}@{target}"
        for model in _stems(root, "models")
        for target in targets
    )


def _stems(root: Path, folder: str) -> list[str]:
    return [Path(name).stem for name in library.names(root, f"{folder}/*.yaml")]
