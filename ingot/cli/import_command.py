"""Run `doit import`: write a manifest for a checkpoint of a known architecture."""

from __future__ import annotations

from ingot.cli.commands import Call
from ingot.cli.variables import integer
from ingot.errors import IngotError
from ingot.imports.checkpoint import import_checkpoint


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
    return 0
