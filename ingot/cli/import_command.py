"""Run `doit import`: write a manifest for a checkpoint of a known architecture."""

from __future__ import annotations

from pathlib import Path

from ingot.cli.commands import Call
from ingot.cli.variables import integer
from ingot.errors import IngotError
from ingot.imports.checkpoint import import_checkpoint
from ingot.project.allowed_paths import allow


def import_(call: Call) -> int:
    """Write the manifest; print each value and its source."""
    given = call.variables
    if not given.get("source"):
        raise IngotError(
            "import needs source=PATH, a checkpoint's folder or a GGUF file"
        )
    imported = import_checkpoint(
        call.root,
        given["source"],
        model=given.get("model"),
        licence=given.get("licence"),
        n_ctx=integer(given, "n_ctx", 0),
        stored=given.get("stored"),
        ignored=tuple(filter(None, given.get("ignore", "").split(","))),
    )
    print(imported)
    # The user has named it: from now on the manifest may read it.
    allow(call.root, Path(given["source"]).expanduser())
    return 0
