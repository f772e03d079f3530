"""Pack a bundle: one folder, and a file with the times.

`bundle.json` lists every file with its digest and states how to call the model and
where it came from. The program rejects parts that do not fit each other. Measured times
differ from build to build, so the bundle does not contain them; they are in
`<bundle>.bench.json`, which names the bundle by the digest of its `bundle.json`.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from ingot.codec import from_json, to_json
from ingot.errors import IngotError
from ingot.programs.bundle.spec import FOLDER, WRITTEN, BundleSpec


def main() -> None:
    """Pack the bundle of the specification in `argv[1]`."""
    specification = from_json(BundleSpec, Path(sys.argv[1]).read_bytes())
    try:
        print(bundle(specification))
    except IngotError as error:
        raise SystemExit(f"{specification.task}: {error}") from None


def bundle(specification: BundleSpec) -> str:
    """Write the folder and the times; return the text to print.

    Raises: IngotError if the parts do not fit each other, or the check did not pass.
    """
    from ingot.bundles.contract import seal
    from ingot.bundles.tarball import file_digest

    _check_parts(specification)
    folder = Path(FOLDER)
    folder.mkdir(exist_ok=True)
    contract = _contract(specification)
    _write_parts(specification, folder, contract)
    names = [name for name in specification.files if name != "bundle.json"]
    contract["files"] = {name: _digest(*file_digest(folder / name)) for name in names}
    (folder / "bundle.json").write_text(seal(contract), encoding="utf-8")
    sha256, size_bytes = file_digest(folder / "bundle.json")
    times = {
        **_load("bench.json"),
        "bundle": {"file": "bundle.json", "sha256": sha256, "size_bytes": size_bytes},
    }
    text = to_json(times, indent=True) + "\n"
    Path(f"{specification.bundle}.bench.json").write_text(text, encoding="utf-8")
    lines = [f"bundle.json: {size_bytes} bytes, sha256 {sha256}"]
    if contract["redistribution"] == "no":
        lines[:0] = [
            f"redistribution: no; {contract['licence']} does not let you give these"
            " weights to others"
        ]
    lines += [
        f"  {name:<16}{item['size_bytes']:>12}  {item['sha256'][:12]}"
        for name, item in contract["files"].items()
    ]
    return "\n".join(lines)


def _check_parts(specification: BundleSpec) -> None:
    """Check that specification, module, archive and reports fit each other.

    Raises: IngotError with everything that does not fit.
    """
    from ingot.checks.artifact_fit import check_parameters

    baked = _load("bake.json")
    problems = check_parameters(
        Path("linked.mlir").read_text(encoding="utf-8"),
        Path("model.vmfb").read_bytes(),
        Path("model.irpa"),
        baked,
    )
    declared = {
        "model": specification.contract["model"],
        "layout": specification.contract["target"]["layout"],
        "origin": specification.weights_origin,
    }
    problems += [
        f"bake.json: wrong {key}; expected '{expected}', found '{baked[key]}'"
        for key, expected in declared.items()
        if baked[key] != expected
    ]
    if not _load("check.json")["passed"]:
        problems.append("check.json: the check did not pass")
    if problems:
        raise IngotError("not bundled\n  " + "\n  ".join(problems))


def _write_parts(
    specification: BundleSpec, folder: Path, contract: dict[str, Any]
) -> None:
    """Write every file of the bundle but `bundle.json`."""
    from ingot.bundles.bundle_readme import readme
    from ingot.bundles.c_header import header

    for name in specification.files:
        if name not in WRITTEN:
            shutil.copyfile(name, folder / name)
    texts = [
        Path(f"sources/{path}").read_text(encoding="utf-8")
        for path in specification.sources
        if path.startswith("models/licences/")
    ]
    # Scanners look for this name.
    (folder / "LICENSE").write_text("\n\n".join(texts), encoding="utf-8")
    page = readme(contract, specification.files)
    (folder / "README.md").write_text(page, encoding="utf-8")
    (folder / "model.h").write_text(header(contract), encoding="utf-8")


def _contract(specification: BundleSpec) -> dict[str, Any]:
    """Return the content of `bundle.json`, without any digest of the bundle's files."""
    import importlib.metadata

    from ingot.bundles.contract import ARCHIVE, SCOPE

    baked, checked = _load("bake.json"), _load("check.json")
    contract = specification.contract
    return {
        **contract,
        "generation": _generation(contract),
        "parameters": {
            "scope": SCOPE,
            "archive": ARCHIVE,
            "types": {
                item["name"]: {
                    "element": item["type"],
                    "shape": item["shape"],
                    "sha256": item["sha256"],
                }
                for item in baked["parameters"]
            },
        },
        "module": {"dispatches": _dispatches()},
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
        "check": {
            key: checked[key]
            for key in (
                *("passed", "emulated", "judge", "tokenizer_judge"),
                *("quality", "levels"),
            )
        },
        # The times differ from build to build, so they are in a separate file.
        "benchmarks": {
            "file": f"{specification.bundle}.bench.json",
            "schema": _load("bench.json")["schema"],
        },
    }


def _generation(contract: dict[str, Any]) -> dict[str, Any] | None:
    """Return how texts begin and end, with what the tokenizer tells about it."""
    from ingot.bundles.token_ids import ending_ids, unused_ids

    given: dict[str, Any] | None = contract["generation"]
    if given is None or contract["text"] is None:
        return given
    tokenizer = _load(contract["text"]["tokenizer"])
    ends = dict.fromkeys([*given["end_tokens"], *ending_ids(tokenizer)])
    unused = unused_ids(tokenizer, contract["dims"]["n_vocab"])
    return {**given, "end_tokens": [*ends], "unused": unused}


def _dispatches() -> dict[str, int]:
    """Return how many dispatches the code of each function of the module records."""
    from ingot.checks.artifact_fit import dispatches, dump_module

    return dispatches(dump_module(Path("model.vmfb").read_bytes()))


def _inputs(specification: BundleSpec, baked: dict[str, Any]) -> dict[str, Any]:
    """Return the digests of everything that the bundle was made from."""
    from ingot.bundles.tarball import file_digest

    return {
        "sources": {
            path: _digest(*file_digest(Path(f"sources/{path}")))
            for path in specification.sources
        },
        "linked_module": _digest(*file_digest(Path("linked.mlir"))),
        "weights": {
            "origin": specification.weights_origin,
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


if __name__ == "__main__":
    main()
