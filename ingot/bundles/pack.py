"""Pack a bundle as a tar, as a stream: nothing but the tar is written."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

from ingot.bundles.reader import Bundle, open_bundle
from ingot.bundles.tarball import write_tar
from ingot.errors import IngotError


@dataclass(slots=True)
class Hashing:
    """Hashes what is written, and passes it on if there is somewhere to pass it to."""

    to: BinaryIO | None = None
    hasher: Any = field(default_factory=hashlib.sha256)
    size_bytes: int = 0

    def write(self, content: bytes) -> int:
        """Take the next bytes."""
        self.hasher.update(content)
        self.size_bytes += len(content)
        if self.to is not None:
            self.to.write(content)
        return len(content)

    @property
    def digest(self) -> tuple[str, int]:
        """Return the sha256 and the size of what was written."""
        return self.hasher.hexdigest(), self.size_bytes


def pack(folder: Path, to: BinaryIO | None) -> tuple[str, int]:
    """Write the bundle in a folder as a tar; return the tar's sha256 and size.

    Every file is hashed while it is read. Without `to`, nothing is written.

    Raises: IngotError if it is not a bundle, if a file is missing or changed since the
        bundle was packed, or if its licence does not let others have it.
    """
    bundle = open_bundle(folder)
    _check_redistribution(bundle)
    return pack_files(bundle, to)


def pack_files(bundle: Bundle, to: BinaryIO | None) -> tuple[str, int]:
    """Write a bundle as a tar, whoever may have it; return its sha256 and size.

    Raises: IngotError if a file is missing or changed since the bundle was packed.
    """
    listed = {
        name: (item["sha256"], item["size_bytes"])
        for name, item in bundle.contract["files"].items()
    }
    files = {name: bundle.folder / name for name in (*listed, "bundle.json")}
    out = Hashing(to)
    write_tar(cast(BinaryIO, out), bundle.name.replace("@", "-"), files, listed)
    return out.digest


def _check_redistribution(bundle: Bundle) -> None:
    """Reject a bundle whose weights nobody may give to others.

    Raises: IngotError.
    """
    if bundle.contract.get("redistribution") == "no":
        raise IngotError(
            f"{bundle.name}: {bundle.contract['licence']} does not let you give these"
            " weights to others, so no tar is packed for them",
            "if its text allows it, write `redistribution: true` into the manifest",
        )
