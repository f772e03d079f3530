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
from typing import TYPE_CHECKING, Any

from ingot.errors import IngotError
from ingot.weights.archive import write
from ingot.weights.collect import Collected, from_files, synthetic
from ingot.weights.parameter_spec import Form, Part, Wanted, container
from ingot.weights.splat import splat

if TYPE_CHECKING:
    from ingot.engine.actions import Action
    from ingot.model.graph import Parameter
    from ingot.model.manifest import Manifest

ARCHIVE = "model.irpa"
REPORT = "bake.json"

# What `main` imports, below the root of the checkout.
PROGRAM = (
    "ingot/__init__.py",
    "ingot/errors.py",
    "ingot/stages/__init__.py",
    "ingot/stages/bake.py",
    "ingot/weights/__init__.py",
    "ingot/weights/archive.py",
    "ingot/weights/collect.py",
    "ingot/weights/convert.py",
    "ingot/weights/element_types.py",
    "ingot/weights/gguf.py",
    "ingot/weights/irpa.py",
    "ingot/weights/match.py",
    "ingot/weights/packing.py",
    "ingot/weights/parameter_spec.py",
    "ingot/weights/relayout.py",
    "ingot/weights/safetensors.py",
    "ingot/weights/shards.py",
    "ingot/weights/splat.py",
    "ingot/weights/strict_json.py",
    "ingot/weights/synthetic.py",
    "ingot/weights/tables.py",
)

_BLOCK_BYTES = 1 << 20


def plan_bake(manifest: Manifest, root: Path) -> Action:
    """Return the action that bakes the model's weights in its graph's layout."""
    from ingot.engine.actions import Action, InlineText, SourceFile
    from ingot.model.weight_files import weight_files, weight_index

    layout, source = manifest.graph.layout, manifest.weights.source
    files = weight_files(source)
    specification = _specification(manifest)
    # Its import takes 0.2 s, and other formats do without.
    package = ("gguf", "pyyaml") if any(_is_gguf(file.path) for file in files) else ()
    shown = f"build/{manifest.model}/weights/{layout}"
    return Action(
        task=f"bake:{manifest.model}@{layout}",
        argv=("python", "-m", "ingot.stages.bake", "spec.json"),
        inputs=(
            (
                "spec.json",
                InlineText(json.dumps(specification, indent=1, sort_keys=True)),
            ),
            *((file.path, file.source) for file in files),
            *weight_index(source),
            *((name, SourceFile(root / name)) for name in PROGRAM),
        ),
        outputs=(ARCHIVE, REPORT),
        tools=("python", "iree-base-runtime", "ml_dtypes", "numpy", *package),
        exported_to=(f"{shown}/{ARCHIVE}", f"{shown}/{REPORT}"),
    )


def _is_gguf(path: str) -> bool:
    return container(Path(path)) == "gguf"


def _specification(manifest: Manifest) -> dict[str, Any]:
    from ingot.model.weight_files import weight_files
    from ingot.model.weight_sources import Splat, Synthetic

    weights = manifest.weights
    return {
        "model": manifest.model,
        "layout": manifest.graph.layout,
        "origin": weights.source.origin,
        "seed": weights.source.seed if isinstance(weights.source, Synthetic) else None,
        "splat": weights.source.value if isinstance(weights.source, Splat) else None,
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
                "offset": parameter.offset,
                "interleaved_heads": parameter.interleaved_heads,
                "table": parameter.table,
                **_form(parameter),
            }
            for parameter in manifest.graph.parameters
            if parameter.packing is None
        ]
        + _matrices(manifest),
    }


def _matrices(manifest: Manifest) -> list[dict[str, Any]]:
    """Return the packed matrices, each once, with the parts that it is stored as."""
    parts: dict[str, list[Parameter]] = {}
    for parameter in manifest.graph.parameters:
        if parameter.packing:
            parts.setdefault(parameter.packing.matrix, []).append(parameter)
    found = []
    for matrix, stored in parts.items():
        packing = stored[0].packing
        assert packing
        found.append(
            {
                "name": matrix,
                "shape": packing.shape,
                "tensor": stored[0].source_name,
                "source": manifest.weights.policy(matrix).source,
                "stored": packing.scheme,
                "offset": stored[0].offset,
                "interleaved_heads": stored[0].interleaved_heads,
                "table": None,
                **_form(stored[0]),
                "lane": packing.lane,
                "parts": [
                    {
                        "name": item.name,
                        "argument": item.packing.part if item.packing else "",
                        "element": item.type.element,
                        "shape": item.type.shape,
                    }
                    for item in stored
                ],
            }
        )
    return found


def _form(parameter: Parameter) -> dict[str, Any]:
    """Return what says how tensors of other dims hold the parameter, if they do."""
    form = parameter.form
    if form is None:
        return {}
    return {"form": {"shape": form.shape, "row": form.row, "axes": form.axes}}


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
        _wanted(item)
        for item in sorted(specification["parameters"], key=lambda item: item["name"])
    )
    if specification["splat"] is not None:
        report = splat(Path(ARCHIVE), wanted, specification)
        Path(REPORT).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
        return
    files = [_identify(file) for file in specification["files"]]
    seed, origin = specification["seed"], specification["origin"]
    scratch = Path("converted.bin")
    with scratch.open("wb") as appended:
        if seed is not None:
            collected = synthetic(wanted, seed, origin, appended)
        else:
            paths = {
                file["label"]: Path(file["path"]) for file in specification["files"]
            }
            ignore = tuple(specification["ignore"])
            collected = from_files(wanted, paths, ignore, origin, appended)
    # By name, as the archive's readers expect: parts stand beside their matrix.
    collected.baked.sort(key=lambda item: item.wanted.name)
    write(Path(ARCHIVE), collected.baked)
    scratch.unlink()
    report = _report(specification, files, collected)
    Path(REPORT).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def _wanted(item: dict[str, Any]) -> Wanted:
    table, form = item["table"], item.get("form")
    return Wanted(
        name=item["name"],
        shape=tuple(item["shape"]),
        tensor=item["tensor"],
        source=item["source"],
        stored=item["stored"],
        offset=item["offset"],
        interleaved_heads=item["interleaved_heads"],
        table=(table[0], table[1]) if table else None,
        form=Form(tuple(form["shape"]), form["row"], tuple(form["axes"]))
        if form
        else None,
        lane=item.get("lane", 1),
        parts=tuple(
            Part(part["name"], part["argument"], part["element"], tuple(part["shape"]))
            for part in item.get("parts", ())
        ),
    )


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


def _report(
    specification: dict[str, Any],
    files: list[dict[str, Any]],
    collected: Collected,
) -> dict[str, Any]:
    baked = collected.baked
    return {
        "model": specification["model"],
        "layout": specification["layout"],
        "origin": specification["origin"],
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
