"""Test the completion of command lines, in the shells themselves."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ingot.cli.completion import SCRIPTS, candidates
from ingot.errors import IngotError
from tests.command_calls import run
from tests.source_tree import ROOT

# Calls the script's function as bash does, with the cursor at the end of the line.
BASH = """\
eval "$(ingot completion bash)"
COMP_LINE=$1 COMP_POINT=${#1}
_ingot 2>/dev/null
printf '%s\\n' "${COMPREPLY[@]}"
"""
FISH = """\
ingot completion fish | source
complete -C $argv[1]
"""
# zsh completes only for a person, so one types here.
ZSH = """\
zmodload zsh/zpty
zpty typed zsh -f -i
zpty -w typed 'PS1=; autoload -U compinit; compinit -u -D'
zpty -w typed 'eval "$(ingot completion zsh)"'
zpty -w typed 'echo rea''dy'
zpty -r typed shown '*ready*'
zpty -w -n typed "$1"$'\\t'
zpty -r typed shown "*$2*" && print found
zpty -d typed
"""


def complete(*words: str) -> str:
    """What a shell's program prints, with this environment's `ingot` on its path."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    ran = subprocess.run(
        words,
        cwd=ROOT,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ingot ch", ["chat", "check"]),
        ("ingot build model=qwen3", ["model=qwen3-0.6b"]),
        ("ingot build model=toy-moe,qwen3", ["model=toy-moe,qwen3-0.6b"]),
        ("ingot build -n 1 target=aar", ["target=aarch64"]),
        ("ingot check:toy-moe@aar", ["check:toy-moe@aarch64"]),
        ("ingot verify r", ["run="]),
        ("ingot verify run=", ["run=no", "run=yes"]),
        ("ingot list --", ["--help", "--json"]),
        ("ingot build source=ing", []),
    ],
)
def test_the_last_word_of_a_line_is_completed(line: str, expected: list[str]) -> None:
    assert candidates(line, ROOT / "docs") == expected


def test_bash_gets_what_readline_has_not_kept() -> None:
    for line, expected in (
        ("ingot ch", "chat\ncheck\n"),
        ("doit build model=qwen3", "qwen3-0.6b\n"),
        ("ingot check:toy-moe@aar", "toy-moe@aarch64\n"),
    ):
        assert complete("bash", "-c", BASH, "bash", line) == expected


@pytest.mark.shells
def test_fish_completes_values() -> None:
    line = "ingot build model=qwen3"
    assert complete("fish", "--no-config", "-c", FISH, line) == "model=qwen3-0.6b\n"


@pytest.mark.shells
def test_zsh_completes_values() -> None:
    words = ("ingot build model=qwen3", "qwen3-0.6b")
    assert complete("zsh", "-f", "-c", ZSH, "zsh", *words) == "found\n"


def test_another_shell_is_rejected() -> None:
    with pytest.raises(IngotError) as caught:
        run("completion", "tcsh")
    told = "completion: expected a shell, found tcsh\n  known shells: "
    assert str(caught.value) == told + ", ".join(sorted(SCRIPTS))
