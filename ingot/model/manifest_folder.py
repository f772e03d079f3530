"""Find the files that a manifest names, none of them outside of what it may read.

A manifest may come from somebody else. It names files by paths, and what it names ends
in the store, in logs, and perhaps in a shared cache. So it reads outside of its project
only where the user has said so.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # Help waits for no YAML.
    from ingot.model.schema_types import Place

VARIABLE = "INGOT_ALLOW_OUTSIDE"


@dataclass(frozen=True, slots=True)
class ManifestFolder:
    """The folder of a manifest, and the files and folders that it may read."""

    path: Path
    # None where the user has named the files for this command: an import.
    readable: tuple[Path, ...] | None = None

    def find(self, name: str, at: Place, part: str) -> Path:
        """Return the path of a file or folder that a part of the manifest names.

        Raises: ManifestError if it is outside of what the manifest may read, whether
            or not it exists.
        """
        path = self.path / name
        if self.readable is None or self._may_read(path):
            return path
        folder = Path(os.path.abspath(path)).parent
        raise at.error(
            part,
            f"'{name}' is outside of the project, which a manifest reads only by your"
            " word",
            f"if you know the manifest: {VARIABLE}={folder} doit ...",
        )

    def _may_read(self, path: Path) -> bool:
        # A link in the project leads where it leads.
        real = Path(os.path.realpath(path))
        assert self.readable is not None
        return any(real.is_relative_to(os.path.realpath(p)) for p in self.readable)
