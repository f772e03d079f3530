"""Join a file that was published in parts, and verify it."""

from __future__ import annotations

import hashlib
import shutil
import sys
from pathlib import Path

from ingot.codec import from_json
from ingot.errors import IngotError
from ingot.programs.join.spec import JoinSpec

_BLOCK_BYTES = 1 << 20


def main() -> None:
    """Join the file of the specification in `argv[1]`."""
    specification = from_json(JoinSpec, Path(sys.argv[1]).read_bytes())
    try:
        join(specification)
    except IngotError as error:
        sys.exit(str(error))


def join(specification: JoinSpec) -> None:
    """Write the parts one after the other into one file in the working folder.

    Raises: IngotError if it has another sha256; no file is left then.
    """
    output = Path(specification.output)
    with output.open("wb") as file:
        for path, _ in specification.parts:
            with Path(path).open("rb") as part:
                shutil.copyfileobj(part, file, _BLOCK_BYTES)
    with output.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found == specification.sha256:
        return
    output.unlink()
    sizes = "\n  ".join(
        f"{number}. {label}, {Path(path).stat().st_size} bytes"
        for number, (path, label) in enumerate(specification.parts, 1)
    )
    raise IngotError(
        f"{specification.output}: the parts do not make the pinned file; expected"
        f" sha256 {specification.sha256}, found {found}\n  {sizes}",
        "list all parts of one release under weights.source.parts, in their order",
    )


if __name__ == "__main__":
    main()
