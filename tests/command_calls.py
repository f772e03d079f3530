"""Call commands without a command line, with the words that doit would have parsed."""

from __future__ import annotations

from ingot.cli.commands import BUILD_OPTIONS, BY_NAME, Call

OPTIONS = {str(option["name"]): option["default"] for option in BUILD_OPTIONS}


def call(*words: str, **variables: str) -> Call:
    """A call with these words and variables, and no options."""
    return Call(words, variables, OPTIONS, {})


def run(name: str, *words: str, **variables: str) -> int:
    """Run the function of a command; return the exit code."""
    return int(BY_NAME[name].load()(call(*words, **variables)))
