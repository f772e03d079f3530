"""doit's command `import`: a manifest for a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from doit.cmd_base import Command
from doit.exceptions import InvalidCommand

from ingot.front.commands import guarded, variables


class Import(Command):  # type: ignore[misc]
    """A manifest for a checkpoint of a known architecture."""

    name = "import"
    doc_purpose = "write the manifest of a checkpoint: safetensors or GGUF"
    doc_usage = "source=PATH [model=NAME] [licence=SPDX-ID] [n_ctx=N]"
    doc_description = None

    def execute(self, params: Any, args: list[str]) -> int:
        """Write the manifest; print what was decided and from where."""

        def bring_in() -> int:
            from ingot.imports.checkpoint import import_checkpoint

            if args:
                raise InvalidCommand(f"import takes no task, found '{args[0]}'")
            print(import_checkpoint(Path.cwd(), variables()))
            return 0

        return guarded(bring_in)
