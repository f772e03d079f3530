"""Bake weights: write the parameter archive `model.irpa` and the report `bake.json`.

The archive contains every parameter of the graph under its GGUF name, sorted, and
nothing else. A tensor that the source lacks, has in addition, or has in another form is
an error; all errors are reported at once.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
from pathlib import Path
from typing import Any

from ingot.codec import from_json
from ingot.errors import IngotError
from ingot.programs.bake.spec import ARCHIVE, REPORT, BakeSpec, InputFile
from ingot.weights.archive import write
from ingot.weights.collect import Collected, from_files, synthetic
from ingot.weights.splat import splat

_BLOCK_BYTES = 1 << 20


def main() -> None:
    """Bake the weights of the specification in `argv[1]` into the working folder."""
    specification = from_json(BakeSpec, Path(sys.argv[1]).read_bytes())
    errors: tuple[Exception, ...] = ()
    try:
        bake(specification)
    except* IngotError as group:
        # Do not exit in this block: an except* block raises its exceptions as a group.
        errors = group.exceptions
    if errors:
        sys.exit("\n".join(map(str, errors)))


def bake(specification: BakeSpec) -> None:
    """Write `model.irpa` and `bake.json` into the working folder.

    Raises: ExceptionGroup of IngotError, with every error in the weights.
    """
    wanted = tuple(sorted(specification.parameters, key=lambda item: item.name))
    if specification.splat is not None:
        report = splat(Path(ARCHIVE), wanted, specification.splat)
        _write_report(specification, report)
        return
    files = [_identify(file) for file in specification.files]
    seed, origin = specification.seed, specification.origin
    scratch = Path("converted.bin")
    with scratch.open("wb") as appended:
        if seed is not None:
            collected = synthetic(wanted, seed, origin, appended)
        else:
            paths = {file.label: Path(file.path) for file in specification.files}
            collected = from_files(
                wanted, paths, specification.ignore, origin, appended
            )
    # Readers of archives expect this order: parts are next to their matrix.
    collected.baked.sort(key=lambda item: item.wanted.name)
    write(Path(ARCHIVE), collected.baked)
    scratch.unlink()
    _write_report(specification, _report(files, collected))


def _identify(file: InputFile) -> dict[str, Any]:
    """Return the file's name, size and sha256.

    Raises: IngotError if the sha256 is not the pinned one.
    """
    hasher, size_bytes = hashlib.sha256(), 0
    with Path(file.path).open("rb") as content:
        while block := content.read(_BLOCK_BYTES):
            hasher.update(block)
            size_bytes += len(block)
    found = hasher.hexdigest()
    if file.sha256 not in (None, found):
        raise IngotError(
            f"{file.label}: not the pinned file; expected sha256"
            f" {file.sha256}, found {found}",
            "fetch it again; if the change is intended, write the new sha256 into"
            " weights.source",
        )
    return {"file": file.label, "size_bytes": size_bytes, "sha256": found}


def _write_report(specification: BakeSpec, report: dict[str, Any]) -> None:
    text = json.dumps(
        {
            "model": specification.model,
            "layout": specification.layout,
            "origin": specification.origin,
            **report,
        },
        indent=1,
    )
    Path(REPORT).write_text(text + "\n", encoding="utf-8")


def _report(files: list[dict[str, Any]], collected: Collected) -> dict[str, Any]:
    baked = collected.baked
    return {
        "files": files,
        "ignored": collected.ignored,
        "parameters": [
            {
                "name": item.wanted.name,
                "type": item.wanted.stored,
                "shape": item.wanted.shape,
                "size_bytes": item.content.size_bytes,
                "sha256": item.content.sha256,
                "source": {
                    "file": item.file,
                    "tensor": item.tensor,
                    "type": item.element,
                },
            }
            for item in baked
        ],
        "totals": {
            "parameters": len(baked),
            "elements": sum(math.prod(item.wanted.shape) for item in baked),
            "size_bytes": sum(item.content.size_bytes for item in baked),
            "archive_bytes": Path(ARCHIVE).stat().st_size,
        },
    }


if __name__ == "__main__":
    main()
