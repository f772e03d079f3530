"""Run `ingot init`: write the files of a new project."""

from __future__ import annotations

from ingot.cli.commands import BY_NAME, Call
from ingot.project import starter


def init(call: Call) -> int:
    """Write the project into this folder; print what was written and what is next."""
    texts = starter.files(call.root.name, BY_NAME)
    starter.write(call.root, texts)
    print("\n".join(texts))
    print("next: ingot build")
    return 0
