"""Weights in, the parameter archive `model.irpa` and the report `bake.json` out.

The archive holds every parameter of the graph under its GGUF name, sorted, and nothing
else. What the source lacks, has too much of, or has in another form is an error, and
all errors are told at once.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from ingot.errors import IngotError, did_you_mean
from ingot.weights.archive import Baked, write
from ingot.weights.completeness import Wanted, match, unused
from ingot.weights.convert import from_seed, from_tensor, hash_tensor
from ingot.weights.elements import SAFETENSORS

if TYPE_CHECKING:
    from ingot.readers.manifest import Manifest
    from ingot.readers.safetensors import StoredTensor
    from ingot.values import Action

ARCHIVE = "model.irpa"
REPORT = "bake.json"
INDEX = Path("weights/model.safetensors.index.json")

# What `main` imports, below the root of the checkout.
PROGRAM = (
    "ingot/__init__.py",
    "ingot/edges/__init__.py",
    "ingot/edges/runtime.py",
    "ingot/errors.py",
    "ingot/readers/__init__.py",
    "ingot/readers/safetensors.py",
    "ingot/readers/shards.py",
    "ingot/readers/strict_json.py",
    "ingot/stages/__init__.py",
    "ingot/stages/bake.py",
    "ingot/weights/__init__.py",
    "ingot/weights/archive.py",
    "ingot/weights/completeness.py",
    "ingot/weights/convert.py",
    "ingot/weights/elements.py",
    "ingot/weights/synthetic.py",
)

LAYOUTS = ("plain",)
"""How parameters lie in the archive; plain: row-major, in the shape of the graph."""

_BLOCK_BYTES = 1 << 20


def plan_bake(manifest: Manifest, layout: str, root: Path) -> Action:
    """Return the action that bakes the model's weights in a layout.

    Raises: IngotError for a layout that is not known.
    """
    from ingot.values import Action, SourceFile, Text
    from ingot.weights.inputs import weight_files, weight_index

    if layout not in LAYOUTS:
        raise IngotError(
            f"bake:{manifest.model}@{layout}: no weight layout named '{layout}'",
            did_you_mean(layout, LAYOUTS, "layouts"),
        )
    source = manifest.weights.source
    files = weight_files(source)
    specification = _specification(manifest, layout)
    shown = f"build/{manifest.model}/weights/{layout}"
    return Action(
        task=f"bake:{manifest.model}@{layout}",
        argv=("python", "-m", "ingot.stages.bake", "spec.json"),
        inputs=(
            ("spec.json", Text(json.dumps(specification, indent=1, sort_keys=True))),
            *((file.path, file.source) for file in files),
            *weight_index(source),
            *((name, SourceFile(root / name)) for name in PROGRAM),
        ),
        outputs=(ARCHIVE, REPORT),
        tools=("python", "iree-base-runtime", "numpy"),
        shown=(f"{shown}/{ARCHIVE}", f"{shown}/{REPORT}"),
    )


def _specification(manifest: Manifest, layout: str) -> dict[str, Any]:
    from ingot.readers.sources import Synthetic
    from ingot.weights.inputs import weight_files

    weights = manifest.weights
    return {
        "model": manifest.model,
        "layout": layout,
        "origin": weights.source.origin,
        "seed": weights.source.seed if isinstance(weights.source, Synthetic) else None,
        "files": [
            {"path": file.path, "label": file.label, "sha256": file.sha256}
            for file in weight_files(weights.source)
        ],
        "ignore": weights.ignore,
        "parameters": [
            {
                "name": parameter.name,
                "shape": parameter.type.shape,
                "tensor": parameter.source_name,
                "source": weights.policy(parameter.name).source,
                # The type that components compute in changes nothing in the archive.
                "stored": parameter.type.element,
            }
            for parameter in manifest.graph.parameters
        ],
    }


def main() -> None:
    """Bake what the specification that `argv[1]` names says, into this folder."""
    specification = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    defects: tuple[Exception, ...] = ()
    try:
        bake(specification)
    except* IngotError as group:
        # Left here, not by sys.exit: what an except* block raises becomes a group.
        defects = group.exceptions
    if defects:
        sys.exit("\n".join(map(str, defects)))


def bake(specification: dict[str, Any]) -> None:
    """Write `model.irpa` and `bake.json` into the working folder.

    Raises: ExceptionGroup of IngotError, every defect of the weights.
    """
    wanted = tuple(
        Wanted(
            name=item["name"],
            shape=tuple(item["shape"]),
            tensor=item["tensor"],
            source=item["source"],
            stored=item["stored"],
        )
        for item in sorted(specification["parameters"], key=lambda item: item["name"])
    )
    files = [_identify(file) for file in specification["files"]]
    scratch = Path("converted.bin")
    with scratch.open("wb") as appended:
        if specification["seed"] is None:
            baked, ignored = _from_files(specification, wanted, appended)
        else:
            seed, label = specification["seed"], specification["origin"]
            baked, ignored = (
                [
                    Baked(item, from_seed(item, seed, appended), label, item.name)
                    for item in wanted
                ],
                (),
            )
    write(Path(ARCHIVE), baked)
    scratch.unlink()
    report = _report(specification, files, ignored, baked)
    Path(REPORT).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def _identify(file: dict[str, Any]) -> dict[str, Any]:
    """Return the file's name, size and sha256, which is the pinned one.

    Raises: IngotError where it is another.
    """
    hasher, size_bytes = hashlib.sha256(), 0
    with Path(file["path"]).open("rb") as content:
        while block := content.read(_BLOCK_BYTES):
            hasher.update(block)
            size_bytes += len(block)
    found = hasher.hexdigest()
    if file["sha256"] not in (None, found):
        raise IngotError(
            f"{file['label']}: not the pinned file; expected sha256"
            f" {file['sha256']}, found {found}",
            "fetch it again; where the change is meant, write the new sha256 in"
            " weights.source",
        )
    return {"file": file["label"], "size_bytes": size_bytes, "sha256": found}


def _from_files(
    specification: dict[str, Any], wanted: tuple[Wanted, ...], scratch: IO[bytes]
) -> tuple[list[Baked], tuple[str, ...]]:
    paths = {file["label"]: Path(file["path"]) for file in specification["files"]}
    ignore = tuple(specification["ignore"])
    matched = match(wanted, _tensors(paths), ignore, specification["origin"])
    errors = list(matched.errors)
    baked = []
    for item, tensor in matched.pairs:
        if tensor.element != SAFETENSORS[item.source]:
            continue
        try:
            content = from_tensor(item, tensor, paths[tensor.file], scratch)
        except IngotError as error:
            errors.append(error)
        else:
            baked.append(Baked(item, content, tensor.file, tensor.name))
    errors += _unused(matched.unused, baked, paths)
    if errors:
        raise ExceptionGroup(
            f"{specification['model']}: the weights do not fit", errors
        )
    return baked, matched.ignored


def _tensors(paths: dict[str, Path]) -> tuple[StoredTensor, ...]:
    from ingot.readers.safetensors import read_header
    from ingot.readers.shards import check_index, read_index

    tensors = tuple(
        tensor for label, path in paths.items() for tensor in read_header(path, label)
    )
    if INDEX.exists():
        check_index(read_index(INDEX, INDEX.name), tensors, INDEX.name)
    return tensors


def _unused(
    tensors: tuple[StoredTensor, ...], baked: list[Baked], paths: dict[str, Path]
) -> list[IngotError]:
    twins = {
        (SAFETENSORS[item.wanted.stored], item.wanted.shape, item.content.sha256): item
        for item in baked
    }
    errors = []
    for tensor in tensors:
        digest = hash_tensor(tensor, paths[tensor.file])
        twin = twins.get((tensor.element, tensor.shape, digest))
        errors.append(unused(tensor, twin.tensor if twin else None))
    return errors


def _report(
    specification: dict[str, Any],
    files: list[dict[str, Any]],
    ignored: tuple[str, ...],
    baked: list[Baked],
) -> dict[str, Any]:
    return {
        "model": specification["model"],
        "layout": specification["layout"],
        "origin": specification["origin"],
        "files": files,
        "ignored": ignored,
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
                    "type": item.wanted.source,
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
