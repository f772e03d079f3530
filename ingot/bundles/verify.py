"""Verify that a bundle is complete, loadable, and correct on its target.

IREE neither runs nor parses any part of the bundle before this module has compared
every byte with the digests that were packed.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import tempfile
from pathlib import Path

from ingot.bundles.golden_run import verify_prompts, verify_sentences
from ingot.bundles.reader import Bundle, read_bundle
from ingot.bundles.tarball import file_digest, read_tar, write_tar
from ingot.bundles.target_runner import runner_for
from ingot.engine import process
from ingot.errors import IngotError, counted
from ingot.model.runner import Runner


def verify(path: Path, root: Path | None = None) -> str:
    """Return the report about a bundle, which is a folder or a tar.

    `root` is the checkout whose `targets/` describe how to run targets that this
    machine does not run natively.

    Raises: IngotError with the reason why the bundle is rejected.
    """
    root = root or Path.cwd()
    if path.is_dir():
        return _report(read_bundle(path.absolute()), path.name, root)
    if not path.is_file():
        raise IngotError(f"{path}: no such bundle", "a bundle is a folder or a tar")
    with tempfile.TemporaryDirectory(prefix="bundle-") as name:
        # Errors name the folder.
        folder = Path(name) / "files" / path.name
        folder.mkdir(parents=True)
        read_tar(path, folder)
        bundle = read_bundle(folder)
        _check_form(path, bundle, Path(name) / "again.tar")
        return _report(bundle, path.name, root)


def _report(bundle: Bundle, label: str, root: Path) -> str:
    files = counted(len(bundle.contract["files"]) + 1, "file")
    lines = [f"{label}: {bundle.name}", f"  complete: {files} as packed"]
    exported = _exported(bundle.folder / "model.vmfb")
    for entry in bundle.entry_points:
        if entry.name not in exported:
            raise IngotError(f"model.vmfb: does not export '{entry.name}'")
    runtime = importlib.metadata.version("iree-base-runtime")
    entries = ", ".join(entry.name for entry in bundle.entry_points)
    lines.append(f"  loads: iree-base-runtime {runtime} reads {entries}")
    lines.append(f"  correct: {_golden(bundle, root)}")
    return "\n".join(lines)


def _exported(vmfb: Path) -> set[str]:
    """Return the names of the functions that a module exports.

    Raises: IngotError if the installed runtime cannot read it.
    """
    from ingot.runtime.invoke import program

    argv = (program(Runner("local-sync"), "iree-dump-module"), "--output=metadata")
    done = process.run((*argv, str(vmfb)), vmfb.parent, dict(os.environ))
    text = done.output.decode(errors="replace")
    if done.exit_code != 0:
        words = (text.strip().splitlines() or ["no output"])[-1]
        raise IngotError(f"model.vmfb: the installed runtime cannot read it; {words}")
    _, _, exports = text.partition("Exported Functions:")
    return set(re.findall(r"^ +\[ *\d+\] ([\w.$]+)\(", exports, re.MULTILINE))


def _golden(bundle: Bundle, root: Path) -> str:
    """Return a report on running the golden sentences or prompts.

    Raises: IngotError if a token id, an embedding or a logit is wrong.
    """
    golden = json.loads((bundle.folder / "golden.json").read_text(encoding="utf-8"))
    if not golden["cases"]:
        return "not tested: the bundle has no golden sentences or prompts"
    if "ids" in golden:
        return verify_prompts(bundle, golden, runner_for(bundle, root))
    return verify_sentences(bundle, golden, runner_for(bundle, root))


def _check_form(path: Path, bundle: Bundle, again: Path) -> None:
    """Compare the tar with the one that the same files produce.

    Raises: IngotError if it differs in something that no file's digest covers.
    """
    top = bundle.name.replace("@", "-")
    write_tar(again, top, {file.name: file for file in bundle.folder.iterdir()})
    if file_digest(again) != file_digest(path):
        raise IngotError(
            f"{path.name}: the files are correct, but the tar around them is not",
            "fetch it again",
        )
