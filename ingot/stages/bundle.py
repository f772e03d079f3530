"""Everything that ships in, one folder, one reproducible tar and what it is worth out.

`bundle.json` names every file by digest and says how to call the model and where it
came from; what does not fit is refused here, not at a customer's. Measured times differ
from build to build, so they are in none of the shipped bytes: they lie beside the tar,
in `<bundle>.bench.json`, which names the tar by its digest.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ingot.errors import IngotError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingot.engine.actions import Action, Source
    from ingot.model.manifest import Manifest
    from ingot.model.target import Target

# What `main` imports, below the root of the checkout.
PROGRAM = (
    "ingot/__init__.py",
    "ingot/bundles/__init__.py",
    "ingot/bundles/seal.py",
    "ingot/bundles/tarball.py",
    "ingot/checks/__init__.py",
    "ingot/checks/artifact_fit.py",
    "ingot/engine/__init__.py",
    "ingot/engine/process.py",
    "ingot/errors.py",
    "ingot/stages/__init__.py",
    "ingot/stages/bundle.py",
    "ingot/weights/__init__.py",
    "ingot/weights/element_types.py",
    "ingot/weights/irpa.py",
)

TOOLS = ("python", "numpy", "ml_dtypes", "iree-base-runtime", "iree-base-compiler")

FOLDER = "bundle"


def plan_bundle(
    manifest: Manifest, target: Target, compiled: Sequence[Action], root: Path
) -> Action:
    """Return the action that makes the folder, the tar and the times beside it.

    `compiled` are the actions that make `model.vmfb`: `bundle.json` has their commands.
    """
    from ingot.bundles.contract import declaration
    from ingot.engine.actions import Action, InlineText, SourceFile

    model, name = manifest.model, target.resolved
    bundle = f"{model}-{name}"
    sources = _sources(manifest, target, root)
    commands = [action.argv for action in compiled]
    specification = {
        "task": f"bundle {model}@{name}",
        "bundle": bundle,
        "files": _files(manifest),
        "sources": tuple(sources),
        "weights_origin": manifest.weights.source.origin,
        "contract": declaration(manifest, target, commands),
    }
    outputs = (
        *(f"{FOLDER}/{file}" for file in _files(manifest)),
        f"{bundle}.tar",
        f"{bundle}.bench.json",
    )
    return Action(
        task=f"bundle:{model}@{name}",
        argv=("python", "-m", "ingot.stages.bundle", "spec.json"),
        inputs=(
            ("spec.json", InlineText(_dump(specification))),
            *_parts(manifest, target),
            *((f"sources/{path}", SourceFile(file)) for path, file in sources.items()),
            *((path, SourceFile(root / path)) for path in PROGRAM),
        ),
        outputs=outputs,
        tools=TOOLS,
        exported_to=tuple(f"build/{model}/{name}/{output}" for output in outputs),
    )


def _parts(manifest: Manifest, target: Target) -> tuple[tuple[str, Source], ...]:
    """Return what earlier stages and the manifest give to the bundle."""
    from ingot.engine.actions import Output
    from ingot.model.weight_files import file_input

    model, name, layout = manifest.model, target.resolved, target.layout.name
    parts: dict[str, Source] = {
        "linked.mlir": Output(f"link:{model}@{layout}", "linked.mlir"),
        "model.vmfb": Output(f"compile:{model}@{name}", "model.vmfb"),
        "model.irpa": Output(f"bake:{model}@{layout}", "model.irpa"),
        "bake.json": Output(f"bake:{model}@{layout}", "bake.json"),
        "check.json": Output(f"check:{model}@{name}", "check.json"),
        "golden.json": Output(f"check:{model}@{name}", "golden.json"),
        "bench.json": Output(f"bench:{model}@{name}", "bench.json"),
    }
    if manifest.tokenizer:
        parts["tokenizer.json"] = file_input(manifest.tokenizer)
    return tuple(parts.items())


def _files(manifest: Manifest) -> tuple[str, ...]:
    """Return the names of the files in the bundle."""
    names = ["LICENCE", "bundle.json", "check.json", "golden.json", "model.irpa"]
    names.append("model.vmfb")
    if manifest.tokenizer:
        names.append("tokenizer.json")
    return tuple(sorted(names))


def _sources(manifest: Manifest, target: Target, root: Path) -> dict[str, Path]:
    """Return the sources whose digests are told, by their place in the checkout."""
    from ingot.model.licence import FOLDER, licences

    components = sorted({item.component for item in manifest.graph.instances})
    paths = (
        manifest.path,
        f"models/architectures/{manifest.architecture}.yaml",
        target.path,
        target.layout.path,
        *(name for name, _ in target.compile_inputs),
        *(f"components/{name}.mlir" for name in components),
        *(f"{FOLDER}/{name}.txt" for name in licences(manifest.licence)),
    )
    return {path: root / path for path in paths}


def main() -> None:
    """Run the specification that `argv[1]` names."""
    specification = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    try:
        print(bundle(specification))
    except IngotError as error:
        raise SystemExit(f"{specification['task']}: {error}") from None


def bundle(specification: dict[str, Any]) -> str:
    """Make the folder, the tar and the times; return what people read.

    Raises: IngotError where the parts do not fit, or the check did not pass.
    """
    from ingot.bundles.seal import seal
    from ingot.bundles.tarball import file_digest, write_tar

    _refuse_misfits()
    folder = Path(FOLDER)
    folder.mkdir(exist_ok=True)
    _write_parts(specification, folder)
    names = [name for name in specification["files"] if name != "bundle.json"]
    contract = _contract(specification, folder, names)
    (folder / "bundle.json").write_text(seal(contract), encoding="utf-8")
    tar = Path(f"{specification['bundle']}.tar")
    write_tar(
        tar,
        specification["bundle"],
        {name: folder / name for name in specification["files"]},
    )
    sha256, size_bytes = file_digest(tar)
    times = {
        **_load("bench.json"),
        "bundle": {"file": tar.name, "sha256": sha256, "size_bytes": size_bytes},
    }
    Path(f"{specification['bundle']}.bench.json").write_text(
        _dump(times), encoding="utf-8"
    )
    lines = [f"{tar.name}: {size_bytes} bytes, sha256 {sha256}"]
    lines += [
        f"  {name:<16}{item['size_bytes']:>12}  {item['sha256'][:12]}"
        for name, item in contract["files"].items()
    ]
    return "\n".join(lines)


def _refuse_misfits() -> None:
    """Compare module, archive and reports.

    Raises: IngotError for all that does not fit.
    """
    from ingot.checks.artifact_fit import check_parameters

    problems = check_parameters(
        Path("linked.mlir").read_text(encoding="utf-8"),
        Path("model.vmfb").read_bytes(),
        Path("model.irpa"),
        _load("bake.json"),
    )
    if not _load("check.json")["passed"]:
        problems.append("check.json: the check did not pass")
    if problems:
        raise IngotError("not bundled\n  " + "\n  ".join(problems))


def _write_parts(specification: dict[str, Any], folder: Path) -> None:
    """Write every file of the bundle but `bundle.json`."""
    for name in specification["files"]:
        if name not in ("LICENCE", "bundle.json"):
            shutil.copyfile(name, folder / name)
    texts = [
        Path(f"sources/{path}").read_text(encoding="utf-8")
        for path in specification["sources"]
        if path.startswith("models/licences/")
    ]
    (folder / "LICENCE").write_text("\n\n".join(texts), encoding="utf-8")


def _contract(
    specification: dict[str, Any], folder: Path, names: list[str]
) -> dict[str, Any]:
    """Return the content of `bundle.json`, without its own digest."""
    import importlib.metadata

    from ingot.bundles.tarball import file_digest

    baked, checked = _load("bake.json"), _load("check.json")
    contract = specification["contract"]
    return {
        **contract,
        "files": {name: _digest(*file_digest(folder / name)) for name in names},
        "parameters": {
            "scope": "model",
            "archive": "model.irpa",
            "types": {
                item["name"]: {"element": item["type"], "shape": item["shape"]}
                for item in baked["parameters"]
            },
        },
        "compiler": {
            **contract["compiler"],
            "version": importlib.metadata.version("iree-base-compiler"),
            "commit": _compiler_commit(),
        },
        "runtime": {
            "package": "iree-base-runtime",
            "version": importlib.metadata.version("iree-base-runtime"),
        },
        "inputs": _inputs(specification, baked),
        "check": {key: checked[key] for key in ("passed", "emulated", "levels")},
        # The times differ from build to build; the file beside the tar holds them.
        "benchmarks": {
            "file": f"{specification['bundle']}.bench.json",
            "schema": _load("bench.json")["schema"],
        },
    }


def _inputs(specification: dict[str, Any], baked: dict[str, Any]) -> dict[str, Any]:
    """Return the digests of all that the bundle was made from."""
    from ingot.bundles.tarball import file_digest

    return {
        "sources": {
            path: _digest(*file_digest(Path(f"sources/{path}")))
            for path in specification["sources"]
        },
        "linked_module": _digest(*file_digest(Path("linked.mlir"))),
        "weights": {
            "origin": specification["weights_origin"],
            "files": baked["files"],
        },
    }


def _compiler_commit() -> str:
    """Return the commit of IREE that the compiler was built from."""
    from iree.compiler import version

    return str(version.REVISIONS["IREE"])


def _digest(sha256: str, size_bytes: int) -> dict[str, Any]:
    return {"sha256": sha256, "size_bytes": size_bytes}


def _load(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(Path(name).read_text(encoding="utf-8"))
    return loaded


def _dump(value: Any) -> str:
    return json.dumps(value, indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    main()
