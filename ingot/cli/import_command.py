"""doit's command `import`: a manifest for a checkpoint."""

from __future__ import annotations

from pathlib import Path

from ingot.cli.commands import TaskFree, variables


class Import(TaskFree):
    """A manifest for a checkpoint of a known architecture."""

    name = "import"
    doc_purpose = "write the manifest of a checkpoint: safetensors or GGUF"
    doc_usage = "source=PATH [model=NAME] [licence=SPDX-ID] [n_ctx=N]"
    doc_description = None
    reads = None

    def work(self) -> int:
        """Write the manifest; print what was decided and from where."""
        from ingot.imports.checkpoint import import_checkpoint

        print(import_checkpoint(Path.cwd(), variables()))
        return 0
