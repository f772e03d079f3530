"""Run `doit tar`: pack a bundle."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ingot.bundles.pack import pack
from ingot.bundles.reader import open_bundle
from ingot.cli.bundle_commands import built_bundle
from ingot.cli.commands import Call
from ingot.cli.variables import one_of_each
from ingot.errors import IngotError
from ingot.project.catalogue import read, requested_models
from ingot.project.selection import select


def tar(call: Call) -> int:
    """Write the tar of bundle=, or of the built bundle of a model.

    Raises: IngotError if it is not built, not as it was packed, or nobody's to give.
    """
    folder = _asked_folder(call)
    to = call.variables.get("to", "")
    if to == "-":
        pack(folder, sys.stdout.buffer)
        return 0
    name = open_bundle(folder).name.replace("@", "-")
    path = Path(to).expanduser() if to else folder.parent / f"{name}.tar"
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with partial.open("xb") as file:
            sha256, size_bytes = pack(folder, file)
        partial.replace(path)
    except OSError as error:
        raise IngotError(f"{path}: cannot be written; {error.strerror}") from error
    finally:
        partial.unlink(missing_ok=True)
    print(f"{path}: {size_bytes} bytes, sha256 {sha256}")
    return 0


def _asked_folder(call: Call) -> Path:
    """Return the folder of bundle=, or of the selected model and target.

    Raises: IngotError if both are given, or the model is not built.
    """
    variables = {name: x for name, x in call.variables.items() if name != "to"}
    if "bundle" not in variables:
        catalogue = read(call.root, requested_models(variables))
        chosen = select(catalogue, variables)
        names = one_of_each("doit tar", chosen.models, chosen.targets)
        return built_bundle(call.root, *names)
    for name in ("model", "target"):
        if name in variables:
            text = f"{name}= and bundle= are two ways to name a bundle"
            raise IngotError(text, f"leave out {name}=")
    return Path(variables["bundle"]).expanduser()
